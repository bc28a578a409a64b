import pytest

from dirge_py.agent_loop import Context, LoopConfig, compose
from dirge_py.agent_loop.queues import InputQueue, followups_from_queue, steering_from_queue
from dirge_py.guards.limits import TIMEOUT, Limits, Meter, SideUsage, timed_out
from dirge_py.providers.scripted import Reply
from dirge_py.testing import FakeClock, ScriptedModel, assert_balanced
from dirge_py.types.events import SystemNotice, TurnEnd
from dirge_py.types.hooks import Hooks
from dirge_py.types.messages import AssistantMessage, ToolCallBlock, Usage, user_text
from dirge_py.types.outcomes import Cancelled, Done, Failed, LimitExceeded, MaxTurns
from tests.support.loop_runs import Tool, run_loop


def restless(turns=9, *, usage=None):
    model = ScriptedModel()
    for n in range(turns):
        model.will(Reply(calls=[("echo", {"n": n})], usage=usage))
    return model


async def test_turn_limit_ends_the_run_with_a_message():
    model = restless()
    run = await run_loop(
        model, "go", tools=[Tool()], config=compose(Meter(Limits(turns=2)).bundle())
    )

    assert (len(model.seen), run.outcome) == (2, MaxTurns(max=2))
    assert "2 turns" in run.recorder.of(SystemNotice)[0].content
    assert "2 turns" in run.new[-1].text


async def test_answer_in_the_last_allowed_turn_ends_the_run_as_done():
    model = ScriptedModel().will_call("echo").will_say("done")
    run = await run_loop(
        model, "go", tools=[Tool()], config=compose(Meter(Limits(turns=2)).bundle())
    )
    assert isinstance(run.outcome, Done)


@pytest.mark.parametrize("kind", ["steering", "follow_up"])
async def test_turn_opened_by_queued_input_counts_toward_the_limit(kind):
    queue = InputQueue(kind)
    queue.put("more")
    hook = {
        "steering": {"get_steering_messages": lambda i: steering(i) if i.message else []},
        "follow_up": {"get_followup_messages": followups_from_queue(queue)},
    }[kind]
    steering = steering_from_queue(queue)
    model = ScriptedModel().will_say("a")
    config = compose(Meter(Limits(turns=1)).bundle(), config=LoopConfig(**hook))

    run = await run_loop(model, "go", config=config)

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
async def test_exceeded_limit_ends_the_run(most, outcome, calls):
    clock = FakeClock()

    async def body(*_):
        from dirge_py.types.tools import text_result

        clock.advance(4)
        return text_result("ok")

    model = restless(usage=Usage(input=90, output=10))
    bundle = Meter(most, cost_of=lambda usage, _model: 0.25, clock=clock).bundle()
    run = await run_loop(model, "go", tools=[Tool(body=body)], config=compose(bundle))

    assert (run.outcome, len(model.seen)) == (outcome, calls)


async def test_failing_cost_function_with_a_cost_limit_fails_the_run():
    def broken(_usage, _model):
        raise ZeroDivisionError

    bundle = Meter(Limits(cost_usd=1), cost_of=broken).bundle()
    run = await run_loop(
        restless(usage=Usage(input=1)), "go", tools=[Tool()], config=compose(bundle)
    )
    assert isinstance(run.outcome, Failed)


async def test_unknown_price_is_reported_once():
    bundle = Meter(Limits(cost_usd=1), cost_of=lambda *_: None).bundle()
    model = restless(2, usage=Usage(input=1)).will_say("done")
    run = await run_loop(model, "go", tools=[Tool()], config=compose(bundle))
    assert isinstance(run.outcome, Done)
    assert len(run.recorder.of(SystemNotice)) == 1


def test_timeout_cancellation_becomes_a_time_limit():
    assert timed_out(Cancelled(reason=TIMEOUT), used_s=5, max_s=4) == LimitExceeded(
        name="time", used=5, max=4
    )
    assert timed_out(Cancelled(), used_s=5, max_s=4) == Cancelled()


# -- figures and messages


@pytest.mark.parametrize(
    ("exceeded", "message"),
    [
        (("output_tokens", 50123, 50000), "output token limit exceeded: 50123 > 50000"),
        (("input_tokens", 12345678, 10000000), "input token limit exceeded: 12345678 > 10000000"),
        (("tokens", 2, 1), "total token limit exceeded: 2 > 1"),
        (("tool_calls", 4, 3), "tool call limit exceeded: 4 > 3"),
        (("cost", 0.25, 0.2), "cost limit exceeded: 0.25 > 0.2"),
        (("requests", 3, 2), "request limit exceeded: 3 > 2"),
        (("time", 12.5, 10.0), "time limit exceeded: 12.5 > 10"),
    ],
)
def test_a43_limit_message_contains_used_and_maximum(exceeded, message):
    name, used, most = exceeded
    assert LimitExceeded(name=name, used=used, max=most).message == message


@pytest.mark.parametrize(("output", "ends"), [(50_000, "done"), (50_123, "limit")])
async def test_a43_reaching_a_limit_exactly_does_not_exceed_it(output, ends):
    model = ScriptedModel().will(Reply(calls=[("echo", {})], usage=Usage(output=output)))
    config = compose(Meter(Limits(output_tokens=50_000)).bundle())
    run = await run_loop(model.will_say("done"), "go", tools=[Tool()], config=config)

    if ends == "done":
        assert isinstance(run.outcome, Done)
    else:
        assert run.outcome == LimitExceeded(name="output_tokens", used=50_123, max=50_000)
    assert len(run.recorder.of(SystemNotice)) == (1 if ends == "done" else 0)


async def test_user_is_warned_once_at_80_percent_of_a_limit():
    usage = Usage(input=60, output=20)
    model = restless(3, usage=usage).will_say("done", usage=Usage(input=1))
    config = compose(Meter(Limits(tokens=300, cost_usd=0.4), cost_of=lambda *_: 0.1).bundle())

    run = await run_loop(model, "go", tools=[Tool()], config=config)

    assert isinstance(run.outcome, Done)
    words = [notice.content for notice in run.recorder.of(SystemNotice)]
    assert words == [
        f"{limit}. `/limits {name} N` changes it."
        for name, limit in {
            "tokens": "80% of a limit of this run is used: tokens, 240 of 300",
            "cost_usd": "100% of a limit of this run is used: cost_usd, $0.40 of $0.40",
        }.items()
    ]


@pytest.mark.parametrize(
    ("most", "name"),
    [
        (Limits(input_tokens=1, output_tokens=1, tokens=1, cost_usd=0.1), "input_tokens"),
        (Limits(output_tokens=1, tokens=1, cost_usd=0.1), "output_tokens"),
        (Limits(tokens=1, cost_usd=0.1), "tokens"),
        (Limits(cost_usd=0.1), "cost"),
    ],
)
async def test_a43_first_of_several_exceeded_limits_is_reported(most, name):
    bundle = Meter(most, cost_of=lambda *_: 1.0).bundle()
    model = restless(usage=Usage(input=10, output=10))
    run = await run_loop(model, "go", tools=[Tool()], config=compose(bundle))
    assert run.outcome.name == name


async def test_a43_total_tokens_are_input_plus_output():
    model = restless(usage=Usage(input=60, output=50, cache_read=40))
    config = compose(Meter(Limits(tokens=109)).bundle())
    run = await run_loop(model, "go", tools=[Tool()], config=config)
    assert run.outcome == LimitExceeded(name="tokens", used=110, max=109)


async def test_costs_that_sum_exactly_to_the_limit_do_not_exceed_it():
    bundle = Meter(Limits(cost_usd=0.3), cost_of=lambda *_: 0.1).bundle()
    model = restless(2, usage=Usage(input=1)).will(Reply(text="done", usage=Usage(input=1)))
    run = await run_loop(model, "go", tools=[Tool()], config=compose(bundle))
    assert isinstance(run.outcome, Done)


async def test_a44_batch_over_the_tool_call_limit_is_suppressed_as_a_whole():
    model = ScriptedModel().will_call_all(("echo", {}), ("echo", {}))
    model.will_call_all(("echo", {}), ("echo", {}))
    echo = Tool()
    config = compose(Meter(Limits(tool_calls=3)).bundle())

    run = await run_loop(model, "go", tools=[echo], config=config)

    assert len(echo.ran) == 2
    assert run.outcomes == ["ok", "ok", "suppressed", "suppressed"]
    assert_balanced(run.new)
    assert run.outcome == LimitExceeded(name="tool_calls", used=4, max=3)


async def test_a45_request_over_the_limit_is_not_sent_and_judge_calls_do_not_count():
    spending = SideUsage()

    def judge(_info, _so_far):
        spending.add(Usage(input=500, output=5), "judge/m")
        return []

    bundle = Meter(Limits(requests=2), spending=spending).bundle()
    config = compose(bundle, Hooks(name="judge", get_steering_messages=lambda i: judge(i, ())))
    model = restless()
    run = await run_loop(model, "go", tools=[Tool()], config=config)
    assert (len(model.seen), run.outcome) == (2, LimitExceeded(name="requests", used=3, max=2))


@pytest.mark.parametrize(
    ("most", "outcome"),
    [
        (Limits(tokens=600), LimitExceeded(name="tokens", used=650, max=600)),
        (Limits(cost_usd=1.0), LimitExceeded(name="cost", used=2.5, max=1)),
    ],
)
async def test_a45_judge_usage_counts_before_the_next_turn(most, outcome):
    """The judge continues the run; the next request would exceed the limit."""
    spending = SideUsage()
    spending.add(Usage(input=9_000), "judge/m")  # in a run before this one
    verdicts = [user_text("not yet", "harness")]

    def judge(_info, _so_far):
        spending.add(Usage(input=500, output=50), "judge/m")
        return [verdicts.pop()] if verdicts else []

    def cost_of(_usage, model):
        return 2.0 if model == "judge/m" else 0.5

    config = compose(
        Meter(most, cost_of=cost_of, spending=spending).bundle(),
        Hooks(name="judge", get_followup_messages=judge),
    )
    model = ScriptedModel().will(Reply(text="a", usage=Usage(input=100))).will_say("never")

    run = await run_loop(model, "go", config=config)

    assert (len(model.seen), run.outcome) == (1, outcome)
    assert run.recorder.of(TurnEnd)[-1].message is None


async def test_a45_judge_usage_in_the_first_run_of_a_session_counts() -> None:
    spending = SideUsage()

    def judge(*_):
        spending.add(Usage(input=500, output=50), "judge/m")
        return False

    model = restless(3)
    config = compose(
        Hooks(name="judge", should_stop_after_turn=judge),
        Meter(Limits(tokens=549), spending=spending).bundle(),
    )
    run = await run_loop(model, "go", tools=[Tool()], config=config)
    assert run.outcome == LimitExceeded(name="tokens", used=550, max=549)
    assert len(model.seen) == 1


async def test_a46_unknown_price_never_exceeds_the_cost_limit():
    bundle = Meter(Limits(cost_usd=0.001), cost_of=lambda *_: None).bundle()
    model = restless(3, usage=Usage(input=10**6)).will_say("done")
    run = await run_loop(model, "go", tools=[Tool()], config=compose(bundle))
    assert isinstance(run.outcome, Done)


async def test_a47_turn_limit_of_five_gives_five_requests_and_balanced_history():
    model = restless(20)
    run = await run_loop(
        model, "go", tools=[Tool()], config=compose(Meter(Limits(turns=5)).bundle())
    )
    assert (len(model.seen), run.outcome) == (5, MaxTurns(max=5))
    assert_balanced(run.new)
    assert len(run.recorder.of(SystemNotice)) == 1


async def test_case_58_turn_limit_ends_with_a_notice_and_an_assistant_message():
    model = restless(20)
    run = await run_loop(
        model, "go", tools=[Tool()], config=compose(Meter(Limits(turns=2)).bundle())
    )
    assert len(model.seen) == 2
    assert (run.new[-1].role, run.new[-1].origin) == ("assistant", "harness")
    assert [m.text for m in run.new if m.role == "user"] == ["go"]


async def test_case_58_without_a_limit_the_run_continues_until_the_model_stops():
    model = restless(150).will_say("done")
    run = await run_loop(model, "go", tools=[Tool()], config=compose(Meter(Limits()).bundle()))
    assert (len(model.seen), isinstance(run.outcome, Done)) == (151, True)


# -- requests that are not turns


@pytest.mark.parametrize("reason", ["compaction", "pause_turn"])
async def test_unfinished_answer_counts_as_a_request_but_not_as_a_turn(reason):
    def unfinished(times):
        model = ScriptedModel()
        for _ in range(times):
            model.will(Reply(text="…", stop_reason=reason))
        return model

    run = await run_loop(
        unfinished(3).will_say("done"), "go", config=compose(Meter(Limits(turns=1)).bundle())
    )
    assert (run.outcome.result.response, run.outcome.result.turns) == ("done", 1)

    run = await run_loop(unfinished(3), "go", config=compose(Meter(Limits(requests=2)).bundle()))
    assert run.outcome == LimitExceeded(name="requests", used=3, max=2)


async def test_service_that_never_finishes_its_answer_is_stopped():
    model = ScriptedModel()
    for _ in range(50):
        model.will(Reply(text="…", stop_reason="pause_turn"))
    run = await run_loop(model, "go", config=compose(Meter(Limits(turns=3)).bundle()))
    assert (len(model.seen), run.outcome) == (20 + 3, MaxTurns(max=3))


@pytest.mark.parametrize("at", ["before_model", "before_call", "after_turn"])
async def test_limit_that_cannot_be_checked_fails_the_run(at):
    ticks = iter({"before_model": [0.0], "before_call": [0.0, 0.0], "after_turn": [0.0, 0.0]}[at])

    def clock():
        return next(ticks)

    most = Limits(time_s=5, tool_calls=None if at != "before_call" else "many")
    model = restless()
    run = await run_loop(
        model, "go", tools=[Tool()], config=compose(Meter(most, clock=clock).bundle())
    )
    assert isinstance(run.outcome, Failed)
    assert run.outcome.kind == "bug"
    assert "cannot be checked" in run.outcome.message
    assert_balanced(run.new)


async def test_failing_cost_function_without_a_cost_limit_is_ignored():
    def broken(_usage, _model):
        raise ZeroDivisionError

    model = restless(1, usage=Usage(input=1)).will_say("done")
    run = await run_loop(
        model, "go", tools=[Tool()], config=compose(Meter(Limits(), cost_of=broken).bundle())
    )
    assert isinstance(run.outcome, Done)


async def test_usage_before_a_continued_run_does_not_count():
    answer = AssistantMessage(
        content=(ToolCallBlock(id="c", name="echo", arguments={}),),
        stop_reason="toolUse",
        usage=Usage(input=10**9),
        model="m",
    )
    bundle = Meter(Limits(cost_usd=0.5), cost_of=lambda *_: 1.0).bundle()
    context = Context(messages=[user_text("go"), answer], tools=[Tool()])
    run = await run_loop(ScriptedModel().will_say("done"), context=context, config=compose(bundle))
    assert isinstance(run.outcome, Done)
