import json
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.providers.anthropic import messages_request
from dirge_py.providers.catalog import ModelProfile
from dirge_py.types.llm import (
    LlmContext,
    NamedTool,
    ResponseSchema,
    StreamStart,
    SystemText,
    ThinkingBudgets,
    ThinkingEnd,
    ThinkingLevel,
    ToolCallEnd,
)
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    DocumentBlock,
    ImageBlock,
    SystemMessage,
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
from tests.support.provider_client import (
    KEY,
    READ,
    calls_of,
    done_of,
    model_call,
    text_of,
    thinking_of,
)

MARK = {"type": "ephemeral"}
CALL = ToolCallBlock(id="c1", name="read", arguments={"p": 1})
RESULT = ToolResultMessage(tool_call_id="c1", tool_name="read", content=(TextBlock("r"),))


def events_of(*payloads):
    return RawReply(body="".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads))


def body(
    *messages,
    model="claude-sonnet-4-5",
    profile=None,
    tools=(),
    asset_dir=None,
    system="Be brief.",
    cache_ttl=None,
    **options,
):
    context = LlmContext(
        system_prompt=system,
        messages=messages or (user_text("hi"),),
        tools=tools,
        asset_dir=asset_dir,
    )
    return messages_request(
        model_call(
            context, kind="anthropic", model=model, profile=profile, cache_ttl=cache_ttl, **options
        )
    )


async def test_streamed_answer_yields_thinking_text_calls_and_usage_in_order(anthropic):
    say = ModelReply(
        text="Hello.",
        thinking="hm",
        signature="sealed",
        calls=[("read", {"p": 1}), ("ls", {})],
        usage=(100, 7, 60, 20),
        delta_chars=2,
    )
    events = await anthropic(say).ask()

    assert events[0] == StreamStart("fake")
    assert (thinking_of(events), text_of(events)) == ("hm", "Hello.")
    assert calls_of(events) == [("toolu_2", "read", '{"p": 1}'), ("toolu_3", "ls", "{}")]
    assert ThinkingEnd(signature="sealed") in events
    assert done_of(events).stop_reason == "toolUse"
    assert done_of(events).usage == Usage(input=180, output=7, cache_read=60, cache_write=20)


async def test_request_has_path_headers_and_body_of_messages_api(anthropic):
    client = anthropic(ModelReply(text="x"))
    await client.ask(tools=[READ], option_headers={"anthropic-beta": "b"}, max_output_tokens=9)

    request = client.service.requests[0]
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.headers["anthropic-beta"] == "b"
    assert request.json == {
        "model": "m",
        "stream": True,
        "max_tokens": 9,
        "tools": [
            {
                "name": "read",
                "description": "Read.",
                "input_schema": {"type": "object", "properties": {}},
                "cache_control": MARK,
            }
        ],
        "system": [{"type": "text", "text": "Be brief.", "cache_control": MARK}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "hello", "cache_control": MARK}],
            }
        ],
    }


async def test_redacted_thinking_is_kept_as_opaque_data(anthropic):
    block = {"type": "redacted_thinking", "data": "opaque"}
    events = await anthropic(
        events_of(
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        )
    ).ask()

    assert ThinkingEnd(redacted="opaque") in events


async def test_tool_input_complete_in_block_start_is_parsed(anthropic):
    block = {"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}}
    events = await anthropic(
        events_of(
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        )
    ).ask()

    assert [e.arguments for e in events if isinstance(e, ToolCallEnd)] == [{"p": 1}]
    assert done_of(events).stop_reason == "toolUse"


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("new", "stop")],
)
async def test_stop_reason_is_mapped(anthropic, stop, reason):
    assert done_of(await anthropic(ModelReply(text="x", stop=stop)).ask()).stop_reason == reason


async def test_refusal_keeps_partial_text(anthropic):
    events = await anthropic(ModelReply(text="so far", stop="refusal")).ask()

    assert text_of(events) == "so far"
    assert events[-1].error.kind == "refused"


async def test_overloaded_error_in_stream_is_retryable(anthropic):
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    half = {"type": "content_block_delta", "index": 0}
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    events = await anthropic(
        events_of(start, {**half, "delta": {"type": "text_delta", "text": "half"}}, error)
    ).ask()

    assert text_of(events) == "half"
    assert (events[-1].error.kind, events[-1].error.phase) == ("rate_limit", "stream")
    assert events[-1].error.is_retryable


async def test_unstreamed_json_answer_is_parsed(anthropic):
    whole = {
        "type": "message",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Hi."},
            {"type": "tool_use", "id": "a", "name": "read", "input": {"p": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    events = await anthropic(RawReply(body=json.dumps(whole))).ask()

    assert (thinking_of(events), text_of(events)) == ("hm", "Hi.")
    assert ThinkingEnd(signature="s") in events
    assert done_of(events).usage == Usage(input=3, output=2)


async def test_missing_api_key_error_names_its_variable(anthropic):
    error = await anthropic().error(base_url="", key=None)

    assert (error.kind, "ANTHROPIC_API_KEY" in error.hint) == ("auth", True)


@pytest.mark.parametrize(
    ("level", "budget"), [("minimal", 1024), ("low", 2048), ("medium", 4096), ("high", 16384)]
)
def test_thinking_budget_is_added_to_max_tokens(level, budget):
    written = body(thinking_level=level, max_output_tokens=8192)

    assert written["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert written["max_tokens"] == budget + 8192
    assert "temperature" not in written


def test_configured_thinking_budget_is_used():
    written = body(thinking_level="low", thinking_budgets=ThinkingBudgets(low=5000))

    assert written["thinking"]["budget_tokens"] == 5000


def test_thinking_budget_shrinks_to_fit_small_max_output_tokens():
    profile = ModelProfile(thinking=True, max_output_tokens=4096)
    written = body(profile=profile, thinking_level="high")

    assert written["max_tokens"] == 4096
    assert written["thinking"]["budget_tokens"] == 2048


@given(
    st.builds(
        ModelProfile,
        thinking=st.just(True),
        adaptive_thinking=st.booleans(),
        max_output_tokens=st.none() | st.integers(min_value=1, max_value=200_000),
    ),
    st.sampled_from(get_args(ThinkingLevel)),
    st.builds(ThinkingBudgets, high=st.none() | st.integers(min_value=1, max_value=300_000)),
    st.none() | st.integers(min_value=1, max_value=100_000),
)
@settings(max_examples=size(80, 2000), deadline=None)
def test_max_tokens_always_exceeds_thinking_budget(profile, level, budgets, asked):
    if asked is not None and profile.max_output_tokens is not None:
        asked = min(asked, profile.max_output_tokens)
    written = body(
        profile=profile, thinking_level=level, thinking_budgets=budgets, max_output_tokens=asked
    )

    budget = written.get("thinking", {}).get("budget_tokens", 0)
    assert budget < written["max_tokens"] <= (profile.max_output_tokens or 10**9)
    assert budget == 0 or budget >= 1024


def test_adaptive_thinking_models_get_effort_instead_of_budget():
    written = body(model="claude-opus-4-8", thinking_level="xhigh")

    assert written["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert written["output_config"] == {"effort": "xhigh"}


def test_thinking_disabled_is_sent_only_to_models_that_think_by_default():
    assert "thinking" not in body()
    assert body(model="claude-opus-5")["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-2", "claude-next-9"])
def test_newest_models_are_asked_to_drop_thinking_blocks_with_mismatched_prefix(model):
    thinking = body(model=model, thinking_level="low")["thinking"]

    assert thinking["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert "block_binding" not in body(model="claude-opus-5", thinking_level="low")["thinking"]


async def test_block_binding_beta_header_is_merged_with_user_beta_header(anthropic):
    client = anthropic(ModelReply(text="x"), ModelReply(text="x"))
    own = {"anthropic-beta": "compact-2026-01-12"}
    await client.ask(model="work/claude-opus-5-5", option_headers=own)
    await client.ask(model="work/claude-opus-4-8")
    first, second = client.service.requests

    assert first.headers["anthropic-beta"].split(",") == [
        "thinking-binding-controls-2026-08-01",
        "compact-2026-01-12",
    ]
    assert "anthropic-beta" not in second.headers


def test_model_that_cannot_disable_thinking_gets_low_effort():
    assert body(model="claude-opus-5-5")["output_config"] == {"effort": "low"}


def test_signed_and_redacted_thinking_is_sent_back_only_while_thinking_is_on():
    thought = ThinkingBlock(text="hm", signature="s")
    hidden = ThinkingBlock(text="", redacted="opaque")
    unsigned = ThinkingBlock(text="cut off")
    answer = AssistantMessage(content=(thought, hidden, unsigned, CALL))
    written = body(user_text("a"), answer, RESULT, thinking_level="low")

    assert written["messages"][1]["content"][:-1] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "opaque"},
    ]
    without = body(user_text("a"), answer, RESULT)
    assert [block["type"] for block in without["messages"][1]["content"]] == ["tool_use"]


def test_thinking_stays_on_when_only_first_round_of_tool_loop_has_thinking():
    thought = ThinkingBlock(text="hm", signature="s")
    again = ToolCallBlock(id="c2", name="read", arguments={})
    answered = ToolResultMessage(tool_call_id="c2", tool_name="read", content=(TextBlock("r"),))
    rounds = (AssistantMessage(content=(thought, CALL)), RESULT, AssistantMessage(content=(again,)))
    written = body(user_text("a"), *rounds, answered, thinking_level="low")

    assert written["thinking"]["type"] == "enabled"
    assert written["messages"][1]["content"][0]["type"] == "thinking"


def test_compaction_block_of_another_service_is_not_sent():
    folded = CompactionBlock(data={"type": "compaction", "encrypted_content": "e"})
    written = body(user_text("a"), AssistantMessage(content=(folded,)), user_text("b"))

    assert [message["role"] for message in written["messages"]] == ["user"]


def test_thinking_stays_off_in_tool_loop_that_began_without_thinking():
    answer = AssistantMessage(content=(CALL,))

    assert "thinking" not in body(user_text("a"), answer, RESULT, thinking_level="high")


def test_tool_results_and_following_messages_merge_into_one_user_message(tmp_path):
    (tmp_path / "pic").write_bytes(b"png")
    (tmp_path / "doc").write_bytes(b"pdf")
    picture = ImageBlock(asset_id="pic", media_type="image/png")
    document = DocumentBlock(asset_id="doc", media_type="application/pdf", name="a.pdf")
    second = ToolCallBlock(id="c2", name="ls", arguments="broken {")
    written = body(
        user_text("a"),
        AssistantMessage(content=(TextBlock("ok"), CALL, second)),
        ToolResultMessage(
            tool_call_id="c2",
            tool_name="ls",
            content=(TextBlock("no"), picture, document),
            is_error=True,
        ),
        RESULT,
        user_text("steer"),
        SystemMessage(content=(TextBlock("summary"),)),
        asset_dir=str(tmp_path),
    )
    source = {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}

    assert written["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"p": 1}},
                {
                    "type": "tool_use",
                    "id": "c2",
                    "name": "ls",
                    "input": {"unparsed": "broken {"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [{"type": "text", "text": "r"}],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "content": [
                        {"type": "text", "text": "no"},
                        {"type": "text", "text": "[The image follows the results.]"},
                        {"type": "text", "text": "[The document follows the results.]"},
                    ],
                    "is_error": True,
                },
                {"type": "image", "source": source},
                {"type": "document", "source": pdf, "title": "a.pdf"},
                {"type": "text", "text": "steer", "cache_control": MARK},
                {"type": "text", "text": "summary"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("model", "media_type", "words"),
    [
        ("unknown", "application/pdf", "you cannot read it"),
        ("claude-opus-5", "text/x", "cannot read"),
    ],
)
def test_unreadable_document_is_replaced_by_text(tmp_path, model, media_type, words):
    (tmp_path / "doc").write_bytes(b"pdf")
    document = DocumentBlock(asset_id="doc", media_type=media_type, name="a.pdf")

    written = body(UserMessage(content=(document,)), model=model, asset_dir=str(tmp_path))

    (part,) = written["messages"][0]["content"]
    assert words in part["text"]
    assert "a.pdf" in part["text"]


def test_longer_history_serializes_with_shorter_one_as_prefix():
    def written(*messages):
        unmarked = json.dumps(body(*messages, tools=[READ])).replace(
            ', "cache_control": {"type": "ephemeral"}', ""
        )
        return unmarked.rstrip("]}")

    first = (user_text("a"), AssistantMessage(content=(TextBlock("ok"), CALL)), RESULT)
    later = (*first, AssistantMessage(content=(TextBlock("b"),)), user_text("c"))

    assert written(*later).startswith(written(*first))


def marked(written):
    """The texts of blocks, and names of tools, with cache marks."""
    blocks = [*written.get("tools", ()), *written.get("system", ())]
    blocks += [block for message in written["messages"] for block in message["content"]]
    return [
        block.get("text") or block.get("name") or block.get("tool_use_id")
        for block in blocks
        if "cache_control" in block
    ]


def test_cache_marks_are_after_tools_system_prompt_and_last_messages():
    history = (user_text("a"), AssistantMessage(content=(CALL,)), RESULT)
    prompt = SystemText("Be brief.\n\nMonday.", len("Be brief.\n\n"))

    assert marked(body(*history, tools=[READ])) == ["read", "Be brief.", "a", "c1"]
    assert marked(body(*history)) == ["Be brief.", "a", "c1"]
    in_parts = body(*history, tools=[READ], system=prompt)
    assert marked(in_parts) == ["read", "Be brief.\n\n", "Monday.", "c1"]


def test_harness_message_is_not_marked_for_caching():
    reminder = user_text("[Reminder] Be quick.", "harness")
    history = (user_text("a"), AssistantMessage(content=(CALL,)), RESULT)

    assert marked(body(*history, reminder)) == ["Be brief.", "a", "c1"]
    assert marked(body(user_text("a"), reminder)) == ["Be brief.", "a"]
    assert marked(body(user_text("judge this", "harness"))) == ["Be brief.", "judge this"]


def test_cache_mark_of_previous_request_is_repeated_in_next_request():
    calls = [ToolCallBlock(id=f"d{n}", name="read", arguments={}) for n in range(15)]
    results = [
        ToolResultMessage(tool_call_id=call.id, tool_name="read", content=(TextBlock("r"),))
        for call in calls
    ]
    first = (user_text("a"), AssistantMessage(content=(CALL,)), RESULT)
    later = (*first, AssistantMessage(content=tuple(calls)), *results)

    assert marked(body(*first))[-1] == "c1"
    assert marked(body(*later))[-2:] == ["c1", "d14"]


@pytest.mark.parametrize(
    ("cache_ttl", "mark"), [("1h", {**MARK, "ttl": "1h"}), ("5m", MARK), (None, MARK)]
)
def test_cache_ttl_is_sent_with_every_cache_mark(cache_ttl, mark):
    text = json.dumps(body(user_text("a"), tools=[READ], cache_ttl=cache_ttl))

    assert text.count(json.dumps(mark)) == text.count("cache_control") == 3


@pytest.mark.parametrize(
    ("choice", "written"),
    [
        ("auto", None),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        (NamedTool("read"), {"type": "tool", "name": "read"}),
    ],
)
def test_tool_choice_is_sent(choice, written):
    assert body(tools=[READ], tool_choice=choice).get("tool_choice") == written
    assert "tool_choice" not in body(tool_choice=choice)


def test_forced_tool_choice_disables_thinking():
    forced = {"tools": [READ], "tool_choice": "required", "thinking_level": "high"}

    assert "thinking" not in body(**forced)
    assert body(model="claude-opus-4-8", **forced)["thinking"] == {"type": "disabled"}
    free = body(model="claude-fable-5", **forced)
    assert (free["thinking"]["type"], "tool_choice" in free) == ("adaptive", False)


def test_response_schema_is_sent_without_unsupported_keywords():
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "How many."},
            "of": {"oneOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
            "at": {"type": "array", "items": {"$ref": "#/$defs/t"}, "minItems": 3},
        },
        "required": ["n"],
        "$defs": {"t": {"type": "string", "format": "date", "pattern": "^2"}},
    }
    wanted = ResponseSchema(name="x", schema=schema)
    written = body(model="claude-opus-4-8", thinking_level="low", response_schema=wanted)

    assert written["output_config"]["effort"] == "low"
    assert written["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {
            "type": "object",
            "properties": {
                "n": {"type": "integer", "description": "How many."},
                "of": {
                    "anyOf": [
                        {"type": "object", "properties": {}, "additionalProperties": False},
                        {"type": "null"},
                    ]
                },
                "at": {"type": "array", "items": {"$ref": "#/$defs/t"}},
            },
            "required": ["n"],
            "$defs": {"t": {"type": "string", "format": "date"}},
            "additionalProperties": False,
        },
    }


@pytest.mark.parametrize("sealed", ["gemini:[1]", '[{"type": "reasoning.text"}]', '{"id": "rs_1"}'])
def test_thinking_signed_by_another_service_is_not_sent(sealed):
    thought = ThinkingBlock(text="hm", signature=sealed)
    hidden = ThinkingBlock(text="", redacted=sealed)
    answer = AssistantMessage(content=(thought, hidden, CALL))
    written = body(user_text("a"), answer, RESULT, thinking_level="low")

    assert [block["type"] for block in written["messages"][1]["content"]] == ["tool_use"]
    assert "thinking" not in written


def test_max_tokens_includes_thinking_allowance_for_adaptive_models():
    written = body(model="claude-opus-4-8", thinking_level="high", max_output_tokens=1000)

    assert written["max_tokens"] == 17_384


def test_history_starting_with_assistant_message_gets_leading_user_message():
    written = body(AssistantMessage(content=(TextBlock("ok"),)), user_text("a"))

    assert [message["role"] for message in written["messages"]] == ["user", "assistant", "user"]


def test_user_id_is_sent_as_metadata():
    assert body(metadata={"user_id": "u", "other": 1})["metadata"] == {"user_id": "u"}


def test_max_tokens_is_always_sent_and_within_model_limit():
    assert body()["max_tokens"] == 32_000
    assert body(model="claude-3-haiku-20240307")["max_tokens"] == 4096
    assert body(model="somebody-elses")["max_tokens"] == 8192


@pytest.mark.parametrize("content", [(), (TextBlock("  "),)])
def test_empty_messages_are_not_sent(content):
    written = body(user_text("a"), UserMessage(content=content), AssistantMessage(content=content))

    assert len(written["messages"]) == 1
    assert len(written["messages"][0]["content"]) == 1
