"""Parsing what a killed run left in its journal."""

import pytest

from dirge_py.session.codec import encode_message
from dirge_py.session.history import replay
from dirge_py.session.transcript import InterruptedRun
from dirge_py.types.messages import AssistantMessage, TextBlock, ToolResultMessage, user_text
from tests.session.test_transcript import answer, asks, chain, deferred, started

RUN = ("run_start", {"run_id": "r"})
END = ("run_end", {"run_id": "r", "outcome": "Done"})
READING = ("tool_started", {"call_id": "b", "name": "read", "only_reads": True})


def finished(call_id, text="kept"):
    return ("tool_finished", {"call_id": call_id, "result": encode_message(answer(call_id, text))})


def chose(**choices):
    return ("interruption", {"run_id": "r", "choices": choices})


def states(*script):
    found = replay(chain(*script)).interruption
    return found and [(one.call.id, one.state, one.chosen) for one in found.calls]


def test_open_calls_of_killed_run_have_state_unknown_reads_or_not_started():
    records = chain(RUN, user_text("go"), asks("a", "b", "c"), started("a"), READING)

    loaded = replay(records)

    assert [(one.call.id, one.state) for one in loaded.interruption.calls] == [
        ("a", "unknown"),
        ("b", "reads"),
        ("c", "not_started"),
    ]
    assert (loaded.interruption.run_id, loaded.interruption.since) == ("r", records[-1].ts)
    assert [call.id for call in loaded.open_calls] == ["a", "b", "c"]
    assert (loaded.healed, loaded.notices) == ((), ())


def test_recorded_tool_result_is_reused_for_its_call_after_kill():
    loaded = replay(chain(RUN, asks("a", "b", "c"), started("b"), finished("b"), finished("c")))

    assert [message.text for message in loaded.messages[1:]] == ["kept", "kept"]
    assert [reused.result.tool_call_id for reused in loaded.reused] == ["b", "c"]
    assert [one.call.id for one in loaded.interruption.calls] == ["a"]


@pytest.mark.parametrize(
    "result",
    [None, {}, encode_message(user_text("no result")), encode_message(answer("other"))],
)
def test_tool_finished_record_without_matching_result_is_not_reused(result):
    broken = ("tool_finished", {"call_id": "a", "result": result})

    assert states(RUN, asks("a"), started("a"), broken) == [("a", "unknown", None)]


@pytest.mark.parametrize(
    "cut",
    [
        [RUN, user_text("go")],
        [RUN, user_text("go"), asks("a"), started("a"), answer("a")],
        [RUN, AssistantMessage(content=(TextBlock("half"),), stop_reason="error")],
        [RUN, user_text("go"), END, ("run_start", {"run_id": "r"})],
    ],
)
def test_run_killed_between_tool_calls_is_interrupted(cut):
    assert states(*cut) == []


@pytest.mark.parametrize(
    "whole",
    [
        [],
        [RUN],
        [RUN, user_text("go"), END],
        [RUN, user_text("go"), AssistantMessage(content=(TextBlock("whole"),))],
        [RUN, user_text("go"), ("branch", {})],
        [RUN, user_text("go"), ("move", {})],
        [RUN, asks("a"), started("a"), ("move", {})],
        [RUN, asks("a", "b"), deferred("a", "b"), END],
        [RUN, asks("a", "b"), deferred("a", "b"), END, RUN],
    ],
)
def test_finished_waiting_or_moved_run_is_not_interrupted(whole):
    assert states(*whole) is None


def test_rewinding_only_files_keeps_run_interrupted():
    cut = [RUN, asks("a"), started("a"), ("move", {"what": "files"})]

    assert states(*cut) == [("a", "unknown", None)]


def test_calls_deferred_with_a_decided_call_are_part_of_interruption():
    waiting = [RUN, asks("a", "b"), deferred("a", "b"), END, RUN]

    assert states(*waiting, started("a")) == [
        ("a", "unknown", None),
        ("b", "not_started", None),
    ]
    assert states(*waiting, started("a"), answer("a")) == [("b", "not_started", None)]


def test_interruption_choice_applies_until_call_runs_again():
    cut = [RUN, asks("a", "b"), started("a"), started("b")]

    assert states(*cut, chose(a="again", b="done")) == [
        ("a", "unknown", "again"),
        ("b", "unknown", "done"),
    ]
    assert states(*cut, chose(a="again", b="done"), RUN, started("a")) == [
        ("a", "unknown", None),
        ("b", "unknown", "done"),
    ]
    assert states(*cut, chose(a="never heard of")) == [
        ("a", "unknown", None),
        ("b", "unknown", None),
    ]


def test_interruption_choice_does_not_apply_to_later_call_with_same_id():
    script = [RUN, asks("a"), started("a"), chose(a="done"), answer("a")]

    assert states(*script, asks("a"), started("a")) == [("a", "unknown", None)]


def test_open_calls_of_original_session_are_closed_in_its_fork():
    origin = ("session", {"forked_from": "s", "forked_at": "r3"})
    loaded = replay(chain(origin, RUN, asks("a"), started("a"), ("notice", {"content": "fork"})))

    assert loaded.interruption is None
    assert [healing.result.tool_call_id for healing in loaded.healed] == ["a"]


def test_run_killed_in_fork_is_interrupted():
    origin = ("session", {"forked_from": "s", "forked_at": "r2"})

    assert states(origin, RUN, user_text("go"), RUN, asks("a")) == [("a", "not_started", None)]


def test_undecided_calls_are_unknown_calls_without_choice():
    loaded = replay(chain(RUN, asks("a", "b"), started("a"), started("b"), chose(a="done")))
    interruption = loaded.interruption

    assert isinstance(interruption, InterruptedRun)
    assert [one.call.id for one in interruption.unknown] == ["a", "b"]
    assert [one.call.id for one in interruption.undecided] == ["b"]


def test_compaction_recorded_while_calls_are_open_stays_valid_after_results():
    compaction = ("compaction", {"messages": 2, "compaction": {"last": 1}})
    cut = [RUN, user_text("go"), asks("a"), started("a"), compaction]
    gone_on = [*cut, answer("a"), user_text("on")]

    for script in (cut, gone_on):
        assert replay(chain(*script)).compactions == ({"last": 1},)
    assert isinstance(replay(chain(*gone_on)).messages[2], ToolResultMessage)
