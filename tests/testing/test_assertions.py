import asyncio

import pytest

from dirge_py.testing import FakeClock, assert_balanced, assert_event_grammar
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd, MessageStart, TurnEnd, TurnStart
from dirge_py.types.messages import AssistantMessage, ToolCallBlock, ToolResultMessage, user_text
from dirge_py.types.outcomes import Done

ASKS = AssistantMessage(content=(ToolCallBlock(id="a", name="x", arguments={}),))
ANSWER = ToolResultMessage(tool_call_id="a", tool_name="x", content=())
SAID = user_text("hi")


def test_history_with_answered_calls_is_accepted():
    assert_balanced([SAID, ASKS, ANSWER, SAID])
    assert_balanced([SAID, ASKS], open_calls_allowed=True)


@pytest.mark.parametrize(
    "messages", [[ASKS], [ANSWER], [ASKS, ANSWER, ANSWER], [ASKS, SAID, ANSWER], [ASKS, ASKS]]
)
def test_an_unbalanced_history_is_refused(messages):
    with pytest.raises(AssertionError):
        assert_balanced(messages)


START, END = AgentStart(run_id="r"), AgentEnd(messages=(SAID,), outcome=Done())
PROMPT = [MessageStart(SAID), MessageEnd(SAID)]
TURN, TURN_END = TurnStart(turn=1), TurnEnd(message=None)


def test_events_of_a_complete_run_are_accepted():
    assert_event_grammar([START, TURN, *PROMPT, TURN_END, END])


@pytest.mark.parametrize(
    "events",
    [
        [],
        [START, TURN, *PROMPT, END],
        [START, TURN, *PROMPT, TURN_END],
        [START, *PROMPT, TURN, TURN_END, END],
        [START, TURN, PROMPT[0], TURN_END, END],
        [START, TURN, TURN_END, END],
    ],
)
def test_events_in_wrong_order_are_refused(events):
    with pytest.raises(AssertionError):
        assert_event_grammar(events)


async def test_fake_clock_wakes_sleepers_in_time():
    clock, woken = FakeClock(), []

    async def sleeper(delay_s):
        await clock.sleep(delay_s)
        woken.append(delay_s)

    tasks = [asyncio.ensure_future(sleeper(delay_s)) for delay_s in (3, 1, 2)]
    await asyncio.sleep(0)
    clock.advance(2)
    await asyncio.gather(*tasks[1:])

    assert (woken, clock(), clock.sleepers) == ([1, 2], 2, 1)
    clock.advance(1)
    await tasks[0]
