"""Parsing Responses answers, also those of servers that imitate OpenAI."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.providers.openai_responses import ResponsesParser, unpack_item
from dirge_py.providers.stream_parser import ServiceError
from dirge_py.testing.wire_formats import wire_events
from dirge_py.types.llm import (
    CompactionDone,
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallEnd,
)
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    Usage,
    user_text,
)
from tests.security.sizes import size
from tests.support.fake_service import ModelReply, RawReply
from tests.support.provider_client import Client, calls_of, done_of, text_of, thinking_of

JSON = {"content-type": "application/json"}
SAID = ModelReply(
    text="Yes, ünï.", thinking="hm", calls=[("read", {"a": 1}), ("ls", {})], delta_chars=3
)


@pytest.fixture
def responses(http, serve):
    return lambda *replies: Client(http, "openai-responses", serve(*replies))


def payloads(say=SAID):
    return [
        json.loads(event.split("data: ", 1)[1]) for event in wire_events("openai-responses", say)
    ]


def read(sent, taken=frozenset()):
    """The events of these payloads."""
    answer = ResponsesParser(taken, "new")
    return [event for payload in sent for event in answer.event("", payload)]


def content_of(events):
    """The text and calls of an answer."""
    ends = {event.key: event.arguments for event in events if isinstance(event, ToolCallEnd)}
    seals = [unpack_item(e.signature) for e in events if isinstance(e, ThinkingEnd) and e.signature]
    done = events[-1]
    assert isinstance(done, StreamDone), done
    calls = [
        (call_id, name, json.loads(text) if whole is None else whole)
        for (call_id, name, text), whole in zip(calls_of(events), ends.values(), strict=True)
    ]
    return text_of(events), thinking_of(events), calls, seals, done


def item(kind, **members):
    return {"type": kind, "id": f"{kind}_1", **members}


def added(raw, **at):
    return {"type": "response.output_item.added", "output_index": 0, "item": raw, **at}


def closed(raw, **at):
    return {**added(raw, **at), "type": "response.output_item.done"}


def ended(*output, status="completed", **members):
    response = {"status": status, "model": "fake", "output": list(output), **members}
    return {"type": f"response.{status}", "response": response}


def message(text, **members):
    return item("message", content=[{"type": "output_text", "text": text}], **members)


def called(arguments, call_id="call_x", **members):
    return item("function_call", call_id=call_id, name="read", arguments=arguments, **members)


async def test_streamed_answer_yields_thinking_text_calls_and_usage_in_order(responses):
    say = ModelReply(
        text="Yes.", thinking="hm", signature="gAAA", calls=[("read", {})], usage=(100, 9, 60, 7)
    )
    events = await responses(say).ask()
    reasoning = {
        "id": "rs_0",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gAAA",
    }

    assert events[:3] == [
        StreamStart("fake"),
        ThinkingDelta("hm"),
        ThinkingEnd(signature=json.dumps(reasoning, separators=(",", ":"))),
    ]
    assert events[3] == TextDelta("Yes.")
    assert calls_of(events) == [("call_0", "read", "{}")]
    assert events[-1] == StreamDone(
        stop_reason="toolUse", usage=Usage(input=100, output=9, cache_read=60, cache_write=7)
    )


def is_kind(*words):
    return lambda payload: any(word in payload["type"] for word in words)


@pytest.mark.parametrize(
    "left_out",
    [
        is_kind(".delta"),
        is_kind("_text.done", "part.", "arguments.done"),
        is_kind("output_item.added"),
        is_kind("output_item.done", "_text.done", "part.", "arguments.done"),
        is_kind(".created", ".in_progress"),
        is_kind("output_item", "part", "delta", "text.done", "arguments"),
    ],
    ids=[
        "no deltas",
        "no complete parts",
        "no added items",
        "no completed items",
        "no start events",
        "only the end",
    ],
)
def test_missing_events_are_filled_in_from_other_events(left_out):
    sent = payloads()

    assert content_of(read([p for p in sent if not left_out(p)])) == content_of(read(sent))


@pytest.mark.parametrize("output", [[], None, "none"])
def test_response_completed_without_output_ends_streamed_answer(output):
    sent = payloads()
    last = {**sent[-1], "response": {**sent[-1]["response"], "output": output}}

    assert content_of(read([*sent[:-1], last])) == content_of(read(sent))


def test_items_with_changing_ids_are_matched_by_output_index():
    sent = payloads()
    for number, payload in enumerate(sent):
        if "item_id" in payload:
            payload["item_id"] = f"id{number}"
        if "item" in payload:
            payload["item"] = {**payload["item"], "id": f"id{number}"}
    for number, raw in enumerate(sent[-1]["response"]["output"]):
        raw["id"] = f"last{number}"

    assert content_of(read(sent))[:3] == content_of(read(payloads()))[:3]


@pytest.mark.parametrize("number", [0, None, "x", []])
def test_items_with_same_output_index_are_matched_by_id(number):
    sent = [{**p, "output_index": number} if "output_index" in p else p for p in payloads()]

    assert content_of(read(sent)) == content_of(read(payloads()))


def test_interleaved_calls_are_separated():
    name = "response.function_call_arguments.delta"
    events = read(
        [
            added(called("", "call_a", id="a"), output_index=0),
            added(called("", "call_b", id="b"), output_index=1),
            {"type": name, "output_index": 1, "item_id": "b", "delta": '{"n":'},
            {"type": name, "output_index": 0, "item_id": "a", "delta": "{}"},
            {"type": name, "output_index": 1, "item_id": "b", "delta": "2}"},
            ended(),
        ]
    )

    assert calls_of(events) == [("call_a", "read", "{}"), ("call_b", "read", '{"n":2}')]


def test_final_arguments_override_streamed_arguments():
    piece = {
        "type": "response.function_call_arguments.delta",
        "output_index": 0,
        "delta": '{"a": 1',
    }
    events = read([added(called("")), piece, closed(called('{"a":2}')), ended(called('{"a":2}'))])

    assert [e.arguments for e in events if isinstance(e, ToolCallEnd)] == [{"a": 2}]
    assert len(calls_of(events)) == 1


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}'])
def test_arguments_are_accepted_as_text_and_as_object(arguments):
    assert calls_of(read([ended(called(arguments))])) == [("call_x", "read", '{"a": 1}')]


def test_call_is_open_until_its_item_is_done():
    answer = ResponsesParser(frozenset(), "new")
    answer.event("", added(called("")))
    assert answer.call_is_open
    assert not answer.finish()
    answer.event("", closed(called("{}")))
    assert not answer.call_is_open


async def test_tool_call_id_used_in_history_is_replaced(responses):
    client = responses(ModelReply(calls=[("read", {})]))
    before = AssistantMessage(content=(ToolCallBlock(id="call_0", name="read", arguments={}),))
    ((call_id, _, _),) = calls_of(await client.ask(messages=(user_text("?"), before)))

    assert call_id not in {"", "call_0"}


def test_summary_parts_become_paragraphs():
    name = "response.reasoning_summary_text.delta"
    events = read(
        [
            {"type": name, "output_index": 0, "summary_index": 0, "delta": "**One**"},
            {"type": name, "output_index": 0, "summary_index": 1, "delta": "**Two**"},
            ended(message("Yes.")),
        ]
    )

    assert thinking_of(events) == "**One**\n\n**Two**"


def test_reasoning_text_is_used_instead_of_summary():
    raw = item(
        "reasoning",
        summary=[{"type": "summary_text", "text": "short"}],
        content=[{"type": "reasoning_text", "text": "at length"}],
    )
    piece = {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "at "}
    events = read([added(item("reasoning")), piece, closed(raw), ended(raw, message("Yes."))])

    assert thinking_of(events) == "at length"
    (end,) = (event for event in events if isinstance(event, ThinkingEnd))
    assert unpack_item(end.signature) == raw


def test_encrypted_reasoning_is_kept_and_empty_reasoning_is_dropped():
    hidden = item("reasoning", summary=[], encrypted_content="gAAA")
    events = read([closed(hidden), closed(item("reasoning", id="b", summary=[])), ended()])
    ends = [event for event in events if isinstance(event, ThinkingEnd)]

    assert [unpack_item(end.signature) for end in ends] == [hidden]


def test_message_phase_is_kept_as_signature_after_text():
    events = read([ended(message("I look.", phase="commentary"), called("{}"))])

    assert events[1:3] == [
        TextDelta("I look."),
        ThinkingEnd(signature='{"type":"message","phase":"commentary"}'),
    ]


def test_compaction_item_is_kept_unchanged():
    folded = item("compaction", encrypted_content="c", created_by=None)
    events = read(
        [
            added(item("compaction", encrypted_content="")),
            {"type": "response.compaction.compacting", "output_index": 0},
            closed(folded),
            ended(folded, message("Yes.")),
        ]
    )

    assert [e for e in events if isinstance(e, CompactionDone)] == [CompactionDone(data=folded)]
    assert text_of(events) == "Yes."


def test_unknown_events_and_items_are_ignored():
    search = item("web_search_call", status="completed", action={"type": "search"})
    events = read(
        [
            {"type": "response.queued", "response": {"model": "fake"}},
            added(search),
            {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "x"},
            closed(search),
            {"type": "keepalive"},
            {"type": "response.output_text.annotation.added", "output_index": 1, "annotation": {}},
            ended(search, message("Found."), {"no": "type"}),
        ]
    )

    assert events == [StreamStart("fake"), TextDelta("Found."), StreamDone(stop_reason="stop")]


@pytest.mark.parametrize("why", ["max_output_tokens", "max_messages", None])
def test_incomplete_answer_has_stop_reason_length(why):
    events = read([ended(message("half"), status="incomplete", incomplete_details={"reason": why})])

    assert (text_of(events), events[-1]) == ("half", StreamDone(stop_reason="length"))


def test_filtered_answer_is_refusal_and_keeps_text():
    events = read(
        [
            ended(
                message("half"),
                status="incomplete",
                incomplete_details={"reason": "content_filter"},
            )
        ]
    )

    assert text_of(events) == "half"
    assert events[-1].error.kind == "refused"


@pytest.mark.parametrize("is_streamed", [True, False])
def test_refusal_text_is_shown_in_error(is_streamed):
    part = {"type": "refusal", "refusal": "I cannot."}
    pieces = [
        {"type": "response.refusal.delta", "output_index": 0, "delta": "I can"},
        {"type": "response.refusal.done", "output_index": 0, "refusal": "I cannot."},
    ]
    events = read([*(pieces if is_streamed else []), ended(item("message", content=[part]))])

    assert text_of(events) == "I cannot."
    assert (events[-1].error.kind, "I cannot" in events[-1].error.message) == ("refused", True)


FAILURES = [
    ("rate_limit_exceeded", "Rate limit reached for m on tokens per min", "rate_limit"),
    ("server_error", "The model had an error. You can retry.", "network"),
    ("context_length_exceeded", "Your input exceeds the context window", "context_length"),
    ("insufficient_quota", "You exceeded your current quota", "auth"),
    ("invalid_prompt", "Invalid prompt", "invalid_request"),
    ("invalid_image_url", "The image cannot be loaded", "invalid_request"),
    ("image_too_large", "The image is too large", "invalid_request"),
    ("vector_store_timeout", "The vector store timed out", "network"),
    ("cyber_policy", "This request was flagged", "refused"),
    ("bio_policy", "This request was flagged", "refused"),
]


@pytest.mark.parametrize(("code", "words", "kind"), FAILURES)
@pytest.mark.parametrize("shape", ["failed", "flat", "nested"])
async def test_failure_code_maps_to_kind_in_every_event_shape(responses, shape, code, words, kind):
    error = {"code": code, "message": words, "param": None}
    sent = {
        "failed": {"type": "response.failed", "response": {"status": "failed", "error": error}},
        "flat": {"type": "error", "sequence_number": 3, **error},
        "nested": {"type": "error", "error": {"type": None, **error}},
    }[shape]
    pieces = [p for p in payloads(ModelReply(text="half")) if "delta" in p["type"]]
    body = "".join(f"data: {json.dumps(payload)}\n\n" for payload in [*pieces, sent])
    events = await responses(RawReply(body=body)).ask()

    assert text_of(events) == "half"
    assert isinstance(events[-1], StreamError)
    assert (events[-1].error.kind, events[-1].error.phase) == (kind, "stream")
    assert words in events[-1].error.message


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_failed_status_without_error_is_error(status):
    with pytest.raises(ServiceError):
        read([{"type": "response.completed", "response": {"status": status, "error": None}}])


async def test_unstreamed_json_answer_is_parsed(responses):
    whole = payloads()[-1]["response"]
    events = await responses(RawReply(body=json.dumps(whole), headers=JSON)).ask()

    assert events[0] == StreamStart("fake")
    assert content_of(events) == content_of(read(payloads()))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "Too many requests", "code": 429}}, "rate_limit"),
        ({"object": "response", "error": {"code": "server_error", "message": "no"}}, "network"),
        ({"choices": []}, "other"),
    ],
)
async def test_json_body_without_response_is_error(responses, body, kind):
    assert (await responses(RawReply(body=json.dumps(body), headers=JSON)).error()).kind == kind


async def test_done_marker_ends_stream(responses):
    pieces = [p for p in payloads(ModelReply(text="All.")) if "delta" in p["type"]]
    body = "".join(f"data: {json.dumps(payload)}\n\n" for payload in pieces) + "data: [DONE]\n\n"
    events = await responses(RawReply(body=body)).ask()

    assert text_of(events) == "All."
    assert done_of(events).usage is None


async def test_reasoning_item_is_sent_back_in_next_request(responses):
    """The item passes through the blocks that the loop stores."""
    client = responses(
        ModelReply(thinking="hm", signature="gAAA", text="Yes."), ModelReply(text="x")
    )
    events = await client.ask()
    (end,) = (event for event in events if isinstance(event, ThinkingEnd))
    kept = AssistantMessage(
        content=(ThinkingBlock(text="hm", signature=end.signature), TextBlock("Yes.")),
        model="work/m",
    )
    body = await client.sent(messages=(user_text("hello"), kept, user_text("on")))

    assert body["input"][1] == {
        "type": "reasoning",
        "id": "rs_0",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gAAA",
    }


NAMES = st.sampled_from(
    [
        *("id", "type", "content", "summary", "text", "name", "call_id", "arguments", "output"),
        *("status", "usage", "incomplete_details", "encrypted_content", "phase", "refusal"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=6,
)
KINDS_OF_EVENT = sorted({payload["type"] for payload in payloads()} | {"response.refusal.delta"})
KINDS_OF_ITEM = ["message", "reasoning", "function_call", "compaction", "other"]


@st.composite
def strange(draw):
    """An event of a known type with arbitrary members."""
    members = st.dictionaries(NAMES, VALUES, max_size=4)
    event = {name: draw(VALUES) for name in ("output_index", "item_id", "delta", "text")}
    event["item"] = {**draw(members), "type": draw(st.sampled_from(KINDS_OF_ITEM))}
    event["response"] = draw(members)
    return {**event, "type": draw(st.sampled_from(KINDS_OF_EVENT))}


@settings(max_examples=size(40, 600))
@given(st.lists(strange(), max_size=6))
def test_any_event_is_parsed_without_unexpected_exception(sent):
    answer = ResponsesParser(frozenset(), "x")
    events = []
    try:
        for payload in sent:
            events += answer.event("", payload)
    except ServiceError:
        pass
    ids = [call_id for call_id, _, _ in calls_of(events)]

    assert all(ids)
    assert len(ids) == len(set(ids))
    assert sum(isinstance(event, StreamDone | StreamError) for event in events) <= 1
    if answer.is_done:
        assert not answer.finish()
