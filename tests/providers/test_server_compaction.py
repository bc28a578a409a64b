"""History that a service compacts itself goes back unchanged."""

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


def opened(block: Mapping[str, Any], index: int = 0) -> Mapping[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def grown(index: int = 0, **delta: Any) -> Mapping[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def ended(stop: str, index: int = 0, **usage: Any) -> tuple[Mapping[str, Any], ...]:
    return (
        {"type": "content_block_stop", "index": index},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage},
        {"type": "message_stop"},
    )


def compacted(block: Mapping[str, Any] = BLOCK) -> RawReply:
    return events_of(opened(block), *ended("compaction", input_tokens=9, output_tokens=3))


def speaking(
    http: HttpClient, service: FakeService, kind: str = "anthropic", alias: str = "work"
) -> StreamFn:
    url = service.anthropic_url if kind == "anthropic" else service.openai_url
    settings = ProviderSettings(alias=alias, type=kind, base_url=url, api_key="k", headers=BETA)
    return find_provider(kind).make(settings, http)


# -- the answer


async def test_a37_the_loop_goes_on_by_itself_and_the_block_goes_back_byte_for_byte(
    http: HttpClient, serve: Callable[..., FakeService]
) -> None:
    service = serve(compacted(), ModelReply(text="Done."))
    config = compose(
        Meter(Limits(turns=1)).bundle(), config=LoopConfig(model="work/claude-sonnet-4-5")
    )

    run = await run_loop(speaking(http, service), "go", config=config)

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
async def test_a_beta_that_is_named_is_used(
    anthropic: Callable[..., Client], betas: str, edits: list[str] | None
) -> None:
    sent = await anthropic(ModelReply(text="x")).sent(headers={"Anthropic-Beta": betas})

    asked = sent.get("context_management")
    assert (asked and [edit["type"] for edit in asked["edits"]]) == edits


async def test_what_the_service_cleared_needs_no_answer(anthropic: Callable[..., Client]) -> None:
    applied = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 4}]}
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    events = await anthropic(
        events_of(
            opened({"type": "text", "text": "Hi."}),
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
def test_a_block_of_any_json_goes_back_as_it_came(more: dict[str, Any]) -> None:
    block = {**more, "type": "compaction", "content": "s"}
    # As it comes over the wire, goes into a session and comes out of one.
    answer = AnthropicParser()
    answer.event("", json.loads(json.dumps(opened(block))))
    (done,) = answer.event("", {"type": "content_block_stop", "index": 0})
    assert isinstance(done, CompactionDone)
    message = AssistantMessage(content=(CompactionBlock(data=done.data, text=done.text),))
    kept = decode_message(json.loads(json.dumps(encode_message(message))))

    context = LlmContext(system_prompt="", messages=[user_text("a"), kept])
    written = messages_request(model_call(context, kind="anthropic"))

    assert json.dumps(written["messages"][1]["content"]) == json.dumps([block])


async def test_a_paused_turn_goes_on_by_itself_too(
    http: HttpClient, serve: Callable[..., FakeService]
) -> None:
    service = serve(ModelReply(text="Searching", stop="pause_turn"), ModelReply(text="Found."))
    config = LoopConfig(model="work/m")
    run = await run_loop(speaking(http, service), "go", config=config)

    assert [message.role for message in run.new] == ["user", "assistant", "assistant"]
    assert run.new[1].stop_reason == "pause_turn"  # type: ignore[union-attr]
    assert run.outcome.result.turns == 1  # type: ignore[union-attr]
    assert service.requests[1].json["messages"][-1] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "Searching"}],
    }


PIECES = [
    pytest.param([opened(BLOCK)], BLOCK, id="whole"),
    pytest.param(
        [
            opened({"type": "compaction", "content": None}),
            grown(type="compaction_delta", content="What was "),
            grown(type="compaction_delta", content="done.", encrypted_content="e=="),
        ],
        {"type": "compaction", "content": "What was done.", "encrypted_content": "e=="},
        id="in pieces",
    ),
    pytest.param(
        [
            opened({"type": "compaction", "content": "half", "encrypted_content": "old"}),
            grown(type="compaction_delta", content=None, encrypted_content=None),
        ],
        {"type": "compaction", "content": None, "encrypted_content": None},
        id="that failed",
    ),
]


@pytest.mark.parametrize(("pieces", "block"), PIECES)
async def test_a_block_is_put_together_whatever_way_it_comes(
    anthropic: Callable[..., Client], pieces: list[Any], block: Mapping[str, Any]
) -> None:
    events = await anthropic(events_of(*pieces, *ended("compaction"))).ask()

    (done,) = [event for event in events if isinstance(event, CompactionDone)]
    assert dict(done.data) == block
    assert list(done.data) == list(block)
    assert done.text == (block["content"] or "")
    assert done_of(events).stop_reason == "compaction"


async def test_a_piece_of_a_block_that_never_began_is_passed_over(
    anthropic: Callable[..., Client],
) -> None:
    stray = grown(7, type="compaction_delta", content="x")
    events = await anthropic(events_of(stray, *ended("end_turn"))).ask()
    assert [event for event in events if isinstance(event, CompactionDone)] == []
    assert done_of(events).stop_reason == "stop"


async def test_an_answer_in_one_piece_may_hold_a_block(anthropic: Callable[..., Client]) -> None:
    message = {
        "type": "message",
        "content": [BLOCK, {"type": "text", "text": "And on."}],
        "stop_reason": "end_turn",
    }
    events = await anthropic(
        RawReply(body=json.dumps(message), headers={"content-type": "application/json"})
    ).ask()
    assert [dict(event.data) for event in events if isinstance(event, CompactionDone)] == [BLOCK]


async def test_a37_what_every_iteration_used_is_added_up(anthropic: Callable[..., Client]) -> None:
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
    events = await anthropic(events_of(opened(BLOCK), *ended("compaction", **usage))).ask()

    assert done_of(events).usage == Usage(
        input=180_000 + 23_000 + 450, output=4_500, cache_read=400, cache_write=50
    )


@pytest.mark.parametrize("iterations", [None, [], "odd", [1, 2]])
async def test_without_iterations_the_sum_of_the_service_counts(
    anthropic: Callable[..., Client], iterations: Any
) -> None:
    usage = {"input_tokens": 10, "output_tokens": 2, "iterations": iterations}
    events = await anthropic(events_of(opened(BLOCK), *ended("compaction", **usage))).ask()
    assert done_of(events).usage == Usage(input=10, output=2)


# -- the next request

CALL = ToolCallBlock(id="c1", name="read", arguments={})
RESULT = ToolResultMessage(tool_call_id="c1", tool_name="read", content=(TextBlock("r"),))


def folded(*more: Any, model: str = "work/m") -> AssistantMessage:
    return AssistantMessage(content=(CompactionBlock(data=BLOCK), *more), model=model)


async def test_another_service_of_the_same_kind_is_not_given_the_block(
    anthropic: Callable[..., Client],
) -> None:
    history = (user_text("go"), folded(TextBlock("said"), model="other/m"), user_text("on"))
    body = await anthropic(ModelReply(text="x")).sent(messages=history)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "said"}]


async def test_a_message_that_held_nothing_else_is_left_out_there(
    anthropic: Callable[..., Client],
) -> None:
    history = (user_text("go"), folded(model="other/m"), user_text("on"))
    body = await anthropic(ModelReply(text="x")).sent(messages=history)
    assert [message["role"] for message in body["messages"]] == ["user"]


@pytest.mark.parametrize("model", ["", "claude-x"])
async def test_a_block_of_nobody_in_particular_is_sent(
    anthropic: Callable[..., Client], model: str
) -> None:
    history = (user_text("go"), folded(model=model), user_text("on"))
    body = await anthropic(ModelReply(text="x")).sent(messages=history)
    assert body["messages"][1]["content"] == [BLOCK]


async def test_a_service_of_another_kind_does_not_see_the_blocks(
    openai: Callable[..., Client],
) -> None:
    history = (user_text("go"), folded(), folded(TextBlock("said")), folded(CALL), RESULT)
    body = await openai(ModelReply(text="x")).sent(messages=history, system="")
    assert [(m["role"], m["content"]) for m in body["messages"]] == [
        ("user", "go"),
        ("assistant", "said"),
        ("assistant", None),
        ("tool", "r"),
    ]


async def test_without_the_beta_nothing_is_asked_of_the_service(
    anthropic: Callable[..., Client],
) -> None:
    assert "context_management" not in await anthropic(ModelReply(text="x")).sent()
    body = await anthropic(ModelReply(text="x")).sent(
        option_headers={"Anthropic-Beta": f"a,{BETA['anthropic-beta']}"}
    )
    assert "context_management" in body


async def test_thinking_behind_a_block_still_counts_as_thinking(
    anthropic: Callable[..., Client],
) -> None:
    """It must be sent back inside a tool loop, also after a compaction block."""
    thought = ThinkingBlock(text="hm", signature="s")
    body = await anthropic(ModelReply(text="x")).sent(
        messages=(user_text("go"), folded(thought, CALL), RESULT),
        model="work/claude-sonnet-4-5",
        thinking_level="high",
    )
    assert body["thinking"]["type"] == "enabled"
    assert [block["type"] for block in body["messages"][1]["content"]] == [
        "compaction",
        "thinking",
        "tool_use",
    ]


async def test_a51_a_call_is_run_whatever_the_stop_reason_says(
    http: HttpClient, serve: Callable[..., FakeService]
) -> None:
    service = serve(
        ModelReply(calls=[("echo", {"n": 1})], stop="end_turn"), ModelReply(text="Seen.")
    )
    echo = Tool()

    run = await run_loop(
        speaking(http, service), "go", tools=[echo], config=LoopConfig(model="work/m")
    )

    assert echo.ran == [{"n": 1}]
    assert service.requests[1].json["messages"][-1]["content"][0]["type"] == "tool_result"
    assert run.new[-1].text == "Seen."  # type: ignore[union-attr]


async def test_calls_next_to_a_pause_are_run(
    http: HttpClient, serve: Callable[..., FakeService]
) -> None:
    service = serve(ModelReply(calls=[("echo", {})], stop="pause_turn"), ModelReply(text="Seen."))
    run = await run_loop(
        speaking(http, service), "go", tools=[Tool()], config=LoopConfig(model="work/m")
    )
    assert run.roles == ["user", "assistant", "toolResult", "assistant"]
