"""Case 102: a model that fails repeatedly is reminded."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import AfterToolCallResult, Hooks, ToolOverride
from dirge_py.guards.reminders import FailureTracker
from dirge_py.guards.repetition import StormBreaker
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.messages import UserMessage
from tests.security.sizes import size
from tests.support.guarded_runs import nudges, result, run_guarded


def reminders(failures=3):
    return StormBreaker(failures=failures).bundle()


def checkpoints_after(*results, threshold=3):
    """The checkpoints after each of the results."""
    tracker = FailureTracker(threshold)
    texts = []
    for each in results:
        tracker.record(each)
        texts.append(tracker.due_checkpoints())
    return texts


def counts(*results, threshold=3):
    return [len(texts) for texts in checkpoints_after(*results, threshold=threshold)]


def test_case_102_every_third_failure_gets_a_checkpoint():
    assert counts(*[result()] * 7) == [0, 0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize("outcome", ["error", "failed_command", "invalid", "unknown_tool"])
def test_case_102_every_kind_of_failure_counts(outcome):
    assert counts(*[result(outcome)] * 3) == [0, 0, 1]


def test_case_102_two_timeouts_give_a_checkpoint_that_names_them():
    texts = checkpoints_after(result("timeout"), result("timeout"))
    assert [len(each) for each in texts] == [0, 1]
    assert "2 times the time ran out" in texts[1][0]
    assert "time ran out" not in checkpoints_after(*[result()] * 3)[2][0]


def test_case_102_checkpoint_quotes_last_five_failures_in_160_characters_each():
    long = "line one\n" + "é" * 500
    texts = checkpoints_after(*[result(text=f"{n} {long}", tool="grep") for n in range(6)])
    quotes = [line for line in texts[5][0].splitlines() if line.startswith("- grep: ")]
    assert [quote[8] for quote in quotes] == ["1", "2", "3", "4", "5"]
    assert {len(quote.removeprefix("- grep: ")) for quote in quotes} == {160}


def test_case_102_failed_command_is_quoted_from_its_end():
    texts = checkpoints_after(
        *[result("failed_command", "x" * 500 + "\nExit code: 2", tool="bash")] * 3
    )
    quote = texts[2][0].splitlines()[1]
    assert quote.endswith("Exit code: 2")
    assert len(quote.removeprefix("- bash: ")) == 160


def test_case_102_failures_of_one_tool_point_to_its_description():
    assert "`edit`: read its description" in checkpoints_after(*[result()] * 3)[2][0]
    mixed = checkpoints_after(result(), result(tool="read"), result())[2][0]
    assert "description" not in mixed
    assert mixed.endswith("take a different step.")


def test_case_102_denials_have_a_separate_count_and_message():
    texts = checkpoints_after(*[result("denied", "Permission denied")] * 4)
    assert [len(each) for each in texts] == [0, 0, 1, 0]
    assert "do not work around" in texts[2][0]
    assert "user" in texts[2][0]


def test_case_102_denials_do_not_change_the_error_count():
    error, denied = result(), result("denied")
    assert counts(error, denied, error, denied, error) == [0, 0, 0, 0, 1]


def test_case_102_denial_checkpoint_comes_first():
    tracker = FailureTracker(1)
    tracker.record(result())
    tracker.record(result("denied"))
    first, second = tracker.due_checkpoints()
    assert ("denied" in first, "failed" in second) == (True, True)


def test_case_102_success_resets_both_counts():
    error, denied, ok = result(), result("denied"), result("ok")
    assert counts(error, error, denied, denied, ok, error, error, denied, denied) == [0] * 9


def test_case_102_only_outcomes_count_and_not_the_text_of_results():
    assert counts(*[result("ok", "it timed out after 3 s")] * 6) == [0] * 6
    assert "time ran out" not in checkpoints_after(*[result("denied", "timed out after")] * 3)[2][0]


@pytest.mark.parametrize("outcome", ["suppressed", "aborted"])
def test_synthetic_suppressed_and_aborted_results_do_not_count(outcome):
    assert counts(*[result(outcome)] * 4) == [0] * 4
    assert counts(*[result("error", synthetic="storm")] * 4) == [0] * 4
    assert counts(result(), result(), result("ok", synthetic="storm"), result()) == [0, 0, 0, 1]


@settings(max_examples=size(25, 60))
@given(
    st.lists(
        st.sampled_from(["ok", "error", "denied", "timeout", "failed_command", "suppressed", "?"])
    ),
    st.integers(1, 5),
)
def test_two_checkpoints_are_at_least_one_threshold_apart(outcomes, threshold):
    tracker = FailureTracker(threshold)
    score = 0
    for outcome in outcomes:
        tracker.record(result(outcome))
        score += {"error": 1, "denied": 1, "failed_command": 1, "timeout": 2}.get(outcome, 0)
        for _ in tracker.due_checkpoints():
            assert score >= threshold
            score -= threshold
        assert tracker.due_checkpoints() == []


async def test_case_102_checkpoint_enters_before_the_next_turn():
    model = ScriptedModel()
    for n in range(4):
        model.will_call("faulty", text="no such file", n=n)
    model.will_say("I give up: the file is gone.")

    run = await run_guarded(model, reminders())

    assert len(nudges(run)) == 1
    checkpoint = model.seen[3].messages[-1]
    assert isinstance(checkpoint, UserMessage)
    assert checkpoint.origin == "harness"
    assert "3 calls in a row failed" in checkpoint.text
    assert_balanced(run.new)


async def test_case_102_every_failed_call_of_a_batch_counts():
    model = ScriptedModel().will_call_all(*[("faulty", {"n": n}) for n in range(3)])
    run = await run_guarded(model.will_say("done"), reminders())
    assert len(nudges(run)) == 1


async def test_g5_failed_test_commands_do_not_reset_the_count():
    model = ScriptedModel()
    for n in range(3):
        model.will_call("bash", command=f"pytest {n}", exit=1)
    run = await run_guarded(model.will_say("done"), reminders())
    assert len(nudges(run)) == 1


async def test_denials_by_a_hook_get_the_denial_checkpoint():
    deny = Hooks(
        name="permission", before_tool_call=lambda *_: ToolOverride("Permission denied: no.")
    )
    model = ScriptedModel()
    for n in range(3):
        model.will_call("bash", command=f"rm {n}")
    run = await run_guarded(model.will_say("I may not."), reminders(), deny)
    assert ["do not work around" in text for text in nudges(run)] == [True]


async def test_checkpoint_does_not_continue_a_run_that_ends():
    ending = AfterToolCallResult(terminate=True)
    stop = Hooks(after_tool_call=lambda *_: ending)
    model = ScriptedModel().will_call_all(*[("faulty", {"n": n}) for n in range(3)])
    run = await run_guarded(model, reminders(), stop)
    assert (nudges(run), len(model.seen)) == ([], 1)
