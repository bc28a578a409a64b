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


async def test_a_whole_answer_arrives_in_order(anthropic):
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


async def test_the_request_is_what_the_protocol_says(anthropic):
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


async def test_hidden_thinking_is_kept_unread(anthropic):
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


async def test_input_given_whole_at_the_start_is_taken(anthropic):
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
async def test_the_stop_reason_is_kept(anthropic, stop, reason):
    assert done_of(await anthropic(ModelReply(text="x", stop=stop)).ask()).stop_reason == reason


async def test_a_refusal_keeps_its_text(anthropic):
    events = await anthropic(ModelReply(text="so far", stop="refusal")).ask()

    assert text_of(events) == "so far"
    assert events[-1].error.kind == "refused"


async def test_an_overloaded_service_is_retryable_in_the_stream_too(anthropic):
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    half = {"type": "content_block_delta", "index": 0}
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    events = await anthropic(
        events_of(start, {**half, "delta": {"type": "text_delta", "text": "half"}}, error)
    ).ask()

    assert text_of(events) == "half"
    assert (events[-1].error.kind, events[-1].error.phase) == ("rate_limit", "stream")
    assert events[-1].error.is_retryable


async def test_an_answer_in_one_piece_is_taken(anthropic):
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


async def test_a_missing_key_names_its_variable(anthropic):
    error = await anthropic().error(base_url="", key=None)

    assert (error.kind, "ANTHROPIC_API_KEY" in error.hint) == ("auth", True)


@pytest.mark.parametrize(
    ("level", "budget"), [("minimal", 1024), ("low", 2048), ("medium", 4096), ("high", 16384)]
)
def test_a_budget_for_thinking_comes_on_top_of_the_reply(level, budget):
    written = body(thinking_level=level, max_output_tokens=8192)

    assert written["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert written["max_tokens"] == budget + 8192
    assert "temperature" not in written


def test_a_budget_of_ones_own_is_used():
    written = body(thinking_level="low", thinking_budgets=ThinkingBudgets(low=5000))

    assert written["thinking"]["budget_tokens"] == 5000


def test_a_small_model_thinks_less_and_still_replies():
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
def test_an_answer_always_fits_behind_its_thinking(profile, level, budgets, asked):
    if asked is not None and profile.max_output_tokens is not None:
        asked = min(asked, profile.max_output_tokens)
    written = body(
        profile=profile, thinking_level=level, thinking_budgets=budgets, max_output_tokens=asked
    )

    budget = written.get("thinking", {}).get("budget_tokens", 0)
    assert budget < written["max_tokens"] <= (profile.max_output_tokens or 10**9)
    assert budget == 0 or budget >= 1024


def test_newer_models_choose_their_budget_themselves():
    written = body(model="claude-opus-4-8", thinking_level="xhigh")

    assert written["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert written["output_config"] == {"effort": "xhigh"}


def test_thinking_off_is_mentioned_only_to_models_that_think_unasked():
    assert "thinking" not in body()
    assert body(model="claude-opus-5")["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-2", "claude-next-9"])
def test_thoughts_that_fit_their_beginning_no_more_may_be_dropped(model):
    thinking = body(model=model, thinking_level="low")["thinking"]

    assert thinking["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert "block_binding" not in body(model="claude-opus-5", thinking_level="low")["thinking"]


async def test_the_header_that_allows_this_stands_beside_those_of_the_person(anthropic):
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


def test_a_model_that_always_thinks_thinks_as_little_as_it_can():
    assert body(model="claude-opus-5-5")["output_config"] == {"effort": "low"}


def test_thinking_goes_back_unread_while_thinking_is_on():
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


def test_a_tool_loop_that_began_with_thinking_goes_on_with_it_though_later_rounds_have_none():
    thought = ThinkingBlock(text="hm", signature="s")
    again = ToolCallBlock(id="c2", name="read", arguments={})
    answered = ToolResultMessage(tool_call_id="c2", tool_name="read", content=(TextBlock("r"),))
    rounds = (AssistantMessage(content=(thought, CALL)), RESULT, AssistantMessage(content=(again,)))
    written = body(user_text("a"), *rounds, answered, thinking_level="low")

    assert written["thinking"]["type"] == "enabled"
    assert written["messages"][1]["content"][0]["type"] == "thinking"


def test_a_fold_that_another_service_made_stays_away():
    folded = CompactionBlock(data={"type": "compaction", "encrypted_content": "e"})
    written = body(user_text("a"), AssistantMessage(content=(folded,)), user_text("b"))

    assert [message["role"] for message in written["messages"]] == ["user"]


def test_a_tool_loop_that_began_without_thinking_goes_on_without():
    answer = AssistantMessage(content=(CALL,))

    assert "thinking" not in body(user_text("a"), answer, RESULT, thinking_level="high")


def test_results_and_what_follows_them_are_one_user_message(tmp_path):
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
                        {"type": "text", "text": "[The picture follows the results.]"},
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
def test_a_document_that_cannot_be_read_has_words_in_its_place(tmp_path, model, media_type, words):
    (tmp_path / "doc").write_bytes(b"pdf")
    document = DocumentBlock(asset_id="doc", media_type=media_type, name="a.pdf")

    written = body(UserMessage(content=(document,)), model=model, asset_dir=str(tmp_path))

    (part,) = written["messages"][0]["content"]
    assert words in part["text"]
    assert "a.pdf" in part["text"]


def test_a_longer_history_begins_like_the_shorter_one():
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


def test_it_is_cached_behind_what_stays():
    history = (user_text("a"), AssistantMessage(content=(CALL,)), RESULT)
    prompt = SystemText("Be brief.\n\nMonday.", len("Be brief.\n\n"))

    assert marked(body(*history, tools=[READ])) == ["read", "Be brief.", "a", "c1"]
    assert marked(body(*history)) == ["Be brief.", "a", "c1"]
    in_parts = body(*history, tools=[READ], system=prompt)
    assert marked(in_parts) == ["read", "Be brief.\n\n", "Monday.", "c1"]


def test_what_is_for_one_call_only_is_not_cached():
    reminder = user_text("[Reminder] Be quick.", "harness")
    history = (user_text("a"), AssistantMessage(content=(CALL,)), RESULT)

    assert marked(body(*history, reminder)) == ["Be brief.", "a", "c1"]
    assert marked(body(user_text("a"), reminder)) == ["Be brief.", "a"]
    assert marked(body(user_text("judge this", "harness"))) == ["Be brief.", "judge this"]


def test_the_next_request_is_marked_where_the_last_one_was():
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
def test_how_long_it_is_cached_is_said_in_every_place(cache_ttl, mark):
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
def test_a_choice_of_tools_is_sent(choice, written):
    assert body(tools=[READ], tool_choice=choice).get("tool_choice") == written
    assert "tool_choice" not in body(tool_choice=choice)


def test_who_must_call_does_not_think():
    forced = {"tools": [READ], "tool_choice": "required", "thinking_level": "high"}

    assert "thinking" not in body(**forced)
    assert body(model="claude-opus-4-8", **forced)["thinking"] == {"type": "disabled"}
    free = body(model="claude-fable-5", **forced)
    assert (free["thinking"]["type"], "tool_choice" in free) == ("adaptive", False)


def test_a_schema_is_asked_for_without_what_would_be_refused():
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
def test_thinking_that_another_service_sealed_is_not_sent_wherever_it_comes_from(sealed):
    thought = ThinkingBlock(text="hm", signature=sealed)
    hidden = ThinkingBlock(text="", redacted=sealed)
    answer = AssistantMessage(content=(thought, hidden, CALL))
    written = body(user_text("a"), answer, RESULT, thinking_level="low")

    assert [block["type"] for block in written["messages"][1]["content"]] == ["tool_use"]
    assert "thinking" not in written


def test_room_for_thinking_comes_on_top_where_the_model_chooses_it_too():
    written = body(model="claude-opus-4-8", thinking_level="high", max_output_tokens=1000)

    assert written["max_tokens"] == 17_384


def test_a_history_that_begins_with_an_answer_is_introduced():
    written = body(AssistantMessage(content=(TextBlock("ok"),)), user_text("a"))

    assert [message["role"] for message in written["messages"]] == ["user", "assistant", "user"]


def test_who_asks_can_be_named():
    assert body(metadata={"user_id": "u", "other": 1})["metadata"] == {"user_id": "u"}


def test_there_is_always_a_limit_and_it_is_never_above_the_models():
    assert body()["max_tokens"] == 32_000
    assert body(model="claude-3-haiku-20240307")["max_tokens"] == 4096
    assert body(model="somebody-elses")["max_tokens"] == 8192


@pytest.mark.parametrize("content", [(), (TextBlock("  "),)])
def test_nothing_empty_is_sent(content):
    written = body(user_text("a"), UserMessage(content=content), AssistantMessage(content=content))

    assert len(written["messages"]) == 1
    assert len(written["messages"][0]["content"]) == 1
