import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dirge_py.session.codec import encode_message, encode_usage
from dirge_py.session.history import replay
from dirge_py.session.record import Record
from dirge_py.session.transcript import TranscriptRepairs, read_transcript
from dirge_py.session.tree import branch, records_to_fork
from dirge_py.types.errors import SessionError
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)


def chain(*typed):
    """Consecutive records from (type, data) pairs and messages."""
    pairs = [
        item if isinstance(item, tuple) else ("message", encode_message(item)) for item in typed
    ]
    return [
        Record(
            seq=n,
            ts="2026-11-20T00:00:00.000Z",
            type=pair[0],
            id=f"r{n}",
            parent=f"r{n - 1}" if n else None,
            data=pair[1],
        )
        for n, pair in enumerate(pairs)
    ]


def asks(*ids, **fields):
    calls = tuple(ToolCallBlock(id=call_id, name="bash", arguments={}) for call_id in ids)
    return AssistantMessage(content=calls, stop_reason="toolUse", **fields)


def answer(call_id, text="done"):
    return ToolResultMessage(tool_call_id=call_id, tool_name="bash", content=(TextBlock(text),))


def started(call_id):
    return ("tool_started", {"call_id": call_id, "name": "bash", "arguments": {}})


def deferred(*call_ids):
    return ("deferred", {"call_ids": list(call_ids), "description": ""})


def texts(transcript):
    return [getattr(message, "text", "") for message in transcript.messages]


def is_balanced(messages):
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if not waiting or waiting.pop(0) != message.tool_call_id:
                return False
        elif waiting:
            return False
        if isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.calls]
    return not waiting


def test_unanswered_call_before_later_prompt_gets_result_by_its_state():
    reading = ("tool_started", {"call_id": "b", "name": "read", "only_reads": True})
    read = read_transcript(
        chain(user_text("go"), asks("a", "b", "c"), started("a"), reading, user_text("on"))
    )

    unknown, only_read, never = [healing.result for healing in read.healed]
    assert read.healed[0] == TranscriptRepairs(result=read.messages[2], asked_in="r1")
    assert all(result.is_error for result in (unknown, only_read, never))
    assert unknown.details == {"outcome": "aborted", "synthetic": "interrupted"}
    assert "outcome is unknown" in unknown.text
    assert "only reads" in only_read.text
    assert "Not started" in never.text


def test_tool_results_follow_their_calls_in_call_order():
    read = read_transcript(
        chain(asks("a", "b"), answer("b", "B"), user_text("also"), answer("a", "A"))
    )

    assert texts(read) == ["", "A", "B", "also"]
    assert read.record_ids == ("r0", "r3", "r1", "r2")
    assert read.healed == ()


def test_tool_results_without_call_and_duplicate_results_are_left_out():
    read = read_transcript(
        chain(answer("lost"), asks("a"), answer("a", "first"), answer("a", "second"))
    )

    assert texts(read) == ["", "first"]
    assert read.notices == ("2 tool result(s) without a call were left out.",)


def test_call_id_reused_in_later_turn_is_a_separate_call():
    read = read_transcript(
        chain(asks("call_0"), user_text("on"), asks("call_0"), started("call_0"), answer("call_0"))
    )

    assert len(read.healed) == 1
    assert "Not started" in read.messages[1].text
    assert read.messages[-1].text == "done"


def test_deferred_call_stays_open():
    read = read_transcript(
        chain(asks("a", "b", "c"), answer("a"), deferred("b", "c"), ("run_end", {}))
    )

    assert [call.id for call in read.open_calls] == ["b", "c"]
    assert read.healed == ()


def test_deferred_call_that_was_started_is_interrupted_and_not_open():
    read = read_transcript(chain(asks("a", "b"), deferred("a", "b"), started("a")))

    assert [(one.call.id, one.state) for one in read.interruption.calls] == [
        ("a", "unknown"),
        ("b", "not_started"),
    ]
    assert read.healed == ()


def test_deferred_call_is_closed_by_a_later_prompt():
    read = read_transcript(chain(asks("a"), deferred("a"), user_text("never mind")))

    assert read.open_calls == ()
    assert [healing.result.tool_call_id for healing in read.healed] == ["a"]


def test_messages_of_unknown_role_are_left_out_with_notice():
    loaded = replay(chain(user_text("hi"), ("message", {"role": "oracle"})))

    assert loaded.messages == (user_text("hi"),)
    assert loaded.notices == ("1 message(s) of an unknown kind were left out.",)


def test_recorded_notice_is_not_repeated():
    records = chain(answer("lost"))
    (notice,) = replay(records).notices

    assert replay([*records, *chain(("notice", {"content": notice}))]).notices == ()


contexts = st.lists(
    st.one_of(
        st.just(user_text("short")),
        st.lists(st.sampled_from("abc"), unique=True, max_size=2).map(lambda ids: asks(*ids)),
        st.sampled_from("abc").map(answer),
    ).map(encode_message),
    max_size=4,
)
events = st.lists(
    st.one_of(
        contexts.map(lambda messages: ("context", {"messages": messages})),
        st.integers(0, 6).map(lambda n: ("compaction", {"messages": n, "compaction": {"last": n}})),
        st.builds(user_text, st.text(max_size=3)),
        st.lists(st.sampled_from("abc"), unique=True, max_size=3).map(lambda ids: asks(*ids)),
        st.sampled_from("abc").map(answer),
        st.sampled_from("abc").map(started),
        st.lists(st.sampled_from("abc")).map(lambda ids: deferred(*ids)),
        st.just(CustomMessage(kind="k")),
        st.sampled_from([("x", None), ("tool_started", 1), ("deferred", {"call_ids": 3})]),
    ),
    max_size=14,
)


def without_custom(messages):
    return [message for message in messages if not isinstance(message, CustomMessage)]


@given(events)
def test_transcript_of_any_records_has_one_result_per_call(script):
    read = read_transcript(chain(*script))

    waiting = [
        ToolResultMessage(tool_call_id=call.id, tool_name="", content=())
        for call in read.open_calls
    ]
    if read.open_calls:
        last = max(n for n, m in enumerate(read.messages) if isinstance(m, AssistantMessage))
        tail = [m for m in read.messages[last + 1 :] if isinstance(m, ToolResultMessage)]
        order = [call.id for call in read.messages[last].calls]
        results = sorted([*tail, *waiting], key=lambda r: order.index(r.tool_call_id))
        assert is_balanced([*without_custom(read.messages[: last + 1]), *results])
    else:
        assert is_balanced(without_custom(read.messages))


@given(events)
def test_compactions_of_any_records_refer_to_existing_messages(script):
    read = read_transcript(chain(*script))

    assert all(compaction["last"] <= len(read.messages) for compaction in read.compactions)


TWICE_IN_ONE_RECORD = [encode_message(asks("a")), encode_message(asks("a"))]


@example([("context", {"messages": TWICE_IN_ONE_RECORD}), deferred("a")])
@given(events)
def test_recording_repaired_tool_results_leaves_nothing_to_repair(script):
    first = read_transcript(chain(*script))
    second = read_transcript(
        chain(*script, *(("message", healing.as_stored()) for healing in first.healed))
    )

    ids = [getattr(m, "tool_call_id", "") for m in first.messages]
    assert [getattr(m, "tool_call_id", "") for m in second.messages] == ids
    assert second.healed == ()
    assert second.open_calls == first.open_calls


def test_replay_returns_latest_model_mode_grants_and_settings():
    loaded = replay(
        chain(
            ("session", {"cwd": "/w", "created": "then", "forked_from": "f"}),
            ("model", {"model": "a/one", "thinking": "off"}),
            ("model", {"model": "a/two", "thinking": "high"}),
            ("mode", {"mode": "plan"}),
            ("grant", {"action": "added", "rule": "execute:make"}),
            ("grant", {"action": "added", "rule": "read:/x"}),
            ("grant", {"action": "removed", "rule": "execute:make"}),
            ("setting", {"name": "prompt", "value": "terse"}),
            ("from the future", [1, 2]),
        )
    )

    choices, description = loaded.choices, loaded.description
    assert (choices.model, choices.thinking, choices.mode) == ("a/two", "high", "plan")
    assert (loaded.grants, choices.settings) == (("read:/x",), {"prompt": "terse"})
    assert (description.cwd, description.created, description.forked_from) == ("/w", "then", "f")


def usage_record(usage, cost_usd):
    return ("usage", {"usage": encode_usage(usage), "model": "m", "cost_usd": cost_usd})


def test_usage_is_counted_once_and_priced_from_usage_records():
    one = Usage(input=10, output=5)
    loaded = replay(
        chain(asks(usage=one), usage_record(one, 0.25), asks(usage=one), usage_record(one, 0.5))
    )

    assert (loaded.usage, loaded.cost_usd, loaded.turns) == (one + one, 0.75, 2)


@pytest.mark.parametrize("priced", [False, True])
def test_cost_is_unknown_when_a_part_has_no_price(priced):
    one = Usage(input=10)
    tail = [usage_record(one, None)] if priced else []
    loaded = replay(chain(asks(usage=one), usage_record(one, 0.25), asks(usage=one), *tail))

    assert (loaded.usage, loaded.cost_usd) == (one + one, None)


def test_record_whose_parent_is_an_earlier_record_starts_a_branch():
    records = chain(user_text("one"), user_text("two"), ("branch", {}), user_text("three"))
    records[2] = Record(seq=2, ts="", type="branch", id="r2", parent="r0", data={})

    assert [m.text for m in replay(records).messages] == ["one", "three"]
    assert [r.id for r in branch(records, "r1")] == ["r0", "r1"]
    with pytest.raises(SessionError):
        branch(records, "nowhere")


@given(st.lists(st.none() | st.integers(0, 12), max_size=12))
def test_branch_with_any_parents_leads_to_first_record(parents):
    records = [
        Record(seq=n, ts="", type="x", id=str(n), parent=None if p is None else str(p), data=None)
        for n, p in enumerate(parents)
    ]

    path = branch(records)

    assert [r.seq for r in path] == sorted({r.seq for r in path})
    assert not records or (path[0], path[-1]) == (records[0], records[-1])


def test_fork_includes_grant_removal_recorded_after_fork_point():
    records = chain(
        ("session", {}),
        ("grant", {"action": "added", "rule": "execute:make"}),
        user_text("one"),
        ("grant", {"action": "removed", "rule": "execute:make"}),
        user_text("two"),
    )

    forked = records_to_fork(records, "r2")

    assert [r.id for r in forked] == ["r1", "r2", "r3"]
