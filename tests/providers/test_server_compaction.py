"""Compaction by the service: its blocks are sent back unchanged."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.guards.limits import Limits, Meter
from dirge_py.providers.anthropic import AnthropicParser, messages_request
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.session.codec import decode_message, encode_message
from dirge_py.types.llm import CompactionDone, LlmContext, StreamFn
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import Done
from tests.security.sizes import size
from tests.support.fake_service import FakeService, ModelReply, RawReply
from tests.support.loop_runs import Tool, run_loop
from tests.support.provider_client import Client, done_of, model_call

BLOCK = {
    "type": "compaction",
    "content": "What was done so far: “ünïcode” & <tags>.",
    "encrypted_content": "EuYBCkQYAiJA/+==",
    "signature": "sig==",
    "tool_changes": [{"z": 1, "a": [None, 1.5, True]}],
}
BETA = {"anthropic-beta": "compact-2026-01-12"}


def events_of(*payloads: Mapping[str, Any]) -> RawReply:
    return RawReply(body="".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads))


def block_start(block: Mapping[str, Any], index: int = 0) -> Mapping[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int = 0, **delta: Any) -> Mapping[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def ended(stop: str, index: int = 0, **usage: Any) -> tuple[Mapping[str, Any], ...]:
    return (
        {"type": "content_block_stop", "index": index},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
        {"type": "message_stop"},
    )


def compacted(block: Mapping[str, Any] = BLOCK) -> RawReply:
    return events_of(block_start(block), *ended("compaction", input_tokens=9, output_tokens=3))


def make_stream_fn(
    http: HttpClient, service: FakeService, kind: str = "anthropic", alias: str = "work"
) -> StreamFn:
    url = service.anthropic_url if kind == "anthropic" else service.openai_url
    settings = ProviderSettings(alias=alias, type=kind, base_url=url, api_key="k", headers=BETA)
    return find_provider(kind).make(settings, http)


# -- the answer


async def test_a37_loop_continues_after_server_compaction_and_sends_block_back_unchanged(
    http: HttpClient, serve: Callable[..., FakeService]
) -> None:
    service = serve(compacted(), ModelReply(text="Done."))
    config = compose(
        Meter(Limits(turns=1)).bundle(), config=LoopConfig(model="work/claude-sonnet-4-5")
    )

    run = await run_loop(make_stream_fn(http, service), "go", config=config)

    assert isinstance(run.outcome, Done)
    assert run.outcome.result is not None
    assert (run.outcome.result.response, run.outcome.result.turns) == ("Done.", 1)
    first, second = service.requests
    assert json.dumps(BLOCK, ensure_ascii=False, separators=(",", ":")).encode() in second.body
    assert [message["role"] for message in second.json["messages"]] == ["user", "assistant"]
    assert second.json["messages"][1]["content"] == [BLOCK]
    assert first.headers["anthropic-beta"] == "compact-2026-01-12"
    assert first.json["context_management"] == {"edits": [{"type": "compact_20260112"}]}


@pytest.mark.parametrize(
    ("betas", "edits"),
    [
        ("other-2025-01-01", None),
        ("context-management-2025-06-27", ["clear_tool_uses_20250919"]),
        (
            "compact-2026-01-12, context-management-2025-06-27",
            ["clear_tool_uses_20250919", "compact_20260112"],
        ),
    ],
)
async def test_beta_header_enables_its_context_edits(
    anthropic: Callable[..., Client], betas: str, edits: list[str] | None
) -> None:
    sent = await anthropic(ModelReply(text="x")).sent(headers={"Anthropic-Beta": betas})

    asked = sent.get("context_management")
    assert (asked and [edit["type"] for edit in asked["edits"]]) == edits


async def test_context_edits_applied_by_service_are_ignored(
    anthropic: Callable[..., Client],
) -> None:
    applied = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 4}]}
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    events = await anthropic(
        events_of(
            block_start({"type": "text", "text": "Hi."}),
            {"type": "content_block_stop", "index": 0},
            {**delta, "context_management": applied, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )
    ).ask()

    assert done_of(events).stop_reason == "stop"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5))
@settings(max_examples=size(40, 400), deadline=None)
def test_compaction_block_of_any_json_is_sent_back_unchanged(more: dict[str, Any]) -> None:
    block = {**more, "type": "compaction", "content": "s"}
    # Over the wire, into a session file and out of it.
    answer = AnthropicParser()
    answer.event("", json.loads(json.dumps(block_start(block))))
    (done,) = answer.event("", {"type": "content_block_stop", "index": 0})
    assert isinstance(done, CompactionDone)
    message = AssistantMessage(content=(CompactionBlock(data=done.data, text=done.text),))
    kept = decode_message(json.loads(json.dumps(encode_message(message))))

    context = LlmContext(system_prompt="", messages=[user_text("a"), kept])
    written = messages_request(model_call(context, kind="anthropic"))

    assert json.dumps(written["messages"][1]["content"]) == json.dumps([block])


async def test_loop_continues_after_paused_turn(
    http: HttpClient, serve: Callable[..., FakeService]
) -> None:
    service = serve(ModelReply(text="Searching", stop="pause_turn"), ModelReply(text="Found."))
    config = LoopConfig(model="work/m")
    run = await run_loop(make_stream_fn(http, service), "go", config=config)

    assert [message.role for message in run.new] == ["user", "assistant", "assistant"]
    assert run.new[1].stop_reason == "pause_turn"  # type: ignore[union-attr]
    assert run.outcome.result.turns == 1  # type: ignore[union-attr]
    assert service.requests[1].json["messages"][-1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "Searching"}],
    }


PIECES = [
    pytest.param([block_start(BLOCK)], BLOCK, id="complete"),
    pytest.param(
        [
            block_start({"type": "compaction", "content": None}),
            block_delta(type="compaction_delta", content="What was "),
            block_delta(type="compaction_delta", content="done.", encrypted_content="e=="),
        ],
        {"type": "compaction", "content": "What was done.", "encrypted_content": "e=="},
        id="streamed in pieces",
    ),
    pytest.param(
        [
            block_start({"type": "compaction", "content": "half", "encrypted_content": "old"}),
            block_delta(type="compaction_delta", content=None, encrypted_content=None),
        ],
        {"type": "compaction", "content": None, "encrypted_content": None},
        id="failed",
    ),
]


@pytest.mark.parametrize(("pieces", "block"), PIECES)
async def test_compaction_block_is_assembled_from_pieces(
    anthropic: Callable[..., Client], pieces: list[Any], block: Mapping[str, Any]
) -> None:
    events = await anthropic(events_of(*pieces, *ended("compaction"))).ask()

    (done,) = [event for event in events if isinstance(event, CompactionDone)]
    assert dict(done.data) == block
    assert list(done.data) == list(block)
    assert done.text == (block["content"] or "")
    assert done_of(events).stop_reason == "compaction"


async def test_delta_of_unopened_compaction_block_is_ignored(
    anthropic: Callable[..., Client],
) -> None:
    stray = block_delta(7, type="compaction_delta", content="x")
    events = await anthropic(events_of(stray, *ended("end_turn"))).ask()
    assert [event for event in events if isinstance(event, CompactionDone)] == []
    assert done_of(events).stop_reason == "stop"


async def test_unstreamed_answer_may_contain_compaction_block(
    anthropic: Callable[..., Client],
) -> None:
    message = {
        "type": "message",
        "content": [BLOCK, {"type": "text", "text": "And on."}],
        "stop_reason": "end_turn",
    }
    events = await anthropic(
        RawReply(body=json.dumps(message), headers={"content-type": "application/json"})
    ).ask()
    assert [dict(event.data) for event in events if isinstance(event, CompactionDone)] == [BLOCK]


async def test_a37_usage_of_all_iterations_is_summed(anthropic: Callable[..., Client]) -> None:
    iterations = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
        {
            "type": "message",
            "input_tokens": 23_000,
            "output_tokens": 1_000,
            "cache_read_input_tokens": 400,
            "cache_creation_input_tokens": 50,
        },
    ]
    usage = {"input_tokens": 23_000, "output_tokens": 1_000, "iterations": iterations}
    events = await anthropic(events_of(block_start(BLOCK), *ended("compaction", **usage))).ask()

    assert done_of(events).usage == Usage(
        input=180_000 + 23_000 + 450, output=4_500, cache_read=400, cache_write=50
    )


@pytest.mark.parametrize("iterations", [None, [], "odd", [1, 2]])
async def test_usage_total_is_used_without_iterations(
    anthropic: Callable[..., Client], iterations: Any
) -> None:
    usage = {"input_tokens": 10, "output_tokens": 2, "iterations": iterations}
    events = await anthropic(events_of(block_start(BLOCK), *ended("compaction", **usage))).ask()
    assert done_of(events).usage == Usage(input=10, output=2)


# -- the next request

CALL = ToolCallBlock(id="c1", name="read", arguments={})
RESULT = ToolResultMessage(tool_call_id="c1", tool_name="read", content=(TextBlock("r"),))


def compacted_message(*more: Any, model: str = "work/m") -> AssistantMessage:
    return AssistantMessage(content=(CompactionBlock(data=BLOCK), *more), model=model)


async def test_compaction_block_is_not_sent_to_other_service_of_same_kind(
    anthropic: Callable[..., Client],
) -> None:
    history = (
        user_text("go"),
        compacted_message(TextBlock("said"), model="other/m"),
        user_text("on"),
    )
    body = await anthropic(ModelReply(text="x")).sent(messages=history)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "said"}]


async def test_message_with_only_foreign_compaction_block_is_not_sent(
    anthropic: Callable[..., Client],
) -> None:
    history = (user_text("go"), compacted_message(model="other/m"), user_text("on"))
    body = await anthropic(ModelReply(text="x")).sent(messages=history)
    assert [message["role"] for message in body["messages"]] == ["user"]


@pytest.mark.parametrize("model", ["", "claude-x"])
async def test_compaction_block_without_known_provider_is_sent(
    anthropic: Callable[..., Client], model: str
) -> None:
    history = (user_text("go"), compacted_message(model=model), user_text("on"))
    body = await anthropic(ModelReply(text="x")).sent(messages=history)
    assert body["messages"][1]["content"] == [BLOCK]


async def test_compaction_block_is_not_sent_to_other_wire_format(
    openai: Callable[..., Client],
) -> None:
    history = (
        user_text("go"),
        compacted_message(),
        compacted_message(TextBlock("said")),
        compacted_message(CALL),
        RESULT,
    )
    body = await openai(ModelReply(text="x")).sent(messages=history, system="")
    assert [(m["role"], m["content"]) for m in body["messages"]] == [
        ("user", "go"),
        ("assistant", "said"),
        ("assistant", None),
        ("tool", "r"),
    ]


async def test_context_management_is_sent_only_with_beta_header(
    anthropic: Callable[..., Client],
) -> None:
    assert "context_management" not in await anthropic(ModelReply(text="x")).sent()
    body = await anthropic(ModelReply(text="x")).sent(
        option_headers={"Anthropic-Beta": f"a,{BETA['anthropic-beta']}"}
    )
    assert "context_management" in body


async def test_thinking_after_compaction_block_keeps_thinking_on(
    anthropic: Callable[..., Client],
) -> None:
    """Thinking must be sent back inside a tool loop, also after a compaction block."""
    thought = ThinkingBlock(text="hm", signature="s")
    body = await anthropic(ModelReply(text="x")).sent(
        messages=(user_text("go"), compacted_message(thought, CALL), RESULT),
        model="work/claude-sonnet-4-5",
        thinking_level="high",
    )
    assert body["thinking"]["type"] == "enabled"
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        "compaction",
        "thinking",
        "tool_use",
    ]


async def test_a51_tool_call_runs_whatever_the_stop_reason(
    http: HttpClient, serve: Callable[..., FakeService]
) -> None:
    service = serve(
        ModelReply(calls=[("echo", {"n": 1})], stop="end_turn"), ModelReply(text="Seen.")
    )
    echo = Tool()

    run = await run_loop(
        make_stream_fn(http, service), "go", tools=[echo], config=LoopConfig(model="work/m")
    )

    assert echo.ran == [{"n": 1}]
    assert service.requests[1].json["messages"][-1]["content"][0]["type"] == "tool_result"
    assert run.new[-1].text == "Seen."  # type: ignore[union-attr]


async def test_tool_calls_in_paused_turn_are_run(
    http: HttpClient, serve: Callable[..., FakeService]
) -> None:
    service = serve(ModelReply(calls=[("echo", {})], stop="pause_turn"), ModelReply(text="Seen."))
    run = await run_loop(
        make_stream_fn(http, service), "go", tools=[Tool()], config=LoopConfig(model="work/m")
    )
    assert run.roles == ["user", "assistant", "toolResult", "assistant"]
