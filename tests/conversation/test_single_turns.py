"""One turn at a time: the run rests after each, and goes on where it stood."""

import pytest

from dirge_py.providers.scripted import Reply
from dirge_py.testing import EventRecorder, assert_balanced, assert_event_grammar
from dirge_py.types.events import PermissionAnswered
from dirge_py.types.hooks import CallDecision, Hooks, TurnInfo, TurnUpdate
from dirge_py.types.llm import StreamDone, TextDelta
from dirge_py.types.messages import Usage
from dirge_py.types.outcomes import AwaitingConfirmation, Done, MaxTurns, NeedsMoreTurns
from dirge_py.types.questions import PermissionAnswer
from tests.conversation.room import Room

USAGE = Usage(input=100, output=10)


async def test_turns_and_tokens_are_counted_over_all_of_them(room: Room) -> None:
    for _ in range(2):
        room.model.will(Reply(calls=[("list_dir", {"path": "."})], usage=USAGE))
    room.model.will_say("Empty.", usage=USAGE)

    async with room.open() as talk:
        first = await talk.send("look twice", single_turn=True)
        second = await talk.continue_run(single_turn=True)
        third = await talk.continue_run(single_turn=True)

        assert_balanced(talk.messages)
    assert first == NeedsMoreTurns(turn=1, turn_usage=USAGE, total_usage=USAGE)
    assert second == NeedsMoreTurns(turn=2, turn_usage=USAGE, total_usage=USAGE + USAGE)
    assert isinstance(third, Done) and third.result is not None
    assert third.result.response == "Empty."


async def test_the_events_of_one_turn_are_those_of_a_whole_run(room: Room) -> None:
    room.model.will_call("list_dir", path=".")

    async with room.open() as talk:
        recorder = EventRecorder()
        talk.subscribe(recorder)
        await talk.send("look", single_turn=True)

    assert_event_grammar(recorder.events)
    assert recorder.types.count("turn_start") == 1


async def test_turn_by_turn_tells_the_same_story_as_in_one_go(room: Room) -> None:
    for _ in range(2):
        room.model.will_call("list_dir", path=".").will_say("Empty.")

    async with room.open() as talk:
        await talk.send("look")
        whole = list(talk.messages)
    async with room.open() as talk:
        await talk.send("look", single_turn=True)
        await talk.continue_run(single_turn=True)
        apart = list(talk.messages)

    assert [message.role for message in apart] == [message.role for message in whole]
    assert apart[-1] == whole[-1]


async def test_the_most_turns_hold_for_all_of_them_together(room: Room) -> None:
    room.configure("[loop]\nmax_turns = 2\n")
    for _ in range(3):
        room.model.will_call("list_dir", path=".")

    async with room.open() as talk:
        assert isinstance(await talk.send("look", single_turn=True), NeedsMoreTurns)
        assert await talk.continue_run(single_turn=True) == MaxTurns(max=2)

        assert isinstance(await talk.send("again", single_turn=True), NeedsMoreTurns)


async def test_steering_between_two_turns_enters_before_the_second(room: Room) -> None:
    room.model.will_call("list_dir", path=".").will_say("Empty.")

    async with room.open() as talk:
        await talk.send("look", single_turn=True)
        talk.steer("closely")
        await talk.continue_run(single_turn=True)

    assert room.heard()[-1].endswith("closely")
    assert [message.role for message in room.model.seen[1].messages] == [
        "user",
        "assistant",
        "toolResult",
        "user",
    ]


async def test_a_pause_of_the_service_is_no_turn_to_rest_after(room: Room) -> None:
    room.model.will_stream(TextDelta("half"), StreamDone(stop_reason="pause_turn"))
    room.model.will_say("whole")

    async with room.open() as talk:
        run = talk.send("go", single_turn=True)
        outcome = await run

    assert isinstance(outcome, Done) and outcome.result is not None
    assert (run.turns, outcome.result.turns) == (1, 1)


@pytest.mark.parametrize("reason", ["too risky", ""])
async def test_a58_a_rejected_call_is_answered_and_the_run_goes_on(room: Room, reason: str) -> None:
    room.person.answer = PermissionAnswer(effect="defer")
    room.model.will_call("bash", command="touch a").will_say("as you wish")

    async with room.open() as talk:
        recorder = EventRecorder()
        talk.subscribe(recorder)
        waiting = await talk.send("touch")
        assert isinstance(waiting, AwaitingConfirmation)
        no = CallDecision(tool_call_id=waiting.call_ids[0], allow=False, reason=reason)
        assert isinstance(await talk.continue_run([no]), Done)

        [result] = [m for m in talk.messages if m.role == "toolResult"]
        assert result.text == f"Rejected: {reason or 'User rejected'}"
        assert result.details["outcome"] == "denied"
        [answer] = [e for e in recorder.of(PermissionAnswered) if e.effect == "deny"]
        assert answer.policy == "answer"
    assert not (room.project / "a").exists()


async def test_an_attempt_that_is_made_again_is_no_turn_to_rest_after(room: Room) -> None:
    room.model.will_fail("broken", text="half").will_call("list_dir", path=".")
    again = TurnUpdate(continue_with=())

    def retry(info: TurnInfo) -> TurnUpdate | None:
        failed = info.message is not None and info.message.stop_reason == "error"
        return again if failed else None

    async with room.open() as talk:
        outcome = await talk.send(
            "go", single_turn=True, bundles=[Hooks(name="retry", prepare_next_turn=retry)]
        )

    assert isinstance(outcome, NeedsMoreTurns)
    assert len(room.model.seen) == 2
