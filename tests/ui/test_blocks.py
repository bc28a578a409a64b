"""Blocks of the transcript, and known display failures of other agents."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    PlanPhase,
    RetryNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
    UsageReported,
)
from dirge_py.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
    UserMessage,
    user_text,
)
from dirge_py.types.outcomes import Cancelled, Done
from dirge_py.types.tools import text_result
from dirge_py.ui.theme.styles import load_theme, styles_for
from dirge_py.ui.transcript.images import image_size
from dirge_py.ui.transcript.markdown import paint_markdown
from dirge_py.ui.transcript.renderer import TranscriptRenderer
from tests.support.rendered_lines import line_at
from tests.ui.test_transcript import Page

STYLES = styles_for(load_theme("dark"))
START = AgentStart(run_id="r")
DONE = AgentEnd(messages=(), outcome=Done())
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x06" + bytes(2000)


class RenderedEvents:
    """A renderer on a page, with a clock that tests move."""

    def __init__(self, *events: LoopEvent, width: int = 80, assets: Path | None = None) -> None:
        self.now = 0.0
        self.page = Page(STYLES, width)
        self.renderer = TranscriptRenderer(self.page, clock=lambda: self.now, assets=assets)
        self.draw(*events)

    def draw(self, *events: LoopEvent) -> str:
        for event in events:
            self.renderer.on_event(event)
        self.renderer.settle()
        return self.seen

    def after(self, seconds: float) -> str:
        self.now += seconds
        self.renderer.tick()
        return self.seen

    @property
    def seen(self) -> str:
        return self.page.text.strip("\n")

    @property
    def expanded_text(self) -> str:
        """The text with every block unfolded."""
        self.page.expand_all(True)
        return self.page.text


def says(text: str) -> list[LoopEvent]:
    return [MessageUpdate(phase="text_delta", index=0, delta=text)]


def answer(
    text: str = "", *more: object, stop: str = "stop", usage: Usage | None = None
) -> MessageEnd:
    content = (TextBlock(text), *more) if text else more
    return MessageEnd(AssistantMessage(content=content, stop_reason=stop, usage=usage))  # type: ignore[arg-type]


def called(name: str, args: object, text: str, **details: object) -> list[LoopEvent]:
    result = text_result(text, **details)
    return [
        ToolExecutionStart(tool_call_id="c", tool_name=name, args=args),
        ToolExecutionEnd(tool_call_id="c", tool_name=name, result=result, is_error=False),
    ]


@pytest.mark.parametrize("words", [["bash", "-lc", "make test"], ["make", "test"], ["make test"]])
def test_command_as_list_of_words_is_drawn_as_a_line(words: list[str]) -> None:
    rendered = RenderedEvents(*called("bash", {"command": words}, "done"))

    assert "bash make test" in rendered.page.text


# -- text that streams

STREAMED = (
    "# Title [bold]\n\nOne **two** [brackets] and [/] more.\n\n"
    "| a | b |\n|---|---|\n| 日本 | [x] |\n\n```python\nprint('[red]')\n```\n\n- last\n- `item`\n"
)


@given(st.lists(st.integers(1, 25), min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
def test_streamed_text_is_drawn_exactly_once(steps: list[int]) -> None:
    rendered = RenderedEvents(MessageStart(AssistantMessage()))
    at = 0
    while at < len(STREAMED):
        step = steps[at % len(steps)]
        rendered.draw(*says(STREAMED[at : at + step]))
        at += step
    seen = rendered.draw(answer(STREAMED))
    whole = RenderedEvents()
    whole.renderer.replay([AssistantMessage(content=(TextBlock(STREAMED),))])

    assert seen == whole.page.text
    assert seen.count("[brackets] and [/] more") == 1


def test_unclosed_code_fence_is_drawn_as_code() -> None:
    rendered = RenderedEvents(
        MessageStart(AssistantMessage()), *says("Look:\n\n```python\nx = [1]\n# not a title")
    )

    assert rendered.page.text == "Look:\n\n  x = [1]\n  # not a title"


@pytest.mark.parametrize("unit", ["| a | b |\n", "> quoted\n", "- one\n", "  in the item\n\n"])
def test_long_markdown_block_is_split_without_losing_lines(unit: str) -> None:
    head = {"|": "| x | y |\n|---|---|\n", " ": "- item\n\n"}.get(unit[0], "")
    rendered = RenderedEvents(MessageStart(AssistantMessage()))
    text = head + unit * 700
    for at in range(0, len(text), 900):
        rendered.draw(*says(text[at : at + 900]))
    seen = rendered.draw(answer(text))

    assert len(rendered.page.blocks) > 1
    word = {"|": "a │ b", ">": "quoted", "-": "one", " ": "in the item"}[unit[0]]
    assert seen.count(word) == 700


def test_rows_of_split_table_stay_table_rows() -> None:
    rows = "".join(f"| {n} | row |\n" for n in range(300))
    rendered = RenderedEvents(MessageStart(AssistantMessage()))
    for at in range(0, len(rows), 500):
        rendered.draw(*says(("| n | what |\n|--:|---|\n" if not at else "") + rows[at : at + 500]))
    seen = rendered.draw(answer(f"| n | what |\n|--:|---|\n{rows}", stop="stop"))

    assert "|" not in seen
    assert seen.count("│ row") == 300


def test_endless_line_is_split_into_several_blocks() -> None:
    rendered = RenderedEvents(MessageStart(AssistantMessage()))
    for _ in range(40):
        rendered.draw(*says("word " * 200))

    assert rendered.page.text.count("word") == 8000
    assert len(rendered.page.blocks) > 3


def test_text_streamed_before_interrupt_stays() -> None:
    rendered = RenderedEvents(START, MessageStart(AssistantMessage()), *says("Half of an ans"))
    seen = rendered.draw(
        answer("Half of an ans", stop="aborted"),
        AgentEnd(messages=(), outcome=Cancelled(reason="user")),
    )

    assert seen == "Half of an ans\n\n· Interrupted."


def test_pending_text_is_drawn_when_run_ends() -> None:
    rendered = RenderedEvents(START, MessageStart(AssistantMessage()))
    rendered.renderer.on_event(says("Half")[0])
    rendered.renderer.on_event(AgentEnd(messages=(), outcome=Cancelled(reason="user")))

    assert rendered.page.text.startswith("Half")


# -- links and invisible characters


@pytest.mark.parametrize(
    ("source", "shown", "links"),
    [
        ("[docs](https://a.org/x)", "docs (https://a.org/x)", {"https://a.org/x"}),
        (
            "[https://a.org](https://evil.example/y)",
            "https://a.org → really https://evil.example/y",
            {"https://evil.example/y"},
        ),
        (
            "[a.org/login](https://a.org@evil.example/)",
            "a.org/login → really https://a.org@evil.example/",
            {"https://a.org@evil.example/"},
        ),
        ("[www.a.org](https://a.org/)", "www.a.org (https://a.org/)", {"https://a.org/"}),
        ("<https://a.org/x>", "https://a.org/x", {"https://a.org/x"}),
        ("[os.path](https://b.org/p)", "os.path (https://b.org/p)", {"https://b.org/p"}),
        ("[x](file:///etc/passwd)", "[x](file:///etc/passwd)", set()),
        ("[x](ssh://host/)", "x (ssh://host/)", set()),
        ("[here](docs/a.md)", "here (docs/a.md)", set()),
    ],
)
def test_link_always_shows_its_target(source: str, shown: str, links: set[str]) -> None:
    [line] = paint_markdown(source, 80, STYLES)

    assert line.text == shown
    assert {part.style.link for part in line if part.style and part.style.link} == links


def test_link_cannot_carry_terminal_escape_codes() -> None:
    source = (
        "[x](<https://a.org/\x1b]8;;https://evil.example\x1b\\>) [y](https://a.org/%07&#27;&#7;z)"
    )
    rendered = RenderedEvents()
    rendered.renderer.replay([AssistantMessage(content=(TextBlock(source),))])
    links = [
        part.style.link
        for y in range(rendered.page.height)
        for part in line_at(rendered.page, y) or ()
        if part.style and part.style.link
    ]

    assert links
    assert all(link.isascii() and link.isprintable() for link in links)


@pytest.mark.parametrize(
    "source",
    ["a&#x202e;b", "[a&#x202E;b](https://x.org)", "<https://x.org/%E2%80%AEb>"],
)
def test_invisible_character_as_html_entity_is_shown_by_code_point(source: str) -> None:
    text = "\n".join(line.text for line in paint_markdown(source, 80, STYLES))

    assert "\u202e" not in text
    assert "<U+202E>" in text


def test_escape_codes_in_messages_and_errors_are_stripped() -> None:
    evil = "a\x1b]0;owned\x07\x1b[31mb [bold]c[/]"
    rendered = RenderedEvents(
        START,
        MessageEnd(UserMessage(content=(TextBlock(evil),), attached=(evil,))),
        MessageEnd(user_text(f"The person ran `{evil}` (exit 1):\n{evil}", "shell")),
        PlanPhase(phase="plan", step=1, state="ended", summary=evil),
        *called("todo", {}, "x", items=[{"id": "1", "text": evil, "status": "pending"}]),
        RetryNotice(attempt=1, delay_ms=5000, error=evil),
    )

    assert "\x1b" not in rendered.page.text
    assert "owned" not in rendered.page.text
    assert rendered.page.text.count("ab [bold]c[/]") == 7


# -- retries and empty answers


def test_retry_notice_counts_down_and_vanishes_when_next_attempt_starts() -> None:
    rendered = RenderedEvents(START, RetryNotice(attempt=1, delay_ms=8000, error="overloaded"))
    assert rendered.page.text == "! Retrying in 8 s (attempt 2): overloaded"
    assert rendered.renderer.has_something_to_tick
    assert rendered.after(3) == "! Retrying in 5 s (attempt 2): overloaded"
    assert rendered.after(6) == "! Retrying now (attempt 2): overloaded"
    assert not rendered.renderer.has_something_to_tick
    assert not rendered.renderer.has_calls_running

    assert rendered.draw(MessageStart(AssistantMessage()), *says("Here I am.")) == "Here I am."


def test_expanded_transcript_shows_retry_notices() -> None:
    rendered = RenderedEvents(
        MessageEnd(user_text("go")), RetryNotice(attempt=1, delay_ms=9, error="overloaded")
    )

    assert rendered.draw(MessageStart(AssistantMessage()), *says("Yes.")) == "› go\n\nYes."
    assert rendered.expanded_text == "› go\n· Attempt 2: overloaded\n\nYes."


def test_second_retry_notice_replaces_first() -> None:
    rendered = RenderedEvents(START, RetryNotice(attempt=1, delay_ms=2000, error="overloaded"))

    assert (
        rendered.draw(RetryNotice(attempt=2, delay_ms=4000, error="reset"))
        == "! Retrying in 4 s (attempt 3): reset"
    )


def test_partial_text_of_failed_attempt_is_removed_on_retry() -> None:
    rendered = RenderedEvents(
        START,
        MessageStart(AssistantMessage()),
        MessageUpdate(phase="thinking_delta", index=0, delta="hm"),
        MessageUpdate(phase="text_delta", index=1, delta="Half an ans"),
        MessageUpdate(phase="toolcall_start", index=2, tool_call_id="c", tool_name="bash"),
    )
    assert "Half an ans" in rendered.page.text

    assert (
        rendered.draw(RetryNotice(attempt=1, delay_ms=900, error="cut"))
        == "! Retrying in 1 s (attempt 2): cut"
    )
    assert rendered.draw(*says("The whole answer.")) == "The whole answer."
    assert rendered.draw(answer("The whole answer.")) == "The whole answer."


def test_tick_that_changes_no_number_does_not_redraw() -> None:
    rendered = RenderedEvents(START, RetryNotice(attempt=1, delay_ms=8000, error="overloaded"))
    [block] = rendered.page.blocks
    rendered.after(0.1)

    assert block.version == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [((), "answer."), ((ThinkingBlock(text="hm"),), "answer, after thinking.")],
)
def test_empty_answer_is_reported_once(content: tuple[object, ...], words: str) -> None:
    message = AssistantMessage(content=content)  # type: ignore[arg-type]
    rendered = RenderedEvents(START, MessageStart(AssistantMessage()), MessageEnd(message))
    seen = rendered.draw(AgentEnd(messages=(message,), outcome=Done()))
    stored = RenderedEvents()
    stored.renderer.replay([message])

    assert seen.endswith(f"! The model returned an empty {words} /retry to edit and resend.")
    assert seen.count("The model returned") == stored.page.text.count("The model returned") == 1


def test_tool_calls_and_aborted_answers_are_not_reported_as_empty() -> None:
    call = ToolCallBlock(id="c", name="bash", arguments={})

    assert "said nothing" not in RenderedEvents(START, answer("", call, stop="toolUse")).page.text
    assert "said nothing" not in RenderedEvents(START, answer("", stop="aborted")).page.text


# -- usage summary of a run


def test_run_of_several_turns_ends_with_usage_summary() -> None:
    one, two = Usage(input=10_000, cache_read=8_000, output=200), Usage(input=2_300, output=1_000)
    rendered = RenderedEvents(
        START, answer("one", usage=one), UsageReported(usage=one, cost_usd=0.01)
    )
    rendered.draw(answer("two", usage=two), UsageReported(usage=two, cost_usd=0.0023))
    rendered.now = 74.2

    assert rendered.draw(DONE).endswith(
        "\n\n2 turns · 12.3k in (65% cached) · 1.2k out · $0.0123 · 1 min 14 s"
    )


def test_usage_summary_counts_interrupted_answer_as_minimum_cost() -> None:
    one = Usage(input=1000, output=20)
    rendered = RenderedEvents(
        START, answer("one", usage=one), UsageReported(usage=one, cost_usd=0.01)
    )

    end = rendered.draw(answer("tw", stop="aborted"), DONE)

    assert "1.0k in · 20 out · $0.0100+" in end, "at least that"


def test_short_run_has_no_usage_summary_and_unknown_price_is_named() -> None:
    quick = RenderedEvents(
        START, answer("Yes."), UsageReported(usage=Usage(input=10), cost_usd=1.0), DONE
    )
    slow = RenderedEvents(START, UsageReported(usage=Usage(input=10, output=2)), answer("Yes."))
    slow.now = 6

    assert quick.page.text == "Yes."
    assert slow.draw(DONE) == "Yes.\n\n1 turn · 10 in · 2 out · cost unknown · 6 s"


def test_usage_summary_covers_one_run_only() -> None:
    rendered = RenderedEvents(START, answer("one"), answer("two"), DONE)

    assert rendered.draw(START, answer("three"), DONE).endswith("2 turns\n\nthree")


# -- calls


def test_todo_list_is_drawn_as_checklist() -> None:
    items = [
        {"id": "1", "text": "read", "status": "done"},
        {"id": "2", "text": "change", "status": "in_progress"},
        {"id": "3", "text": "test", "status": "pending"},
    ]

    assert RenderedEvents(*called("todo", {}, "3 items", items=items)).page.text == (
        "✓ todo\n  ☑ read\n  ▶ change\n  ☐ test"
    )
    assert "3 items" in RenderedEvents(*called("todo", {}, "3 items", items="odd")).page.text


def test_question_call_shows_answers_of_user() -> None:
    one = {"questions": [{"question": "Which one?"}]}
    two = {"questions": [{"question": "Which?"}, {"question": "How?"}]}
    text = "The user answered:\n1. Which?\n   left\n2. How?\n   slowly; with care"

    assert RenderedEvents(
        *called("question", one, "The user answered:\n   Which one?\n   left", answered=True)
    ).page.text == ("✓ question Which one?\n  → left")
    assert RenderedEvents(*called("question", two, text, answered=True)).page.text == (
        "✓ question\n  → Which?  left\n  → How?  slowly; with care"
    )
    assert (
        "did not answer"
        in RenderedEvents(*called("question", one, "The user did not answer.")).page.text
    )


def test_interrupted_command_keeps_end_of_its_output() -> None:
    call = {"tool_call_id": "c", "tool_name": "bash", "args": {"command": "make"}}
    wrote = text_result("\n".join(f"line {n}" for n in range(9)))
    rendered = RenderedEvents(
        START,
        ToolExecutionStart(**call),
        ToolExecutionUpdate(partial_result=wrote, **call),
        AgentEnd(messages=(), outcome=Cancelled(reason="user")),
    )

    assert rendered.page.text.startswith(
        "◌ bash make  interrupted\n  … 5 earlier lines\n  line 5\n"
    )


def test_user_shell_command_shows_end_of_its_output() -> None:
    text = "The person ran `ls [x]` (exit 2):\n" + "\n".join(f"line {n}" for n in range(9))
    rendered = RenderedEvents(MessageEnd(user_text(text, "shell")))

    assert rendered.page.text == (
        "! ls [x]  exit 2\n  … 5 earlier lines\n  line 5\n  line 6\n  line 7\n  line 8"
    )
    assert "line 0" in rendered.expanded_text


def test_message_shows_origin_and_turn_of_delivery() -> None:
    live = RenderedEvents(START, TurnStart(turn=3), MessageEnd(user_text("go left", "steering")))
    stored = RenderedEvents()
    stored.renderer.replay([user_text("go left", "steering"), user_text("and then?", "follow_up")])

    assert live.page.text == "› go left\n  steered in → delivered at turn 3"
    assert stored.page.text == "› go left\n  steered in\n\n› and then?\n  queued"


def test_plan_phase_is_drawn_as_heading_with_rule() -> None:
    rendered = RenderedEvents(PlanPhase(phase="explore", step=1, state="started"), width=30)
    assert rendered.page.text == "── 1/4 explore ───────────────"

    seen = rendered.draw(
        PlanPhase(phase="review", step=2, state="ended", summary="Two are missing.")
    )
    assert seen.endswith("── 4/4 review, cycle 2 ───────\n  Two are missing.")


# -- pictures


def test_image_is_one_line_with_name_dimensions_and_size(tmp_path: Path) -> None:
    (tmp_path / "a1").write_bytes(PNG)
    image = ImageBlock(asset_id="a1", media_type="image/png")
    odd = ImageBlock(asset_id="../../etc/passwd", media_type="image/gif")
    prompt = UserMessage(
        content=(TextBlock("Look @p.png"), TextBlock("Attached image p.png:"), image),
        attached=("p.png", "b.txt"),
    )
    rendered = RenderedEvents(MessageEnd(prompt), assets=tmp_path)
    rendered.draw(*called("read", {"path": "p.png"}, "p.png: PNG image"))

    assert "  + p.png · PNG, 640×480, 2.0 KiB\n  + b.txt" in rendered.page.text
    assert RenderedEvents(MessageEnd(UserMessage(content=(odd,))), assets=tmp_path).page.text == (
        "›\n  + image · GIF"
    )


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (PNG, (640, 480)),
        (b"GIF89a" + struct.pack("<HH", 3, 7) + bytes(9), (3, 7)),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x09\0\0\x13\0\0", (10, 20)),
        (b"RIFF\0\0\0\0WEBPVP8L" + bytes(4) + b"\x2f" + struct.pack("<I", 9 | 19 << 14), (10, 20)),
        (
            b"RIFF\0\0\0\0WEBPVP8 " + bytes(7) + b"\x9d\x01\x2a" + struct.pack("<HH", 10, 20),
            (10, 20),
        ),
        (
            b"\xff\xd8\xff\xe0\0\x10JFIF"
            + bytes(10)
            + b"\xff\xc2\0\x11\x08\0\x14\0\x0a"
            + bytes(9),
            (10, 20),
        ),
        (PNG[:20], None),
        (b"GIF89a" + bytes(9), None),
        (b"plain text", None),
        (b"", None),
    ],
)
def test_image_dimensions_are_read_from_file_header(
    head: bytes, size: tuple[int, int] | None
) -> None:
    assert image_size(head) == size


_STARTS = [
    PNG[:16],
    b"GIF87a",
    b"\xff\xd8\xff",
    *(b"RIFF1234WEBPVP8" + x for x in (b"X", b"L", b" ")),
]


@given(st.sampled_from([b"", *_STARTS]), st.binary(max_size=80))
@settings(max_examples=200, deadline=None)
def test_garbage_after_image_header_is_never_an_error(start: bytes, rest: bytes) -> None:
    size = image_size(start + rest)

    assert size is None or min(size) > 0


# -- text for search


def test_block_text_includes_folded_text() -> None:
    diff = "--- a\n+++ a\n@@ -1,1 +1,1 @@\n-old\n+new"
    rendered = RenderedEvents(
        START,
        MessageEnd(user_text("prompt words")),
        answer("answer *words*", ThinkingBlock(text="thought words")),
        *called("bash", {"command": "make"}, "\n".join(f"row {n}" for n in range(20)), exit_code=0),
        MessageEnd(user_text("a\nb\nc\nd\naside words", "harness")),
        PlanPhase(phase="plan", step=1, state="ended", summary="phase words"),
        answer("more"),
        DONE,
    )
    rendered.renderer.diff(diff)
    texts = "\n".join(block.text for block in rendered.page.blocks)

    for words in (
        *("prompt words", "answer *words*", "thought words", "make", "row 3", "aside words"),
        *("phase words", "2 turns", "new"),
    ):
        assert words in texts, words
