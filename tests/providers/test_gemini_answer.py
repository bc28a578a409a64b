"""Parsing Gemini's answers."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.providers.gemini import GeminiParser
from dirge_py.types.llm import StreamError, StreamStart, ToolCallEnd
from dirge_py.types.messages import (
    AssistantMessage,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from tests.security.sizes import size
from tests.support.fake_service import ModelReply, RawReply
from tests.support.provider_client import calls_of, done_of, text_of, thinking_of

JSON = {"content-type": "application/json"}


def chunk(*parts, **more):
    reason = {"finishReason": more.pop("finishReason")} if "finishReason" in more else {}
    words = {"finishMessage": more.pop("finishMessage")} if "finishMessage" in more else {}
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "index": 0, **reason, **words}], **more}


def streamed(*chunks):
    return RawReply(body="".join(f"data: {json.dumps(each)}\r\n\r\n" for each in chunks))


def ended(events):
    return [(e.id, e.arguments) for e in events if isinstance(e, ToolCallEnd)]


async def test_streamed_answer_yields_thinking_text_calls_and_usage_in_order(gemini):
    say = ModelReply(
        text="Hello.",
        thinking="hm",
        calls=[("read", {"p": 1}), ("ls", {})],
        usage=(100, 7, 60, 0),
        delta_chars=2,
    )
    events = await gemini(say).ask()

    assert events[0] == StreamStart("fake")
    assert (thinking_of(events), text_of(events)) == ("hm", "Hello.")
    (first, *one), (second, *two) = calls_of(events)
    assert (one, two) == (["read", '{"p": 1}'], ["ls", "{}"])
    assert first != second
    assert ended(events) == [(first, {"p": 1}), (second, {})]
    assert done_of(events).stop_reason == "toolUse"
    assert done_of(events).usage == Usage(input=100, output=7, cache_read=60, reasoning=1)


async def test_usage_includes_thoughts_and_tool_use_prompt_tokens(gemini):
    counts = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 5,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 20,
        "cachedContentTokenCount": 4,
    }
    first = chunk({"text": "x"}, usageMetadata={"promptTokenCount": 10})
    events = await gemini(streamed(first, chunk(finishReason="STOP", usageMetadata=counts))).ask()

    assert done_of(events).usage == Usage(input=15, output=23, cache_read=4, reasoning=20)


async def test_tool_call_id_from_service_is_kept_unless_history_has_it(gemini):
    history = (
        user_text("a"),
        AssistantMessage(content=(ToolCallBlock(id="g1", name="read", arguments={}),)),
        ToolResultMessage(tool_call_id="g1", tool_name="read", content=()),
    )
    calls = [{"functionCall": {"name": "read", "id": i, "args": {}}} for i in ("g1", "g2", "g2")]
    events = await gemini(streamed(chunk(*calls, finishReason="STOP"))).ask(messages=history)

    ids = [call_id for call_id, _ in ended(events)]
    assert ids[1] == "g2"
    assert len({"g1", *ids}) == 4


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("STOP", "stop"), ("MAX_TOKENS", "length"), ("NEW_ONE", "stop"), ("FUNCTION_CALL", "stop")],
)
async def test_stop_reason_is_mapped(gemini, finish, reason):
    assert done_of(await gemini(ModelReply(text="x", stop=finish)).ask()).stop_reason == reason


@pytest.mark.parametrize(
    "finish",
    ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE"],
)
async def test_refusal_keeps_text_and_gives_reason(gemini, finish):
    last = chunk(finishReason=finish, finishMessage="Because of the rules.")
    events = await gemini(streamed(chunk({"text": "so far"}), last)).ask()

    assert text_of(events) == "so far"
    assert (events[-1].error.kind, events[-1].error.is_retryable) == ("refused", False)
    assert "(Because of the rules)" in events[-1].error.message
    assert "`--model`" in events[-1].error.hint


async def test_blocked_prompt_is_refusal(gemini):
    feedback = {"blockReason": "PROHIBITED_CONTENT", "safetyRatings": []}
    events = await gemini(streamed({"promptFeedback": feedback, "usageMetadata": {}})).ask()

    assert events[-1].error.kind == "refused"
    assert "the content may be prohibited" in events[-1].error.message


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"])
async def test_malformed_answer_is_retryable(gemini, finish):
    text = "Malformed function call: print(default_api.read("
    error = await gemini(streamed(chunk(finishReason=finish, finishMessage=text))).error()

    assert (error.kind, error.phase, error.is_retryable) == ("server", "establish", True)
    assert finish in error.message
    assert error.raw == text


async def test_chunks_after_finish_reason_belong_to_answer(gemini):
    events = await gemini(
        streamed(
            chunk({"text": "a"}, finishReason="STOP"),
            chunk({"text": "b"}),
            {"usageMetadata": {"promptTokenCount": 3}, "modelVersion": "late"},
        )
    ).ask()

    assert text_of(events) == "ab"
    assert done_of(events).usage == Usage(input=3)


async def test_stream_without_finish_reason_is_cut(gemini):
    events = await gemini(streamed(chunk({"text": "half"}))).ask()

    assert text_of(events) == "half"
    assert (events[-1].error.kind, events[-1].error.phase) == ("network", "stream")


async def test_unknown_parts_are_ignored(gemini):
    odd = [
        {"executableCode": {"code": "1"}},
        {"functionCall": 7},
        {"functionCall": {}},
        {"text": 5},
        {},
        "x",
    ]
    events = await gemini(streamed(chunk(*odd, {"text": "a"}, finishReason="STOP"))).ask()

    assert text_of(events) == "a"
    assert done_of(events).stop_reason == "stop"


async def test_unstreamed_json_answer_is_parsed(gemini):
    whole = chunk(
        {"text": "hm", "thought": True},
        {"text": "Hi."},
        {"functionCall": {"name": "read", "args": {"p": 1}}},
        finishReason="STOP",
        usageMetadata={"promptTokenCount": 3, "candidatesTokenCount": 2},
    )
    events = await gemini(RawReply(body=json.dumps(whole), headers=JSON)).ask()

    assert (thinking_of(events), text_of(events)) == ("hm", "Hi.")
    assert [arguments for _, arguments in ended(events)] == [{"p": 1}]
    assert done_of(events).usage == Usage(input=3, output=2)


@pytest.mark.parametrize("last", [chunk({"text": "c"}, finishReason="STOP"), {"usageMetadata": {}}])
async def test_stream_sent_as_json_list_is_parsed(gemini, last):
    chunks = [chunk({"text": "a"}), chunk({"text": "b"}), last]
    events = await gemini(RawReply(body=json.dumps(chunks, indent=2), headers=JSON)).ask()

    assert text_of(events).startswith("ab")
    assert done_of(events).stop_reason == "stop"


ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "candidates",
                    "content",
                    "parts",
                    "text",
                    "thought",
                    "thoughtSignature",
                    "functionCall",
                    "name",
                    "args",
                    "finishReason",
                    "usageMetadata",
                    "promptFeedback",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)


@settings(max_examples=size(60, 400))
@given(
    st.lists(st.dictionaries(st.sampled_from(["candidates", "promptFeedback"]), ANY), max_size=3)
)
def test_any_payload_ends_parser_at_most_once(payloads):
    answer = GeminiParser(frozenset(), "x")
    try:
        for payload in payloads:
            answer.event("", payload)
    except ValueError:
        pass

    ends = [*answer.finish(), *answer.finish()]
    assert len([e for e in ends if hasattr(e, "stop_reason") or isinstance(e, StreamError)]) <= 1
