import asyncio

import pytest

from dirge_py.agent_loop import (
    CallDecision,
    Context,
    Defer,
    EditArgs,
    LoopConfig,
    RequestSettings,
    StopRun,
    ToolOverride,
    TurnUpdate,
    compose,
    run_agent_loop,
    run_agent_loop_continue,
)
from dirge_py.agent_loop.merge import GUIDANCE
from dirge_py.agent_loop.queues import InputQueue, followups_from_queue, steering_from_queue
from dirge_py.testing import EventRecorder, ScriptedModel, assert_balanced, assert_event_grammar
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import MessageEnd, SystemNotice, TurnEnd, UsageReported
from dirge_py.types.hooks import Hooks
from dirge_py.types.llm import (
    StreamDone,
    StreamError,
    StreamStart,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import (
    AssistantMessage,
    CustomMessage,
    TextBlock,
    ToolCallBlock,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    Cancelled,
    Done,
    Failed,
    HookTerminated,
    Refused,
)
from dirge_py.types.tools import LoopToolResult
from tests.support.loop_runs import Tool, forever, run_loop


async def test_plain_answer_is_one_turn():
    run = await run_loop(ScriptedModel().will_say("Hi there!"), "Hello")

    assert run.roles == ["user", "assistant"]
    assert [kind for kind in run.recorder.types if kind != "message_update"] == [
        "agent_start",
        "turn_start",
        "message_start",
        "message_end",
        "message_start",
        "message_end",
        "turn_end",
        "agent_end",
    ]
    assert run.outcome == Done(result=run.outcome.result)
    assert (run.outcome.result.response, run.outcome.result.turns) == ("Hi there!", 1)


async def test_tool_result_is_in_the_next_model_call():
    echo = Tool()
    model = ScriptedModel().will_call("echo", v=1).will_say("done")

    run = await run_loop(model, "start", tools=[echo])

    assert echo.ran == [{"v": 1}]
    assert run.roles == ["user", "assistant", "toolResult", "assistant"]
    assert [len(seen.messages) for seen in model.seen] == [1, 3]
    first, second = run.recorder.of(TurnEnd)
    assert [result.tool_call_id for result in first.tool_results] == ["echo#0"]
    assert (second.message, second.tool_results) == (run.new[-1], ())


async def test_continue_adds_no_user_message():
    model = ScriptedModel().will_say("Response")

    run = await run_loop(model, context=Context(messages=[user_text("Hello")]))

    assert run.roles == ["assistant"]
    assert [event.message.role for event in run.recorder.of(MessageEnd)] == ["assistant"]


@pytest.mark.parametrize("messages", [[], [AssistantMessage(content=(TextBlock("hi"),))]])
def test_continue_with_nothing_to_continue_raises(messages):
    heard = EventRecorder()
    with pytest.raises(ValueError, match="nothing to continue"):
        run_agent_loop_continue(
            context=Context(messages=messages),
            config=LoopConfig(),
            signal=AbortSignal(),
            emit=heard,
            stream_fn=ScriptedModel().stream_fn,
        )
    assert heard.events == []


async def test_trailing_custom_message_can_be_converted():
    model = ScriptedModel().will_say("ok")
    config = LoopConfig(convert_to_llm=lambda _info, messages: [user_text("from custom")])

    run = await run_loop(model, context=Context(messages=[CustomMessage(kind="x")]), config=config)

    assert [message.text for message in model.seen[0].messages] == ["from custom"]
    assert run.roles == ["assistant"]


@pytest.mark.parametrize(
    "events",
    [
        (StreamStart("m"),),
        (TextDelta("Half a sen"),),
        (ToolCallDelta(key="1", id="1", name="echo", arguments='{"path": "/"'),),
        (ToolCallDelta(key="1", id="1", name="echo", arguments="{}"), ToolCallEnd(key="1")),
    ],
    ids=["nothing", "text", "incomplete call", "complete call"],
)
async def test_d16_stream_that_ends_without_done_is_an_error_and_runs_no_call(events):
    tool = Tool()
    run = await run_loop(ScriptedModel().will_stream(*events), "start", tools=[tool])

    assert (run.new[-1].stop_reason, run.new[-1].error_kind) == ("error", "network")
    assert run.new[-1].text == "".join(each.text for each in events if isinstance(each, TextDelta))
    assert (run.outcome.kind, tool.ran) == ("network", [])


async def test_provider_error_ends_the_run_without_polling_queues():
    queue = InputQueue("follow_up")
    queue.put("later")
    config = LoopConfig(get_followup_messages=followups_from_queue(queue))
    model = ScriptedModel().will_fail("401 unauthorized", kind="auth", text="half")

    run = await run_loop(model, "start", config=config)

    answer = run.new[-1]
    assert (answer.stop_reason, answer.error_kind, answer.text) == ("error", "auth", "half")
    assert answer.error_message == "401 unauthorized"
    assert run.outcome == Failed(kind="auth", message="401 unauthorized")
    assert len(queue) == 1


async def test_refusal_has_its_own_outcome():
    run = await run_loop(ScriptedModel().will_fail("No.", kind="refused"), "start")
    assert run.outcome == Refused(reason="No.")


async def test_usage_is_emitted_only_if_there_is_any():
    model = ScriptedModel().will_call("echo")
    model.will_say("a", usage=Usage(input=1000, cache_read=800))

    run = await run_loop(model, "start", tools=[Tool()])

    (report,) = run.recorder.of(UsageReported)
    assert report.usage == Usage(input=1000, cache_read=800)
    assert run.outcome.result.usage == report.usage


@pytest.mark.parametrize("fails", ["before", "raises", "midway"])
async def test_failing_stream_function_gives_an_error_turn(fails):
    async def midway(*_):
        yield TextDelta("a")
        raise OSError("gone")

    def before(*_):
        raise OSError("gone")

    async def raises(*_):
        raise OSError("gone")
        yield

    run = await run_loop({"before": before, "raises": raises, "midway": midway}[fails], "start")

    assert run.new[-1].stop_reason == "error"
    assert run.new[-1].text == ("a" if fails == "midway" else "")
    assert isinstance(run.outcome, Failed)


async def test_failing_event_sink_does_not_stop_a_run():
    def deaf(_event):
        raise RuntimeError("no")

    new = await run_agent_loop(
        [user_text("start")],
        context=Context(),
        config=LoopConfig(),
        signal=AbortSignal(),
        emit=deaf,
        stream_fn=ScriptedModel().will_say("x").stream_fn,
    )
    assert [message.role for message in new] == ["user", "assistant"]


async def test_run_continues_after_an_error_turn_if_a_hook_returns_a_continuation():
    def prepare(info):
        if info.message.stop_reason == "error":
            return TurnUpdate(continue_with=[user_text("go on", "harness")])
        return None

    model = ScriptedModel().will_fail("gone", kind="network", text="half").will_say("rest")

    run = await run_loop(model, "start", config=LoopConfig(prepare_next_turn=prepare))

    assert [message.text for message in run.new] == ["start", "half", "go on", "rest"]
    assert isinstance(run.outcome, Done)


async def test_empty_continuation_calls_the_model_again():
    update = [TurnUpdate(continue_with=())]
    config = LoopConfig(prepare_next_turn=lambda _: update.pop() if update else None)
    model = ScriptedModel().will_say("a").will_say("b")

    await run_loop(model, "start", config=config)

    assert len(model.seen) == 2


async def test_changes_of_prepare_next_turn_apply_to_the_next_turn():
    updates = [TurnUpdate(model="other/big", thinking_level="high")]

    def prepare(info):
        if not updates:
            return None
        from dataclasses import replace

        return replace(updates.pop(), context=replace(info.context, system_prompt="second"))

    model = ScriptedModel().will_call("echo").will_say("b")
    config = LoopConfig(
        model="main/small", request=RequestSettings(api_key="secret"), prepare_next_turn=prepare
    )
    options = []

    def watching(context, given, signal):
        options.append(given)
        return model.stream_fn(context, given, signal)

    await run_loop(watching, "start", tools=[Tool()], config=config)

    assert [seen.system_prompt for seen in model.seen] == ["first", "second"]
    assert [(o.model, o.thinking_level, o.api_key) for o in options] == [
        ("main/small", "off", "secret"),
        ("other/big", "high", None),
    ]


class TestStopping:
    async def test_should_stop_after_turn_true_ends_the_run_without_polling(self):
        queue = InputQueue("steering")
        queue.put("wait")
        config = LoopConfig(
            should_stop_after_turn=lambda _: True,
            get_followup_messages=lambda *_: [user_text("more")],
        )
        run = await run_loop(ScriptedModel().will_call("echo"), "go", tools=[Tool()], config=config)
        assert run.roles == ["user", "assistant", "toolResult"]
        assert isinstance(run.outcome, Done)

    @pytest.mark.parametrize("returned", [True, False])
    async def test_closing_text_of_a_stop_is_a_separate_turn(self, returned):
        stop = StopRun(Done(stopped_by="storm"), say="I give up.")

        def should_stop(_info):
            if returned:
                return stop
            raise stop

        config = LoopConfig(should_stop_after_turn=should_stop)
        run = await run_loop(ScriptedModel().will_say("a"), "go", config=config)

        assert run.new[-1].origin == "harness"
        assert [event.message.text for event in run.recorder.of(TurnEnd)] == ["a", "I give up."]
        assert run.outcome.stopped_by == "storm"
        assert run.outcome.result.response == "a\n\nI give up."

    async def test_follow_ups_are_delivered_after_a_finalizing_stop(self):
        stops = [StopRun(Done(stopped_by="storm"), say="Stop.", finalize=True)]
        seen = []

        def follow_ups(info, so_far):
            seen.append(info.ended_by)
            return [user_text("next")] if len(seen) == 1 else []

        config = LoopConfig(
            should_stop_after_turn=lambda _: stops.pop() if stops else False,
            get_followup_messages=follow_ups,
        )
        run = await run_loop(ScriptedModel().will_say("a").will_say("b"), "go", config=config)

        assert [message.text for message in run.new] == ["go", "a", "Stop.", "next", "b"]
        assert seen == ["storm", "natural"]

    async def test_stop_before_the_model_call_ends_an_empty_turn(self):
        stop = StopRun(HookTerminated(point="transform_context", reason="no"))
        model = ScriptedModel()

        run = await run_loop(model, "go", config=LoopConfig(transform_context=lambda _: stop))

        assert run.recorder.of(TurnEnd) == [TurnEnd(message=None)]
        assert run.outcome == stop.outcome
        assert model.seen == []

    @pytest.mark.parametrize("mode", ["parallel", "sequential"])
    async def test_stop_during_tool_calls_gives_every_call_a_result(self, mode):
        def before(_info, call):
            return StopRun(Done(stopped_by="x")) if call.id == "echo#1" else None

        config = LoopConfig(before_tool_call=before, tool_execution=mode)
        model = ScriptedModel().will_call_all(*[("echo", {})] * 3)
        run = await run_loop(model, "go", tools=[Tool()], config=config)

        assert run.outcomes == [
            "ok" if mode == "sequential" else "suppressed",
            "suppressed",
            "suppressed",
        ]
        assert_balanced(run.new)

    async def test_run_ends_only_if_all_results_terminate(self):
        async def end(*_):
            return LoopToolResult(content=(TextBlock("bye"),), terminate=True)

        tools = [Tool(), Tool("term", end)]
        model = ScriptedModel()
        model.will_call_all(("term", {}), ("echo", {})).will_call_all(("term", {}), ("term", {}))

        run = await run_loop(model, "go", tools=tools)

        assert len(model.seen) == 2
        assert isinstance(run.outcome, Done)


class TestSteering:
    async def test_steering_is_sent_as_guidance_and_stored_as_typed(self):
        queue = InputQueue("steering")
        model = ScriptedModel()

        def later(_context):
            from dirge_py.providers.scripted import Reply

            queue.put("look at CI")
            return Reply(text="a")

        model.will(later).will_say("b")
        config = LoopConfig(get_steering_messages=steering_from_queue(queue))

        run = await run_loop(model, "start", config=config)

        assert [message.text for message in run.new] == ["start", "a", "look at CI", "b"]
        assert model.seen[1].messages[-1].text == GUIDANCE + "look at CI"

    async def test_one_at_a_time_delivers_the_oldest_message(self):
        queue = InputQueue("steering", "one-at-a-time")
        for text in "abc":
            queue.put(text)
        model = ScriptedModel().will_say("1").will_say("2").will_say("3")
        config = LoopConfig(get_steering_messages=steering_from_queue(queue))

        run = await run_loop(model, "start", config=config)

        assert [m.text for m in run.new] == ["start", "a", "1", "b", "2", "c", "3"]

    async def test_follow_ups_wait_for_tools_and_steering(self):
        order = []
        follow_ups = InputQueue("follow_up", on_delivered=lambda item: order.append("delivered"))
        follow_ups.put("then test")
        config = LoopConfig(
            get_steering_messages=lambda info: order.append(f"steer {info.turn}") or [],
            get_followup_messages=followups_from_queue(follow_ups),
        )
        model = ScriptedModel().will_call("echo").will_say("a").will_say("b")

        run = await run_loop(model, "start", tools=[Tool()], config=config)

        assert order == ["steer 1", "steer 1", "steer 2", "delivered", "steer 3"]
        assert run.new[-2] == user_text("then test", "follow_up")
        assert model.seen[2].messages[-1].text == "then test"

    async def test_interject_ends_the_run_after_the_turn_and_keeps_the_queue(self):
        queue, signal = InputQueue("steering"), AbortSignal()

        async def interrupted(*_):
            queue.put("wait")
            signal.interject()
            return LoopToolResult(content=(TextBlock("whole"),))

        config = LoopConfig(get_steering_messages=steering_from_queue(queue))
        model = ScriptedModel().will_call("echo")
        run = await run_loop(
            model, "go", tools=[Tool(body=interrupted)], config=config, signal=signal
        )

        assert run.outcome == Cancelled(reason="interject")
        assert run.results[0].text == "whole"
        assert [item.message.text for item in queue.peek()] == ["wait"]

    async def test_steering_taken_from_the_queue_is_stored_if_a_later_hook_stops(self):
        queue = InputQueue("steering")
        queue.put("typed")
        config = compose(
            Hooks(name="queue", get_steering_messages=steering_from_queue(queue)),
            Hooks(name="guard", get_steering_messages=lambda _: StopRun(Done())),
        )
        run = await run_loop(ScriptedModel(), "go", config=config)
        assert [message.text for message in run.new] == ["go", "typed"]


class TestAborting:
    async def test_abort_before_the_start_calls_no_model(self):
        signal, model = AbortSignal(), ScriptedModel()
        signal.abort()

        run = await run_loop(model, "go", signal=signal)

        assert (model.seen, run.roles, run.outcome) == ([], ["user"], Cancelled(reason="user"))

    async def test_abort_between_chunks_keeps_text_and_drops_partial_calls(self):
        signal = AbortSignal()

        async def stream(*_):
            from dirge_py.types.llm import ToolCallDelta

            yield StreamStart()
            yield TextDelta("so far")
            yield ToolCallDelta(key="1", id="1", name="echo", arguments='{"a')
            asyncio.get_running_loop().call_soon(signal.abort)
            await asyncio.Event().wait()

        run = await run_loop(stream, "go", signal=signal, tools=[Tool()])

        answer = run.new[-1]
        assert answer.content == (TextBlock("so far"),)
        assert (answer.stop_reason, answer.error_kind) == ("aborted", "aborted")
        assert run.outcome == Cancelled(reason="user")

    @pytest.mark.parametrize(
        "hook",
        [
            "transform_context",
            "convert_to_llm",
            "before_tool_call",
            "after_tool_call",
            "prepare_next_turn",
            "should_stop_after_turn",
            "get_steering_messages",
            "get_followup_messages",
            "get_api_key",
        ],
    )
    async def test_abort_ends_a_run_with_a_hanging_hook(self, hook):
        signal = AbortSignal()

        async def hang(*_):
            asyncio.get_running_loop().call_soon(signal.abort)
            await forever()

        model = ScriptedModel().will_call("echo").will_say("a")
        config = LoopConfig(**{hook: hang})
        async with asyncio.timeout(1):
            run = await run_loop(model, "go", config=config, signal=signal, tools=[Tool()])

        assert_balanced(run.new)
        assert isinstance(run.outcome, Done if hook == "get_followup_messages" else Cancelled)

    async def test_abort_while_the_key_is_fetched_calls_no_model(self):
        signal, model = AbortSignal(), ScriptedModel()
        config = LoopConfig(get_api_key=lambda _: signal.abort())

        run = await run_loop(model, "go", config=config, signal=signal)

        assert (model.seen, run.outcome) == ([], Cancelled(reason="user"))

    async def test_cancelled_task_emits_its_end_and_stays_cancelled(self):
        heard, began = EventRecorder(), asyncio.Event()

        async def body(*_):
            began.set()
            return await forever()

        model = ScriptedModel().will_call_all(("echo", {}), ("echo", {}))
        task = asyncio.ensure_future(
            run_agent_loop(
                [user_text("go")],
                context=Context(tools=[Tool(body=body)]),
                config=LoopConfig(),
                signal=AbortSignal(),
                emit=heard,
                stream_fn=model.stream_fn,
            )
        )
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert_event_grammar(heard.events)
        assert heard.outcome == Cancelled(reason="cancelled")
        assert_balanced(heard.events[-1].messages)


class TestDeferring:
    @pytest.mark.parametrize("mode", ["parallel", "sequential"])
    async def test_calls_before_a_deferred_call_run_and_the_others_wait(self, mode):
        def before(_info, call):
            return Defer("may I?") if call.arguments["n"] == 1 else None

        echo = Tool()
        config = LoopConfig(before_tool_call=before, tool_execution=mode)
        model = ScriptedModel().will_call_all(*[("echo", {"n": n}) for n in range(3)])

        run = await run_loop(model, "go", tools=[echo], config=config)

        assert echo.ran == [{"n": 0}]
        assert run.outcome == AwaitingConfirmation(
            call_ids=("echo#1", "echo#2"), description="may I?"
        )
        assert_balanced(run.new, open_calls_allowed=True)
        assert [result.tool_call_id for result in run.results] == ["echo#0"]

    async def test_decisions_are_applied_in_order_before_the_model_call(self):
        calls = tuple(ToolCallBlock(id=f"c{n}", name="echo", arguments={"n": n}) for n in range(3))
        history = [user_text("go"), AssistantMessage(content=calls, stop_reason="toolUse")]
        echo, model = Tool(), ScriptedModel().will_say("done")
        asked = []

        def before(info, call):
            asked.append((call.id, call.id in info.decisions))
            return Defer() if call.id in info.decisions else None

        run = await run_loop(
            model,
            context=Context(messages=history, tools=[echo]),
            config=LoopConfig(before_tool_call=before),
            decisions=[
                CallDecision(tool_call_id="c0", allow=True, arguments={"n": 9}),
                CallDecision(tool_call_id="c1", allow=False, reason="Too risky."),
            ],
        )

        assert echo.ran == [{"n": 9}, {"n": 2}]
        assert asked == [("c0", True), ("c2", False)]
        assert run.outcomes == ["ok", "denied", "ok"]
        assert run.results[1].text == "Denied. Too risky."
        assert_balanced([*history, *run.new])
        assert run.recorder.of(TurnEnd)[0].message == history[-1]

    def test_decision_for_an_unknown_call_raises(self):
        with pytest.raises(ValueError, match="No open call"):
            run_agent_loop_continue(
                context=Context(messages=[user_text("go")]),
                config=LoopConfig(),
                signal=AbortSignal(),
                emit=EventRecorder(),
                stream_fn=ScriptedModel().stream_fn,
                decisions=[CallDecision(tool_call_id="x", allow=True)],
            )


@pytest.mark.parametrize(
    "hook", ["transform_context", "prepare_next_turn", "get_steering_messages"]
)
async def test_hook_that_raises_is_reported_and_the_run_continues(hook):
    def bad(*_):
        raise KeyError("oops")

    run = await run_loop(ScriptedModel().will_say("fine"), "go", config=LoopConfig(**{hook: bad}))

    assert isinstance(run.outcome, Done)
    assert "oops" in run.recorder.of(SystemNotice)[0].content


async def test_before_tool_call_hook_that_raises_denies_the_call():
    def bad(*_):
        raise KeyError("oops")

    echo = Tool()
    config = compose(Hooks(name="my-plugin", before_tool_call=bad))
    run = await run_loop(
        ScriptedModel().will_call("echo").will_say("a"), "go", tools=[echo], config=config
    )

    assert echo.ran == []
    assert (run.outcomes, "my-plugin" in run.results[0].text) == (["denied"], True)


async def test_get_api_key_error_fails_the_run():
    def bad(_provider):
        raise ProviderError("locked", kind="auth")

    run = await run_loop(ScriptedModel(), "go", config=LoopConfig(get_api_key=bad))
    assert run.outcome == Failed(kind="auth", message="locked")


async def test_chained_edits_are_validated_after_each_hook():
    def validate(_tool, arguments):
        if not isinstance(arguments["n"], int):
            raise ValueError("n: must be a number.")
        return arguments

    seen = []

    def second(_info, call):
        seen.append((call.arguments, call.problem))

    config = compose(
        Hooks(name="a", before_tool_call=lambda _i, call: EditArgs({"n": call.arguments["n"] + 1})),
        Hooks(
            name="b",
            before_tool_call=lambda _i, call: (
                EditArgs({"n": "x"}) if call.arguments["n"] == 6 else None
            ),
        ),
        Hooks(name="c", before_tool_call=second),
        config=LoopConfig(validate=validate),
    )
    echo = Tool()
    model = ScriptedModel().will_call_all(("echo", {"n": 1}), ("echo", {"n": 5})).will_say("a")

    run = await run_loop(model, "go", tools=[echo], config=config)

    assert seen == [({"n": 2}, None), ({"n": "x"}, "invalid_arguments")]
    assert echo.ran == [{"n": 2}]
    assert run.outcomes == ["ok", "invalid"]


async def test_hooks_after_an_override_are_not_called():
    asked = []
    config = compose(
        Hooks(name="a", before_tool_call=lambda *_: ToolOverride("no")),
        Hooks(name="b", before_tool_call=lambda *_: asked.append(1)),
    )
    run = await run_loop(
        ScriptedModel().will_call("echo").will_say("a"), "go", tools=[Tool()], config=config
    )
    assert (run.results[0].text, asked) == ("no", [])


async def test_request_options_reach_the_stream_function():
    given = []

    async def stream(_context, options, _signal):
        given.append(options)
        yield StreamDone()

    config = LoopConfig(
        model="work/m",
        provider="work",
        thinking_level="high",
        request=RequestSettings(
            api_key="static", headers={"X-A": "1"}, metadata={"k": 1}, request_timeout_s=9.0
        ),
        get_api_key=lambda provider: f"for {provider}",
    )
    await run_loop(stream, "go", config=config)

    (options,) = given
    assert (options.model, options.api_key, options.thinking_level) == (
        "work/m",
        "for work",
        "high",
    )
    assert (options.headers, options.metadata, options.request_timeout_s) == (
        {"X-A": "1"},
        {"k": 1},
        9.0,
    )


async def test_transform_and_convert_do_not_change_the_stored_history():
    history = [user_text(str(n)) for n in range(4)]
    order, contexts = [], []

    def transform(info):
        from dataclasses import replace

        order.append("transform")
        return replace(info.context, messages=info.context.messages[-2:])

    def convert(info, messages):
        order.append(f"convert {len(messages)}")
        return [m for m in messages if m.role != "custom"]

    config = LoopConfig(
        transform_context=transform,
        convert_to_llm=convert,
        prepare_next_turn=lambda info: contexts.append(len(info.context.messages)),
    )
    await run_loop(
        ScriptedModel().will_say("a"), "p", context=Context(messages=history), config=config
    )

    assert (order, contexts, len(history)) == (["transform", "convert 2"], [6], 4)


async def test_aborted_error_of_a_provider_cancels_the_run():
    async def stream(*_):
        yield StreamError(ProviderError("Stopped.", kind="aborted"))

    run = await run_loop(stream, "go")
    assert run.outcome == Cancelled(reason="provider")
