import pytest

from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.agent_loop.guards.limits import TIMEOUT, Limits, limits, timed_out
from dirge_py.agent_loop.queues import InputQueue, followups_from_queue, steering_from_queue
from dirge_py.events import SystemNotice, TurnEnd
from dirge_py.messages import Usage
from dirge_py.outcomes import Cancelled, Done, Failed, LimitExceeded, MaxTurns
from dirge_py.providers.scripted import Reply
from dirge_py.testing import FakeClock, ScriptedModel
from tests.agent_loop.kit import Tool, ran


def restless(turns=9, *, usage=None):
    model = ScriptedModel()
    for n in range(turns):
        model.will(Reply(calls=[("echo", {"n": n})], usage=usage))
    return model


async def test_a_model_that_wants_more_turns_is_stopped_with_words():
    model = restless()
    run = await ran(model, "go", tools=[Tool()], config=compose(limits(Limits(turns=2))))

    assert (len(model.seen), run.outcome) == (2, MaxTurns(max=2))
    assert "2 turns" in run.recorder.of(SystemNotice)[0].content
    assert "2 turns" in run.new[-1].text


async def test_the_last_allowed_turn_may_be_the_answer():
    model = ScriptedModel().will_call("echo").will_say("done")
    run = await ran(model, "go", tools=[Tool()], config=compose(limits(Limits(turns=2))))
    assert isinstance(run.outcome, Done)


@pytest.mark.parametrize("kind", ["steering", "follow_up"])
async def test_a_turn_that_input_opened_is_counted_too(kind):
    queue = InputQueue(kind)
    queue.put("more")
    hook = {
        "steering": {"get_steering_messages": lambda i: steering(i) if i.message else []},
        "follow_up": {"get_followup_messages": followups_from_queue(queue)},
    }[kind]
    steering = steering_from_queue(queue)
    model = ScriptedModel().will_say("a")
    config = compose(limits(Limits(turns=1)), config=LoopConfig(**hook))

    run = await ran(model, "go", config=config)

    assert (len(model.seen), run.outcome) == (1, MaxTurns(max=1))
    assert [message.text for message in run.new[:3]] == ["go", "a", "more"]
    assert run.recorder.of(TurnEnd)[1].message is None


@pytest.mark.parametrize(
    ("most", "outcome", "calls"),
    [
        (Limits(tokens=200), LimitExceeded(name="tokens", used=300, max=200), 3),
        (Limits(cost_usd=0.2), LimitExceeded(name="cost", used=0.25, max=0.2), 1),
        (Limits(requests=2), LimitExceeded(name="requests", used=3, max=2), 2),
        (Limits(tool_calls=1), LimitExceeded(name="tool_calls", used=2, max=1), 2),
        (Limits(time_s=10), LimitExceeded(name="time", used=12, max=10), 3),
    ],
)
async def test_a_limit_that_is_passed_ends_the_run(most, outcome, calls):
    clock = FakeClock()

    async def body(*_):
        from dirge_py.calls import text_result

        clock.advance(4)
        return text_result("ok")

    model = restless(usage=Usage(input=90, output=10))
    bundle = limits(most, cost_of=lambda usage, _model: 0.25, clock=clock)
    run = await ran(model, "go", tools=[Tool(body=body)], config=compose(bundle))

    assert (run.outcome, len(model.seen)) == (outcome, calls)


async def test_a_cost_that_cannot_be_judged_stops_the_run():
    def broken(_usage, _model):
        raise ZeroDivisionError

    bundle = limits(Limits(cost_usd=1), cost_of=broken)
    run = await ran(restless(usage=Usage(input=1)), "go", tools=[Tool()], config=compose(bundle))
    assert isinstance(run.outcome, Failed)


async def test_an_unknown_price_is_told_once():
    bundle = limits(Limits(cost_usd=1), cost_of=lambda *_: None)
    model = restless(2, usage=Usage(input=1)).will_say("done")
    run = await ran(model, "go", tools=[Tool()], config=compose(bundle))
    assert isinstance(run.outcome, Done)
    assert len(run.recorder.of(SystemNotice)) == 1


def test_a_timeout_is_a_limit():
    assert timed_out(Cancelled(reason=TIMEOUT), used_s=5, max_s=4) == LimitExceeded(
        name="time", used=5, max=4
    )
    assert timed_out(Cancelled(), used_s=5, max_s=4) == Cancelled()
