"""Ollama: requests, lines, ids and errors."""

import base64
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.config.access import provider_access
from dirge_py.config.schema import config_from
from dirge_py.providers.catalog import ModelProfile
from dirge_py.providers.ollama import OllamaParser, explain_error
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    ResponseSchema,
    StreamError,
    StreamOptions,
    StreamStart,
    TextDelta,
    ThinkingEnd,
    ToolSpec,
)
from dirge_py.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
    user_text,
)
from tests.security.sizes import size
from tests.support.fake_service import ModelReply, RawReply
from tests.support.provider_client import READ, Client, calls_of, done_of, text_of, thinking_of

NDJSON = {"content-type": "application/x-ndjson"}
JSON = {"content-type": "application/json"}
PICTURE = ImageBlock(asset_id="shot", media_type="image/png")
LS = ToolSpec(name="ls", description="List.", parameters={"type": "object", "properties": {}})


@pytest.fixture
def ollama(http, serve):
    return lambda *replies: Client(http, "ollama", serve(*replies))


def lines(*payloads):
    return RawReply(body="".join(json.dumps(p) + "\n" for p in payloads), headers=NDJSON)


def chat_line(done=None, **message):
    end = {"done": True, "done_reason": done} if done else {"done": False}
    return {"model": "fake", "message": {"role": "assistant", **message}, **end}


def called(name, arguments, **more):
    return {**more, "function": {"name": name, "arguments": arguments}}


def refusal(status, words):
    return RawReply(status=status, body=json.dumps({"error": words}), headers=JSON)


async def test_minimal_request_has_default_members(ollama):
    client = ollama(ModelReply(text="x"))
    body = await client.sent()

    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello"},
        ],
        "stream": True,
        "truncate": False,
        "shift": False,
        "think": False,
    }
    assert client.service.requests[0].path == "/api/chat"


async def test_history_is_sent_with_calls_as_objects_and_results_by_name(ollama):
    history = (
        user_text("look"),
        AssistantMessage(
            content=(
                ThinkingBlock(text="hm"),
                TextBlock("I look."),
                ToolCallBlock(id="a", name="read", arguments={"path": "x"}),
                ToolCallBlock(id="b", name="read", arguments="{not json"),
            ),
            model="work/m",
        ),
        ToolResultMessage(tool_call_id="a", tool_name="read", content=(TextBlock("one"),)),
        ToolResultMessage(tool_call_id="b", tool_name="read", content=(), is_error=True),
    )
    body = await ollama(ModelReply(text="x")).sent(messages=history, tools=(READ,))

    assert body["messages"][2:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "thinking": "hm",
            "tool_calls": [
                {"id": "a", "function": {"name": "read", "arguments": {"path": "x"}}},
                {"id": "b", "function": {"name": "read", "arguments": {"unparsed": "{not json"}}},
            ],
        },
        {"role": "tool", "tool_name": "read", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_name": "read", "tool_call_id": "b", "content": "(no output)"},
    ]
    function = {"name": "read", "description": "Read.", "parameters": dict(READ.parameters)}
    assert body["tools"] == [{"type": "function", "function": function}]


async def test_thinking_of_another_service_is_not_sent(ollama):
    answer = AssistantMessage(
        content=(ThinkingBlock(text="sealed", signature="s"), TextBlock("Yes.")), model="claude/x"
    )
    body = await ollama(ModelReply(text="x")).sent(
        messages=(user_text("?"), answer, user_text("go on"))
    )

    assert body["messages"][2] == {"role": "assistant", "content": "Yes."}


async def test_images_are_sent_in_images_member(ollama, tmp_path):
    (tmp_path / "shot").write_bytes(b"png")
    history = (
        UserMessage(content=(TextBlock("What is this?"), PICTURE)),
        AssistantMessage(content=(ToolCallBlock(id="a", name="read", arguments={}),)),
        ToolResultMessage(tool_call_id="a", tool_name="read", content=(PICTURE,)),
    )
    body = await ollama(ModelReply(text="x")).sent(
        messages=history, asset_dir=str(tmp_path), system=""
    )
    encoded = base64.b64encode(b"png").decode()

    first, _, result, shown = body["messages"]
    assert first == {"role": "user", "content": "What is this?", "images": [encoded]}
    assert (result["role"], shown["role"], shown["images"]) == ("tool", "user", [encoded])


async def test_missing_image_is_replaced_by_text(ollama, tmp_path):
    message = UserMessage(content=(PICTURE,))
    body = await ollama(ModelReply(text="x")).sent(
        messages=(message,), asset_dir=str(tmp_path), system=""
    )

    assert "images" not in body["messages"][0]
    assert "can no longer be read" in body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("model", "level", "think"),
    [
        ("work/qwen3:8b", "off", False),
        ("work/qwen3:8b", "minimal", True),
        ("work/qwen3:8b", "xhigh", True),
        ("work/gpt-oss:20b", "minimal", "low"),
        ("work/gpt-oss:20b", "medium", "medium"),
        ("work/gpt-oss:120b-cloud", "xhigh", "high"),
        ("work/gpt-oss:20b", "off", None),
    ],
)
async def test_thinking_level_is_translated_per_model(ollama, model, level, think):
    body = await ollama(ModelReply(text="x")).sent(model=model, thinking_level=level)

    assert body.get("think") == think


@pytest.mark.parametrize(
    "words", ['"m" does not support thinking', 'think value "low" is not supported for this model']
)
async def test_model_without_thinking_support_is_retried_without_thinking(ollama, words):
    client = ollama(refusal(400, words), ModelReply(text="one"), ModelReply(text="two"))
    stream = find_provider("ollama").make(settings_of(client), client.http)
    answers = [await ask_model(stream, "work/m"), await ask_model(stream, "work/m")]

    assert [text_of(events) for events in answers] == ["one", "two"]
    assert [seen.json["think"] for seen in client.service.requests] == [True, False, False]


def settings_of(client):
    return ProviderSettings(alias="work", type="ollama", base_url=client.url)


async def ask_model(stream, model):
    context = LlmContext(system_prompt="", messages=(user_text("hello"),))
    options = StreamOptions(model=model, thinking_level="high")
    return [event async for event in stream(context, options, AbortSignal())]


async def test_token_limits_are_sent_only_if_known(ollama):
    def profile(model):
        return ModelProfile(window_tokens=32_768)

    client = ollama(ModelReply(text="x"), ModelReply(text="x"))
    known = await client.sent(profile_of=profile, max_output_tokens=900)
    unknown = await client.sent()

    assert known["options"] == {"num_ctx": 32_768, "num_predict": 900}
    assert "options" not in unknown


@pytest.mark.parametrize(
    ("setting", "sent"), [("0", "0"), ("5m", "5m"), ("-1", -1), ("300", 300), ("-1m", "-1m")]
)
async def test_keep_alive_setting_is_sent(ollama, setting, sent):
    assert (await ollama(ModelReply(text="x")).sent(keep_alive=setting))["keep_alive"] == sent


async def test_response_schema_is_sent_as_format(ollama):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    asked_for = ResponseSchema(name="verdict", schema=schema)

    assert (await ollama(ModelReply(text="{}")).sent(response_schema=asked_for))["format"] == schema


@pytest.mark.parametrize(
    ("choice", "offered"),
    [("auto", ["read", "ls"]), ("required", ["read", "ls"]), (NamedTool("ls"), ["ls"])],
)
async def test_named_tool_choice_offers_only_that_tool(ollama, choice, offered):
    body = await ollama(ModelReply(text="x")).sent(tools=(READ, LS), tool_choice=choice)

    assert [tool["function"]["name"] for tool in body["tools"]] == offered


async def test_tool_choice_none_offers_no_tools(ollama):
    assert "tools" not in await ollama(ModelReply(text="x")).sent(tools=(READ,), tool_choice="none")


async def test_authorization_header_is_sent_only_with_key(ollama):
    client = ollama(ModelReply(text="x"), ModelReply(text="x"))
    await client.ask(key=None)
    await client.ask(key="sk-cloud")

    first, second = client.service.requests
    assert "authorization" not in first.headers
    assert second.headers["authorization"] == "Bearer sk-cloud"
    assert first.headers["accept"] == "application/x-ndjson"


def test_remote_ollama_server_needs_no_key():
    entry = {"type": "ollama", "base_url": "http://10.0.0.5:11434", "allow_insecure": True}
    access = provider_access(config_from({"providers": {"lan": entry}}), "lan")

    assert (access.base_url, access.api_key) == ("http://10.0.0.5:11434", None)


async def test_streamed_answer_yields_thinking_text_calls_and_usage(ollama):
    say = ModelReply(text="Yes.", thinking="hm", calls=[("read", {"path": "ä"}), ("ls", {})])
    events = await ollama(say).ask()

    assert events[0] == StreamStart("fake")
    assert (text_of(events), thinking_of(events)) == ("Yes.", "hm")
    assert events.index(ThinkingEnd()) < events.index(TextDelta("Yes."))
    assert [(name, json.loads(text)) for _, name, text in calls_of(events)] == [
        ("read", {"path": "ä"}),
        ("ls", {}),
    ]
    done = done_of(events)
    assert (done.stop_reason, done.usage) == ("toolUse", Usage(input=10, output=5))


async def test_generated_tool_call_ids_are_unique_across_answers(ollama):
    client = ollama(*[ModelReply(calls=[("read", {}), ("read", {})])] * 2)
    first = [call_id for call_id, _, _ in calls_of(await client.ask())]
    content = tuple(ToolCallBlock(id=call_id, name="read", arguments={}) for call_id in first)
    history = (user_text("?"), AssistantMessage(content=content))
    second = [call_id for call_id, _, _ in calls_of(await client.ask(messages=history))]

    assert all(first + second)
    assert len({*first, *second}) == 4


async def test_tool_call_id_from_server_is_kept_unless_history_has_it(ollama):
    client = ollama(
        lines(
            chat_line(tool_calls=[called("read", {}, id="call_a")]),
            chat_line(tool_calls=[called("read", {"n": 1}, id="call_b")]),
            chat_line("stop", tool_calls=[called("read", {"n": 1}, id="call_b")]),
        )
    )
    block = ToolCallBlock(id="call_a", name="read", arguments={})
    events = await client.ask(messages=(user_text("?"), AssistantMessage(content=(block,))))
    ids = [call_id for call_id, _, _ in calls_of(events)]

    assert len(ids) == 2
    assert ids[0] != "call_a"
    assert ids[1] == "call_b"


async def test_string_arguments_are_kept_as_text(ollama):
    events = await ollama(lines(chat_line("stop", tool_calls=[called("read", '{"a": 1}')]))).ask()

    assert calls_of(events)[0][2] == '{"a": 1}'


async def test_unstreamed_json_answer_is_parsed(ollama):
    whole = chat_line("stop", content="All of it.") | {"prompt_eval_count": 3}
    events = await ollama(RawReply(body=json.dumps([whole]), headers=JSON)).ask()

    assert text_of(events) == "All of it."
    assert done_of(events).usage == Usage(input=3)


async def test_missing_token_counts_give_no_usage(ollama):
    assert done_of(await ollama(lines(chat_line("stop", content="x"))).ask()).usage is None


async def test_truncated_answer_has_stop_reason_length(ollama):
    assert done_of(await ollama(ModelReply(text="x", stop="length")).ask()).stop_reason == "length"


@pytest.mark.parametrize("reason", ["load", "unload"])
async def test_answer_that_only_loads_model_is_retryable(ollama, reason):
    error = await ollama(lines(chat_line(reason, content=""))).error()

    assert error.is_retryable
    assert "gave no answer" in error.message


async def test_error_mid_stream_keeps_text(ollama):
    broken = lines(chat_line(content="so far"), {"error": "an error was encountered while running"})
    events = await ollama(broken).ask()

    assert text_of(events) == "so far"
    assert isinstance(events[-1], StreamError)
    assert events[-1].error.phase == "stream"


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5])
async def test_a09_text_survives_cuts_inside_characters_and_lines(ollama, chunk_bytes):
    client = ollama(ModelReply(text="Grüße \U0001f600", delta_chars=2, chunk_bytes=chunk_bytes))
    events = await client.ask(keep_alive="0")

    assert text_of(events) == "Grüße \U0001f600"
    assert done_of(events).stop_reason == "stop"
    assert client.service.requests[0].json["keep_alive"] == "0"


FAILURES = [
    (
        404,
        'model "llama9" not found, try pulling it first',
        "invalid_request",
        "`ollama pull llama9`",
    ),
    (404, "404 page not found", "invalid_request", "without `/v1`"),
    (
        503,
        "server busy, please try again.  maximum pending requests exceeded",
        "server",
        "later",
    ),
    (
        500,
        "timed out waiting for llama runner to start - progress 0.00 - ",
        "server",
        "ollama serve",
    ),
    (500, "llama runner process has terminated: signal: killed", "server", "ollama serve"),
    (
        500,
        "model requires more system memory (44.0 GiB) than is available (7.6 GiB)",
        "invalid_request",
        "smaller model",
    ),
    (
        500,
        "llama runner process has terminated: cudaMalloc failed: out of memory",
        "invalid_request",
        "window_tokens",
    ),
    (
        400,
        "registry.ollama.ai/library/gemma:2b does not support tools",
        "invalid_request",
        "tools",
    ),
    (400, "the input length exceeds the context length", "context_length", "/compact"),
    (500, "this model is missing data required for image input", "invalid_request", "vision"),
    (401, "unauthorized", "auth", "Set `api_key_env` of `[providers.work]`."),
]


@pytest.mark.parametrize(("status", "words", "kind", "hint"), FAILURES)
async def test_ollama_error_has_kind_and_hint_with_fix(ollama, status, words, kind, hint):
    error = await ollama(refusal(status, words)).error(model="work/llama9")

    assert (error.kind, error.status) == (kind, status)
    assert hint in error.hint
    assert error.is_retryable == (kind == "server")


@pytest.mark.parametrize(
    ("words", "kind", "hint"),
    [(words, kind, hint) for status, words, kind, hint in FAILURES if status not in {401, 404}],
)
async def test_ollama_error_mid_stream_has_kind_and_hint_with_fix(ollama, words, kind, hint):
    error = await ollama(lines({"error": words})).error(model="work/llama9")

    assert error.kind == kind
    assert hint in error.hint


async def test_refused_connection_to_ollama_suggests_ollama_serve(openai):
    error = await openai().error(base_url="http://127.0.0.1:1/v1")
    message = explain_error(error, model="m", base_url="")

    assert message.hint == "Is Ollama running? `ollama serve` starts it."
    assert explain_error(error, model="m", base_url="http://elsewhere:11434") is error


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "thinking", "tool_calls", "function", "name", "id"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@settings(max_examples=size(60, 400))
@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"message": VALUES, "done": VALUES, "done_reason": VALUES, "model": VALUES}
        ),
        max_size=4,
    )
)
def test_any_json_line_is_parsed_without_exception(payloads):
    answer = OllamaParser(frozenset(), "x")
    events = [event for payload in payloads for event in answer.event("", payload)]
    ids = [call_id for call_id, _, _ in calls_of(events)]

    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"(?s).+", call_id) for call_id in ids)
    assert answer.is_done == any(payload.get("done") is True for payload in payloads)
    assert not answer.finish()
