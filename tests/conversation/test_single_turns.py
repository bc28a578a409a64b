"""Single turns: the run pauses after each, and continues from there."""

import pytest

from dirge_py.providers.scripted import Reply
from dirge_py.testing import EventRecorder, assert_balanced, assert_event_grammar
from dirge_py.types.events import PermissionAnswered
from dirge_py.types.hooks import CallDecision, Hooks, TurnInfo, TurnUpdate
from dirge_py.types.llm import StreamDone, TextDelta
from dirge_py.types.messages import Usage
from dirge_py.types.outcomes import AwaitingConfirmation, Done, MaxTurns, NeedsMoreTurns
from dirge_py.types.questions import PermissionAnswer
from tests.support.project import ScriptedProject

USAGE = Usage(input=100, output=10)


async def test_turns_and_usage_are_counted_over_all_single_turns(project: ScriptedProject) -> None:
    for _ in range(2):
        project.model.will(Reply(calls=[("list_dir", {"path": "."})], usage=USAGE))
    project.model.will_say("Empty.", usage=USAGE)

    async with project.open() as conversation:
        first = await conversation.send("look twice", single_turn=True)
        second = await conversation.continue_run(single_turn=True)
        third = await conversation.continue_run(single_turn=True)

        assert_balanced(conversation.messages)
    assert first == NeedsMoreTurns(turn=1, turn_usage=USAGE, total_usage=USAGE)
    assert second == NeedsMoreTurns(turn=2, turn_usage=USAGE, total_usage=USAGE + USAGE)
    assert isinstance(third, Done) and third.result is not None
    assert third.result.response == "Empty."


async def test_events_of_a_single_turn_follow_the_event_grammar(project: ScriptedProject) -> None:
    project.model.will_call("list_dir", path=".")

    async with project.open() as conversation:
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        await conversation.send("look", single_turn=True)

    assert_event_grammar(recorder.events)
    assert recorder.types.count("turn_start") == 1


async def test_single_turns_record_the_same_messages_as_a_whole_run(
    project: ScriptedProject,
) -> None:
    for _ in range(2):
        project.model.will_call("list_dir", path=".").will_say("Empty.")

    async with project.open() as conversation:
        await conversation.send("look")
        whole = list(conversation.messages)
    async with project.open() as conversation:
        await conversation.send("look", single_turn=True)
        await conversation.continue_run(single_turn=True)
        apart = list(conversation.messages)

    assert [message.role for message in apart] == [message.role for message in whole]
    assert apart[-1] == whole[-1]


async def test_max_turns_counts_all_single_turns_of_a_run(project: ScriptedProject) -> None:
    project.configure("[loop]\nmax_turns = 2\n")
    for _ in range(3):
        project.model.will_call("list_dir", path=".")

    async with project.open() as conversation:
        assert isinstance(await conversation.send("look", single_turn=True), NeedsMoreTurns)
        assert await conversation.continue_run(single_turn=True) == MaxTurns(max=2)

        assert isinstance(await conversation.send("again", single_turn=True), NeedsMoreTurns)


async def test_steering_between_single_turns_enters_before_the_second(
    project: ScriptedProject,
) -> None:
    project.model.will_call("list_dir", path=".").will_say("Empty.")

    async with project.open() as conversation:
        await conversation.send("look", single_turn=True)
        conversation.steer("closely")
        await conversation.continue_run(single_turn=True)

    assert project.prompts_of_call()[-1].endswith("closely")
    assert [message.role for message in project.model.seen[1].messages] == [
        "user",
        "assistant",
        "toolResult",
        "user",
    ]


async def test_pause_turn_does_not_end_a_single_turn(project: ScriptedProject) -> None:
    project.model.will_stream(TextDelta("half"), StreamDone(stop_reason="pause_turn"))
    project.model.will_say("whole")

    async with project.open() as conversation:
        run = conversation.send("go", single_turn=True)
        outcome = await run

    assert isinstance(outcome, Done) and outcome.result is not None
    assert (run.turns, outcome.result.turns) == (1, 1)


@pytest.mark.parametrize("reason", ["too risky", ""])
async def test_a58_rejected_call_gets_a_result_and_the_run_continues(
    project: ScriptedProject, reason: str
) -> None:
    project.user.answer = PermissionAnswer(effect="defer")
    project.model.will_call("bash", command="touch a").will_say("as you wish")

    async with project.open() as conversation:
        recorder = EventRecorder()
        conversation.subscribe(recorder)
        waiting = await conversation.send("touch")
        assert isinstance(waiting, AwaitingConfirmation)
        no = CallDecision(tool_call_id=waiting.call_ids[0], allow=False, reason=reason)
        assert isinstance(await conversation.continue_run([no]), Done)

        [result] = [m for m in conversation.messages if m.role == "toolResult"]
        assert result.text == f"Rejected: {reason or 'User rejected'}"
        assert result.details["outcome"] == "denied"
        [answer] = [e for e in recorder.of(PermissionAnswered) if e.effect == "deny"]
        assert answer.policy == "answer"
    assert not (project.folder / "a").exists()


async def test_retried_attempt_does_not_end_a_single_turn(
    project: ScriptedProject,
) -> None:
    project.model.will_fail("broken", text="half").will_call("list_dir", path=".")
    again = TurnUpdate(continue_with=())

    def retry(info: TurnInfo) -> TurnUpdate | None:
        failed = info.message is not None and info.message.stop_reason == "error"
        return again if failed else None

    async with project.open() as conversation:
        outcome = await conversation.send(
            "go", single_turn=True, bundles=[Hooks(name="retry", prepare_next_turn=retry)]
        )

    assert isinstance(outcome, NeedsMoreTurns)
    assert len(project.model.seen) == 2
