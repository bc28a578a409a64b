import asyncio
import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import Context, LoopConfig, StopRun, ToolOverride, TurnInfo, compose
from dirge_py.agent_loop.queues import InputQueue, followups_from_queue, steering_from_queue
from dirge_py.agent_loop.tool_calls import signature
from dirge_py.guards.repetition import StormBreaker, result_digest, short_signature
from dirge_py.providers.scripted import Reply
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.abort import AbortSignal
from dirge_py.types.messages import AssistantMessage, ImageBlock, ToolResultMessage
from dirge_py.types.outcomes import Done
from dirge_py.types.tools import Claim, LoopToolResult, ShellCommand, ToolCall, text_result
from tests.security.sizes import size
from tests.support.loop_runs import Tool, boom, run_loop


@dataclass
class Acting(Tool):
    """A tool that claims one operation, or fails to."""

    op: str | None = None
    polls: bool = False

    def claims(self, arguments):
        if self.op is None:
            raise LookupError("who knows")
        return [Claim(self.op, ShellCommand("x", "/") if self.op == "execute" else "/x")]


READ = Acting("read", op="read")
EDIT = Acting("edit", op="edit")
BASH = Acting("bash", op="execute")
TOOLS = {tool.name: tool for tool in (READ, EDIT, BASH, Acting("mcp_x", op="mcp"), Acting("odd"))}


@dataclass
class GuardDriver:
    """Drives a guard's hooks batch by batch; passed calls get the given results."""

    breaker: StormBreaker = field(default_factory=StormBreaker)
    turn: int = 0
    outer_turn: int = 1

    def __post_init__(self):
        self.bundle = self.breaker.bundle()
        self.ids = itertools.count()

    def batch(self, *asked, results=()):
        """The guard's answers to calls `(name, arguments)`; None for a passed call."""
        self.turn += 1
        calls = tuple(
            ToolCall(id=f"c{next(self.ids)}", name=name, arguments=args, tool=TOOLS.get(name))
            for name, args in asked
        )
        info = TurnInfo(
            run_id="r", outer_turn=self.outer_turn, turn=self.turn, context=Context(),
            new_messages=(), signal=AbortSignal(), emit=lambda event: None, calls=calls,
        )  # fmt: skip
        answers = [self.bundle.before_tool_call(info, call) for call in calls]
        for call, answer, result in zip(calls, answers, results, strict=False):
            if answer is None:
                self.bundle.after_tool_call(info, call, result)
        return answers

    def passes(self, name, arguments=None, result=None):
        results = [] if result is None else [result]
        return self.batch((name, arguments or {}), results=results) == [None]


def how_many_pass(answers):
    return sum(answer is None for answer in answers)


# -- the window


def test_case_98_third_identical_call_is_suppressed():
    watched = GuardDriver()
    assert [watched.passes("read", {"p": 1}) for _ in range(3)] == [True, True, False]


def test_very_large_offset_does_not_fail_the_comparison():
    watched = GuardDriver()
    assert watched.passes("read", {"offset": 10**400}) and watched.passes("read", {"offset": -1.5})


def test_case_98_key_order_and_integral_floats_do_not_matter():
    watched = GuardDriver()
    assert watched.passes("read", {"a": 1, "b": 2})
    assert watched.passes("read", {"b": 2.0, "a": 1.0})
    assert not watched.passes("read", {"a": 1.0, "b": 2})


def test_case_98_calls_with_other_arguments_are_never_suppressed():
    watched = GuardDriver()
    assert all(watched.passes("read", {"n": n}) for n in range(30))


def test_case_98_calls_outside_the_window_are_forgotten():
    watched = GuardDriver()
    for n in range(2):
        assert watched.passes("read", {"p": "same"})
        assert all(watched.passes("read", {"n": (n, m)}) for m in range(6))
    assert watched.passes("read", {"p": "same"})


def test_case_98_two_of_three_equal_calls_in_a_batch_run_and_later_ones_do_not():
    watched = GuardDriver()
    first = watched.batch(*[("read", {})] * 3)
    assert [answer is None for answer in first] == [True, True, False]
    assert how_many_pass(watched.batch(*[("read", {})] * 3)) == 0


def test_case_98_reads_can_be_repeated_after_a_mutating_call():
    watched = GuardDriver()
    for _ in range(5):
        assert watched.passes("read") and watched.passes("read")
        assert watched.passes("bash", {"command": f"ls {watched.turn}"}, text_result("a.py"))


@pytest.mark.parametrize("name", ["edit", "bash"])
def test_case_98_repeated_mutating_calls_are_suppressed(name):
    watched = GuardDriver()
    assert [watched.passes(name) for _ in range(3)] == [True, True, False]


def test_case_98_new_outer_turn_starts_with_an_empty_window():
    watched = GuardDriver()
    for watched.outer_turn in (1, 2, 3):
        assert [watched.passes("read") for _ in range(3)] == [True, True, False]


def test_call_without_a_name_is_not_suppressed():
    watched = GuardDriver()
    assert all(watched.passes("") for _ in range(9))


@pytest.mark.parametrize("name", ["odd", "mcp_x", "nobody_knows"])
def test_repeated_calls_of_tools_with_unknown_effect_are_suppressed(name):
    watched = GuardDriver()
    assert [watched.passes(name) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("name", ["bash_output", "task_status", "task_output", "mine"])
def test_polling_and_exempt_tools_can_repeat(name):
    watched = GuardDriver(StormBreaker(exempt=["mine"]))
    assert all(watched.passes(name) for _ in range(9))


def test_tool_marked_as_polling_can_repeat():
    breaker = StormBreaker()
    bundle = breaker.bundle()
    tool = Acting("ask_again", op="other", polls=True)
    for turn in range(1, 9):
        call = ToolCall(id="c", name=tool.name, arguments={}, tool=tool)
        info = TurnInfo(
            run_id="r", outer_turn=1, turn=turn, context=Context(), new_messages=(),
            signal=AbortSignal(), emit=lambda event: None, calls=(call,),
        )  # fmt: skip
        assert bundle.before_tool_call(info, call) is None


def test_g4_names_in_settings_extend_the_built_in_lists():
    watched = GuardDriver(StormBreaker(exempt=["mine"], mutating=["mcp_x"]))
    assert [watched.passes("edit") for _ in range(3)] == [True, True, False]
    assert all(watched.passes("bash_output") for _ in range(9))
    for n in range(4):
        assert watched.passes("read") and watched.passes("read")
        assert watched.passes("mcp_x", {"n": n}, text_result("changed"))


@pytest.mark.parametrize(("window", "threshold"), [(6, 1), (2, 3)])
def test_invalid_window_and_threshold_are_refused(window, threshold):
    with pytest.raises(ValueError, match="threshold"):
        StormBreaker(window, threshold)


def test_disabled_storm_breaker_has_no_hooks():
    assert StormBreaker(enabled=False).bundle().before_tool_call is None


def test_threshold_of_two_suppresses_the_second_call():
    watched = GuardDriver(StormBreaker(4, 2))
    assert [watched.passes("read") for _ in range(2)] == [True, False]


# -- progress


def test_case_99_second_call_after_a_timeout_is_suppressed():
    watched = GuardDriver()
    late = text_result("too late", outcome="timeout", is_error=True)
    assert watched.passes("read", {}, late)
    assert not watched.passes("read")


def test_case_99_other_errors_do_not_lower_the_threshold():
    watched = GuardDriver()
    error = text_result("broken", outcome="error", is_error=True)
    assert [watched.passes("read", {}, error) for _ in range(3)] == [True, True, False]


def test_case_99_new_outer_turn_forgets_the_timeout():
    watched = GuardDriver()
    late = text_result("too late", outcome="timeout", is_error=True)
    assert watched.passes("read", {}, late)
    watched.outer_turn = 2
    assert watched.passes("read", {}, text_result("ok")) and watched.passes("read")


def test_g3_calls_with_changing_results_are_not_suppressed():
    watched = GuardDriver()
    assert all(watched.passes("mcp_x", {}, text_result(f"{n} % done")) for n in range(12))


def test_calls_are_suppressed_once_their_result_stops_changing():
    watched = GuardDriver()
    said = ["1 %", "2 %", "2 %", "2 %"]
    assert [watched.passes("mcp_x", {}, text_result(text)) for text in said] == [
        True, True, True, False,
    ]  # fmt: skip


def test_call_count_restarts_when_a_refused_call_first_runs():
    watched = GuardDriver()
    assert watched.passes("read")
    assert watched.passes("read", {}, text_result("x"))
    assert watched.passes("read", {}, text_result("x"))
    assert not watched.passes("read")


def test_different_results_in_one_batch_count_as_progress():
    watched = GuardDriver()
    watched.batch(*[("read", {})] * 2, results=[text_result("a"), text_result("b")])
    assert watched.passes("read")


def test_equal_results_in_one_batch_do_not_count_as_progress():
    watched = GuardDriver()
    watched.batch(*[("read", {})] * 2, results=[text_result("a"), text_result("a")])
    assert not watched.passes("read")


def test_g2_alternating_edits_and_tests_are_never_suppressed():
    watched = GuardDriver()
    red = text_result("1 failed in 0.31s", outcome="failed_command")
    for n in range(12):
        assert watched.passes("edit", {"n": n}, text_result("edited"))
        assert watched.passes("bash", {"command": "make test"}, red)


def test_g2_alternating_edits_and_tests_in_one_batch_are_never_suppressed():
    watched = GuardDriver()
    for n in range(12):
        answers = watched.batch(
            ("edit", {"n": n}),
            ("bash", {"command": "make test"}),
            results=[text_result("same")] * 2,
        )
        assert answers == [None, None]


def test_g2_alternating_edit_commands_and_tests_are_never_suppressed():
    watched, failed = GuardDriver(), text_result("1 failed", outcome="failed_command")
    for n in range(5):
        assert watched.passes("bash", {"command": f"sed -i {n}"}, text_result(""))
        assert watched.passes("bash", {"command": "pytest"}, failed)


def test_g2_failed_or_repeated_command_does_not_count_as_an_edit():
    watched, failed = GuardDriver(), text_result("1 failed", outcome="failed_command")
    for n in range(2):
        assert watched.passes("bash", {"command": "pytest"}, failed)
        assert watched.passes("bash", {"command": f"no such {n}"}, failed)
    assert not watched.passes("bash", {"command": "pytest"}, failed)
    watched = GuardDriver()
    for _ in range(2):
        assert watched.passes("bash", {"command": "sed -i x"}, text_result(""))
        assert watched.passes("bash", {"command": "pytest"}, failed)
    assert not watched.passes("bash", {"command": "sed -i x"}, text_result(""))


def test_failed_edit_does_not_count_as_a_change():
    watched = GuardDriver()
    failed = text_result("no such text", outcome="error", is_error=True)
    for n in range(2):
        assert watched.passes("bash", {"command": "make test"}, text_result("red"))
        assert watched.passes("edit", {"n": n}, failed)
    assert not watched.passes("bash", {"command": "make test"})


def test_successful_edit_forgets_a_timeout():
    watched = GuardDriver()
    late = text_result("too late", outcome="timeout", is_error=True)
    assert watched.passes("bash", {}, late)
    assert watched.passes("edit", {}, text_result("edited"))
    assert watched.passes("bash", {}, text_result("ok"))
    assert watched.passes("bash", {}, text_result("ok"))


def test_edit_in_a_batch_longer_than_the_window_counts_as_a_change():
    watched = GuardDriver()
    assert watched.passes("bash", {}) and watched.passes("bash", {})
    reads = [("read", {"n": n}) for n in range(12)]
    answers = watched.batch(("edit", {"n": 1}), *reads, results=[text_result("ok")])
    assert how_many_pass(answers) == 13
    assert watched.passes("bash", {})


def test_compaction_forgets_earlier_calls():
    watched = GuardDriver()
    assert watched.passes("read") and watched.passes("read")
    watched.breaker.note_compaction()
    assert [watched.passes("read") for _ in range(3)] == [True, True, False]


# -- cycles


def test_two_alternating_reads_are_suppressed_from_the_fifth_call():
    watched = GuardDriver()
    passed = [watched.passes("read", {"p": "ab"[n % 2]}, text_result("x")) for n in range(5)]
    assert passed == [True, True, True, True, False]


def test_three_alternating_reads_are_suppressed_from_the_seventh_call():
    watched = GuardDriver()
    passed = [watched.passes("read", {"p": "abc"[n % 3]}, text_result("x")) for n in range(7)]
    assert passed == [True] * 6 + [False]


def test_edits_that_undo_each_other_are_suppressed_as_a_cycle():
    watched = GuardDriver()
    passed = [watched.passes("edit", {"to": n % 2}, text_result("edited")) for n in range(5)]
    assert passed == [True] * 4 + [False]
    with pytest.raises(StopRun):
        watched.passes("edit", {"to": 1})


def test_cycle_with_changing_results_is_not_suppressed():
    watched = GuardDriver()
    for n in range(20):
        assert watched.passes("edit", {"to": n % 2}, text_result(f"edited, version {n}"))


# -- messages


def test_case_100_new_call_runs_beside_a_suppressed_one():
    watched = GuardDriver()
    watched.batch(("read", {"p": 1}), ("read", {"p": 1}))
    stale, fresh = watched.batch(("read", {"p": 1}), ("read", {"p": 2}))
    assert fresh is None
    assert isinstance(stale, ToolOverride) and stale.is_error
    assert stale.details == {
        "outcome": "suppressed",
        "synthetic": "suppressed",
        "storm": {"count": 3, "signature": 'read\0{"p":1}'},
    }
    assert "twice before" in stale.content


def test_pivot_message_has_four_steps_and_lists_suppressed_calls():
    watched = GuardDriver()
    watched.batch(*[("read", {"p": "x" * 300})] * 3)
    watched.batch(*[("read", {"p": 1})] * 2)
    answers = watched.batch(("read", {"p": 1}), ("read", {"p": 1}))
    assert [answer.is_error for answer in answers] == [False, False]
    text = answers[0].content
    assert all(f"{step}. " in text for step in (1, 2, 3, 4))
    listed = [line for line in text.splitlines() if line.startswith("- read(")]
    assert listed[1] == '- read({"p":1})'
    assert len(listed) == 2 and len(listed[0]) == len("- read()") + 120


def test_list_of_suppressed_calls_is_kept_for_the_whole_run_only():
    watched = GuardDriver()
    watched.batch(*[("read", {"p": "old"})] * 3)
    watched.outer_turn = 2
    watched.batch(*[("read", {"p": "new"})] * 2)
    (answer,) = watched.batch(("read", {"p": "new"}))
    assert "old" in answer.content and "new" in answer.content

    other = GuardDriver(watched.breaker)
    other.batch(*[("read", {"p": "new"})] * 2)
    (answer,) = other.batch(("read", {"p": "new"}))
    assert "old" not in answer.content


def test_run_stops_with_a_question_if_suppressed_calls_repeat():
    watched = GuardDriver()
    assert [watched.passes("bash") for _ in range(3)] == [True, True, False]
    assert how_many_pass(watched.batch(("bash", {}), ("nope", {}))) == 1
    with pytest.raises(StopRun) as stopped:
        watched.batch(("bash", {}), ("bash", {}))
    stop = stopped.value
    assert (stop.outcome, stop.finalize) == (Done(stopped_by="storm"), True)
    assert "`bash`" in stop.say and stop.say.startswith("I ") and "hint" in stop.say


def test_closing_message_names_each_tool_once_in_order():
    watched = GuardDriver()
    watched.batch(*[("mcp_x", {})] * 2, *[("odd", {})] * 2, *[("read", {})] * 2)
    watched.batch(("odd", {}), ("read", {}))
    with pytest.raises(StopRun) as stopped:
        watched.batch(("read", {}), ("odd", {}), ("read", {}), ("mcp_x", {}))
    assert "`read`, `odd` and `mcp_x`" in stopped.value.say


# -- in a run


def guarded(breaker=None, **hooks):
    return compose((breaker or StormBreaker()).bundle(), config=LoopConfig(**hooks))


def reading(times, model=None):
    model = model or ScriptedModel()
    for _ in range(times):
        model.will_call("read", path="a.py")
    return model


async def test_g1_third_read_of_the_same_file_gets_the_pivot_message():
    model = reading(3).will_say("I see.")
    tool = Acting("read", op="read")
    run = await run_loop(model, "go", tools=[tool], config=guarded())

    assert len(tool.ran) == 2
    assert run.outcomes == ["ok", "ok", "suppressed"]
    assert 'read({"path":"a.py"})' in run.results[2].text
    assert not run.results[2].is_error
    assert isinstance(run.outcome, Done) and run.outcome.stopped_by == ""


async def test_run_that_repeats_calls_after_the_pivot_is_stopped():
    model = reading(9)
    run = await run_loop(model, "go", tools=[Acting("read", op="read")], config=guarded())

    assert len(model.seen) == 4
    assert isinstance(run.outcome, Done) and run.outcome.stopped_by == "storm"
    assert run.outcomes == ["ok", "ok", "suppressed", "suppressed"]
    last = run.new[-1]
    assert isinstance(last, AssistantMessage) and last.origin == "harness"
    assert run.outcome.result.response == last.text and "`read`" in last.text
    assert_balanced(run.new)


async def test_run_that_edited_something_gets_another_pivot_message():
    model = reading(3, reading(3).will_call("edit", path="a")).will_say("done")
    tools = [Acting("read", op="read"), Acting("edit", op="edit")]
    run = await run_loop(model, "go", tools=tools, config=guarded())
    assert run.outcomes.count("suppressed") == 2
    assert isinstance(run.outcome, Done) and run.outcome.stopped_by == ""


async def test_calls_can_be_repeated_after_a_user_message():
    queue = InputQueue("steering")
    model = reading(2)
    model.will(lambda _: queue.put("I mended it, look again") and Reply(calls=[("odd", {})]))
    run = await run_loop(
        reading(2, model).will_say("done"),
        "go",
        tools=[Acting("read", op="read"), Acting("odd")],
        config=guarded(get_steering_messages=steering_from_queue(queue)),
    )
    assert run.outcomes == ["ok"] * 5


async def test_queued_follow_up_is_delivered_after_a_storm_and_resets_the_window():
    queue = InputQueue("follow_up")
    queue.put("try the other file")
    model = reading(4)
    reading(2, model).will_say("done")
    run = await run_loop(
        model,
        "go",
        tools=[Acting("read", op="read")],
        config=guarded(get_followup_messages=followups_from_queue(queue)),
    )
    assert run.outcomes == ["ok", "ok", "suppressed", "suppressed", "ok", "ok"]
    assert "try the other file" in [message.text for message in run.new]
    assert run.new[-1].text == "done"
    assert isinstance(run.outcome, Done) and run.outcome.stopped_by == ""


async def test_follow_up_hooks_see_that_the_storm_breaker_ended_the_run():
    heard = []

    def gate(info, _so_far):
        heard.append(info.ended_by)
        return []

    config = guarded(get_followup_messages=gate)
    await run_loop(reading(4), "go", tools=[Acting("read", op="read")], config=config)
    assert heard == ["storm"]


@pytest.mark.parametrize("arguments", [{"path": "a"}, '{"cut'])
async def test_calls_of_unknown_tools_count_as_repetitions(arguments):
    model = ScriptedModel()
    for _ in range(3):
        model.will_call_all(("nope", arguments))
    run = await run_loop(model.will_say("well"), "go", tools=[], config=guarded())
    assert run.outcomes == ["unknown_tool", "unknown_tool", "suppressed"]


async def test_calls_with_invalid_arguments_count_as_repetitions():
    def refuse(tool, arguments):
        raise ValueError("`path` is missing")

    model = ScriptedModel()
    for _ in range(3):
        model.will_call("read", pth="a")
    config = guarded(validate=refuse)
    run = await run_loop(
        model.will_say("well"), "go", tools=[Acting("read", op="read")], config=config
    )
    assert run.outcomes == ["invalid", "invalid", "suppressed"]


async def test_case_100_every_call_of_a_mixed_batch_gets_a_result():
    model = reading(2).will_call_all(("read", {"path": "a.py"}), ("read", {"path": "b.py"}))
    run = await run_loop(
        model.will_say("ok"), "go", tools=[Acting("read", op="read")], config=guarded()
    )
    assert run.outcomes == ["ok", "ok", "suppressed", "ok"]
    assert [result.is_error for result in run.results] == [False, False, True, False]


asked = st.lists(
    st.tuples(
        st.sampled_from(["read", "edit", "bash", "boom", "nope", "bash_output"]),
        st.sampled_from([{}, {"n": 1}, {"n": 1.0}, '{"cut', [1], None]),
    ),
    max_size=5,
)


@settings(max_examples=size(25, 60), deadline=None)
@given(
    script=st.lists(asked, max_size=8),
    for_ever=st.sampled_from(["read", "edit", "bash", "boom", "nope"]),
    window=st.integers(2, 8),
    mode=st.sampled_from(["parallel", "sequential"]),
    data=st.data(),
)
def test_every_call_gets_one_result_and_endless_repetition_ends(
    script, for_ever, window, mode, data
):
    threshold = data.draw(st.integers(2, window))
    model = ScriptedModel()
    for calls in script:
        model.will(Reply(text="" if calls else "thinking aloud", calls=calls))
        if not calls:
            break
    else:
        for _ in range(threshold + 2):
            model.will_call(for_ever, n="same")
    tools = [
        Acting("read", op="read"), Acting("edit", op="edit"), Acting("bash", op="execute"),
        Acting("boom", boom, op="other"), Acting("bash_output", op="other"),
    ]  # fmt: skip
    config = guarded(StormBreaker(window, threshold), tool_execution=mode)
    run = asyncio.run(run_loop(model, "go", tools=tools, config=config))

    assert isinstance(run.outcome, Done)
    assert_balanced(run.new)
    made = [call.id for m in run.new if isinstance(m, AssistantMessage) for call in m.calls]
    assert sorted(made) == sorted(
        m.tool_call_id for m in run.new if isinstance(m, ToolResultMessage)
    )
    assert len(model.seen) <= len(script) + threshold + 2


def test_long_arguments_are_shortened_to_a_hash():
    short, long = signature("write", {"a": 1}), signature("write", {"a": "x" * 5000})
    assert short_signature(short) == short
    assert short_signature(long).startswith("write\0sha256:")
    assert len(short_signature(long)) < 100
    assert short_signature(long) != short_signature(signature("write", {"a": "y" * 5000}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1 failed in 0.03s  \r\nx", "1 failed in 1.74s\nx"),
        ("took 12 ms", "took 9 ms"),
        ("<A object at 0x7f3a2b4c5d60>", "<A object at 0x7f3a2b4c0000>"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_times_addresses_and_colors_do_not_change_the_result_digest(one, other):
    assert result_digest(text_result(one)) == result_digest(text_result(other))


@pytest.mark.parametrize(
    "other",
    [
        text_result("2 failed"),
        text_result("1 failed", outcome="failed_command"),
        text_result("1 failed", outcome="error", is_error=True),
        LoopToolResult(content=(ImageBlock(asset_id="a", media_type="image/png"),)),
    ],
)
def test_another_text_outcome_or_image_changes_the_result_digest(other):
    assert result_digest(text_result("1 failed")) != result_digest(other)


def test_very_long_results_are_compared_unnormalized():
    said = [f"{'line' * 20_000}\n1 failed in {seconds}s" for seconds in (0.1, 0.1, 0.2)]
    first, same, other = [result_digest(text_result(text)) for text in said]
    assert first == same != other
