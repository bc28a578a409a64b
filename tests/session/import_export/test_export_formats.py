import json
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dirge_py.session.codec import decode_message
from dirge_py.session.import_export.export import (
    EXPORT_FORMATS,
    ExportedSession,
    exported_session,
    render_export,
)
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from tests.security.sizes import size
from tests.support.stored_sessions import exchange, record, tool_use

TAGS = {"html", "head", "meta", "title", "style", "body", "section", "h1", "h2", "dl", "dt", "dd"}
TAGS |= {"time", "p", "pre", "em", "details", "summary"}
ATTRIBUTES = {"lang", "charset", "content", "http-equiv", "name", "class", "open"}


def make_export(text):
    call = ToolCallBlock(id="c", name=text, arguments={"command": text})
    return ExportedSession(
        id="s",
        title=text,
        cwd=text,
        model=text,
        created=text,
        messages=[
            user_text(text),
            user_text(text, "harness"),
            AssistantMessage(
                content=(ThinkingBlock(text=text), TextBlock(text), call), error_message=text
            ),
            ToolResultMessage(tool_call_id="c", tool_name=text, content=(TextBlock(text),)),
            CustomMessage(kind=text),
        ],
        times=[text],
    )


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, tuple(name for name, _ in attrs)))


def tags_of(page):
    parser = Tags()
    parser.feed(page)
    parser.close()
    return parser.found


HOSTILE = "</pre></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&lt;<!--"


@settings(max_examples=size(60, 3000), deadline=None)
@example(HOSTILE)
@example("]]>\x1b]0;x\x07\u202e\ud800")
@given(st.text())
def test_message_text_never_adds_tags_to_html_export(text):
    page = render_export(make_export(text), "html")

    assert {tag for tag, _ in tags_of(page)} <= TAGS
    assert {name for _, names in tags_of(page) for name in names} <= ATTRIBUTES
    if text.strip() and text.isprintable():
        assert tags_of(page) == tags_of(render_export(make_export("x"), "html"))
    assert "\x1b" not in page


def test_html_export_loads_no_resources_and_has_no_scripts():
    page = render_export(make_export(HOSTILE), "html")

    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=", re.sub(r">[^<]*<", "><", page))


@settings(max_examples=size(60, 3000), deadline=None)
@example("```\nout of the fence\n````")
@given(st.text(alphabet="`~#\n ab>", max_size=40))
def test_tool_result_in_markdown_export_never_ends_its_code_fence(text):
    page = render_export(
        ExportedSession(
            id="s",
            messages=[
                ToolResultMessage(tool_call_id="c", tool_name="t", content=(TextBlock(text),))
            ],
        ),
        "md",
    )

    lines = page.split("\n## Result of t\n")[1].split("\n")[1:]
    fence = lines[0]
    assert set(fence) == {"`"}
    closing = [n for n, line in enumerate(lines[1:], 1) if re.fullmatch(rf" *{fence}`* *", line)]
    assert lines[closing[0] + 1 :] == [""]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("```py\nx = 1", "```"),
        ("~~~~\n~~~\n```", "~~~~"),
        ("```\n```\n  ```sh", "```"),
        ("```\n```", ""),
        ("``` one `line`", ""),
    ],
)
def test_code_fence_left_open_by_model_is_closed_in_markdown_export(text: str, end: str):
    message = AssistantMessage(content=(TextBlock(text),))

    page = render_export(ExportedSession(id="s", messages=[message, user_text("and then?")]), "md")

    assert f"{text}\n{end and end + chr(10)}\n## You\n\n> and then?\n" in page


def test_prompt_lines_are_quoted_in_markdown_export():
    page = render_export(
        ExportedSession(id="s", messages=[user_text("# not a heading\n\nand more")]), "md"
    )

    assert page.endswith("## You\n\n> # not a heading\n>\n> and more\n")


def test_json_export_holds_messages_and_records_that_can_be_decoded(store):
    record(store, "s", [*exchange("fix \ud800 it", "Done."), *tool_use("c", "ls", "a\x00b")])
    records, loaded = store.events_since("s", 0), store.read("s")

    value = json.loads(render_export(exported_session("s", loaded, records), "json"))

    assert (value["format"], value["v"], value["id"]) == ("dirge-session", 1, "s")
    assert tuple(map(decode_message, value["messages"])) == loaded.messages
    assert value["messages"][0]["at"] == next(r.ts for r in records if r.type == "message")
    assert [(r["seq"], r["id"], r["data"]) for r in value["records"]] == [
        (r.seq, r.id, r.data) for r in records
    ]
    assert value["usage"] == {"input": 200, "output": 40, "cache_read": 80}


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_each_export_format_contains_prompts_answers_calls_and_results(store, form):
    record(store, "s", [*exchange("fix it", "It is done."), *tool_use("c", "make", "all good")])
    document = exported_session("s", store.read("s"), store.events_since("s", 0))

    text = render_export(document, form)

    for words in ("fix it", "It is done.", "make", "all good", str(document.cwd)):
        assert words in text
    assert text.endswith("\n")


def test_markdown_export_shows_images_errors_tokens_and_cost():
    shown = AssistantMessage(content=(TextBlock("See."),))
    picture = ToolResultMessage(
        tool_call_id="c",
        tool_name="read",
        content=(ImageBlock(asset_id="a", media_type="image/png"),),
        is_error=True,
    )
    document = ExportedSession(
        id="s", messages=[shown, picture], usage=Usage(input=1200), cost_usd=0.0123
    )

    page = render_export(document, "md")

    assert "*attached: image/png*" in page
    assert "## Result of read, an error" in page
    assert "* tokens: 1k in, 0 out" in page
    assert "* cost: $0.0123" in page
