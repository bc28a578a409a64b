import asyncio

import pytest

from dirge_py.agent_loop import Context, Hooks, LoopConfig, StopRun, ToolOverride, compose
from dirge_py.agent_loop.model_call import on_complete
from dirge_py.agent_loop.retry import retrying_stream_fn
from dirge_py.guards.lifecycle import (
    ContextCompaction,
    ContinueRun,
    Lifecycle,
    LoopIteration,
    PostLlmCall,
    PostToolExecution,
    PreLlmCall,
    PreToolExecution,
    Skip,
    Terminate,
    lifecycle_hooks,
)
from dirge_py.providers.scripted import Reply
from dirge_py.testing import FakeClock, ScriptedModel, assert_balanced
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import SystemNotice, TurnEnd, UsageReported
from dirge_py.types.llm import StreamDone, StreamError, StreamStart, TextDelta
from dirge_py.types.messages import AssistantMessage, TextBlock, Usage
from dirge_py.types.outcomes import Done, Failed, HookTerminated
from dirge_py.types.tools import text_result
from tests.agent_loop.kit import Tool, ran

POINTS = (
    LoopIteration, PreLlmCall, PostLlmCall, PreToolExecution, PostToolExecution, ContextCompaction,
)  # fmt: skip


class Watcher:
    """Hears everything; answers with `action`, or raises it, at the nth event of one kind."""

    def __init__(self, kind=None, action=None, *, nth=1):
        self.kind, self.action, self.left = kind, action, nth
        self.heard = []

    def __call__(self, event):
        self.heard.append(event)
        if not isinstance(event, self.kind or ()):
            return None
        self.left -= 1
        if self.left:
            return ContinueRun()
        if isinstance(self.action, Exception):
            raise self.action
        return self.action

    @property
    def points(self):
        return [event.point for event in self.heard]


def two_tools():
    usage = Usage(input=10, output=1)
    model = ScriptedModel()
    model.will(Reply(text="Both.", calls=[("echo", {"n": 1}), ("echo", {"n": 2})], usage=usage))
    return model.will_say("Done.")


async def watched_run(*observers, model=None, tool=None, more=()):
    """A run of two turns with a compaction before the first model call."""
    watched = Lifecycle(*observers)

    def compact(info):
        if info.turn == 1:
            watched.compacted(900, 300)

    config = compose(watched.bundle(), Hooks(name="view", transform_context=compact), *more)
    model = model or two_tools()
    run = await ran(
        watched.around_model(model.stream_fn), "go", tools=[tool or Tool()], config=config
    )
    assert_balanced(run.new)
    return run


async def goes_on(run):
    """Whether what a run left behind can be sent again."""
    model = ScriptedModel().will_say("Here again.")
    again = await ran(model, "and now?", context=Context(messages=run.new))
    assert_balanced(model.seen[0].messages)
    return isinstance(again.outcome, Done)


async def test_a42_every_point_is_told_in_its_order():
    watcher = Watcher()
    run = await watched_run(watcher)
    assert watcher.points == [
        "loop_iteration", "context_compaction", "pre_llm_call", "post_llm_call",
        "pre_tool_execution", "pre_tool_execution", "post_tool_execution", "post_tool_execution",
        "loop_iteration", "pre_llm_call", "post_llm_call",
    ]  # fmt: skip
    turn, compaction, asked, answered, before, _, after, *_ = watcher.heard
    assert (turn, compaction) == (LoopIteration(turn=1), ContextCompaction(old=900, new=300))
    assert asked.context.messages[-1].text == "go"
    assert answered.message == run.new[1]
    assert (before.call.arguments, after.result) == ({"n": 1}, text_result("ok"))


@pytest.mark.parametrize("kind", POINTS)
async def test_continue_changes_nothing_at_any_point(kind):
    run = await watched_run(Watcher(kind, ContinueRun()))
    assert isinstance(run.outcome, Done)
    assert run.outcomes == ["ok", "ok"]
    assert run.recorder.of(SystemNotice) == []


@pytest.mark.parametrize("kind", POINTS)
async def test_a73_terminate_ends_the_run_balanced_at_any_point(kind):
    run = await watched_run(Watcher(kind, Terminate("enough")))
    assert run.outcome == HookTerminated(point=kind.point, reason="enough")
    assert await goes_on(run)


@pytest.mark.parametrize("kind", [LoopIteration, PreLlmCall, ContextCompaction])
async def test_a73_no_model_is_asked_after_the_end(kind):
    model = two_tools()
    run = await watched_run(Watcher(kind, Terminate("enough")), model=model)
    assert model.seen == []
    assert run.recorder.of(TurnEnd)[0].message is None


async def test_a73_after_an_answer_its_calls_are_answered_as_not_run():
    tool = Tool()
    run = await watched_run(Watcher(PostLlmCall, Terminate("enough")), tool=tool)
    assert tool.ran == []
    answer = run.new[1]
    assert isinstance(answer, AssistantMessage) and len(answer.calls) == 2
    assert answer.stop_reason == "toolUse"
    assert [result.details["synthetic"] for result in run.results] == ["suppressed"] * 2
    assert run.recorder.of(UsageReported)[0].usage == Usage(input=10, output=1)


async def test_a73_after_an_answer_without_calls_the_answer_stays():
    run = await watched_run(Watcher(PostLlmCall, Terminate("enough"), nth=2))
    assert run.outcome == HookTerminated(point="post_llm_call", reason="enough")
    assert run.new[-1].text == "Done."


async def test_a73_before_the_second_call_neither_runs():
    tool = Tool()
    run = await watched_run(Watcher(PreToolExecution, Terminate("enough"), nth=2), tool=tool)
    assert (tool.ran, run.outcomes) == ([], ["suppressed", "suppressed"])


async def test_a73_skip_before_a_call_is_an_error_result_and_the_run_goes_on():
    tool = Tool()
    run = await watched_run(Watcher(PreToolExecution, Skip("not today")), tool=tool)
    assert tool.ran == [{"n": 2}]
    skipped, other = run.results
    assert (skipped.text, skipped.is_error) == ("Tool call skipped: not today", True)
    assert (other.details["outcome"], run.new[-1].text) == ("ok", "Done.")


@pytest.mark.parametrize("kind", [kind for kind in POINTS if kind is not PreToolExecution])
async def test_skip_anywhere_else_is_told_and_the_run_goes_on(kind):
    run = await watched_run(Watcher(kind, Skip("not today")))
    assert isinstance(run.outcome, Done) and run.outcomes == ["ok", "ok"]
    (notice,) = run.recorder.of(SystemNotice)
    assert kind.point in notice.content and "not today" in notice.content


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ContinueRun(), Terminate("second"), "second"),
        (Terminate("first"), Terminate("second"), "first"),
        (Skip("first"), Terminate("second"), None),
        (None, Terminate("second"), "second"),
    ],
)
async def test_the_first_that_does_not_continue_wins(first, second, expected):
    watchers = [Watcher(PreToolExecution, first), Watcher(PreToolExecution, second, nth=1)]
    if expected is None:
        watchers[1].left = 5
    run = await watched_run(*watchers)
    if expected is None:
        assert "first" in run.results[0].text and isinstance(run.outcome, Done)
    else:
        assert run.outcome == HookTerminated(point="pre_tool_execution", reason=expected)


async def test_observers_may_take_their_time():
    async def slow(event):
        await asyncio.sleep(0)
        return Terminate("late") if isinstance(event, PostToolExecution) else None

    run = await watched_run(slow)
    assert run.outcome == HookTerminated(point="post_tool_execution", reason="late")


@pytest.mark.parametrize("kind", [LoopIteration, PostLlmCall, PostToolExecution, ContextCompaction])
@pytest.mark.parametrize("bad", [ValueError("a bad observer"), "garbage"])
async def test_an_observer_that_fails_is_told_and_passed_over(kind, bad):
    other = Watcher()
    run = await watched_run(Watcher(kind, bad), other)
    assert isinstance(run.outcome, Done) and run.outcomes == ["ok", "ok"]
    (notice,) = run.recorder.of(SystemNotice)
    assert kind.point in notice.content
    assert kind.point in other.points


async def test_a73_an_observer_that_fails_before_a_call_blocks_it():
    tool = Tool()
    run = await watched_run(Watcher(PreToolExecution, ValueError("a bad observer")), tool=tool)
    assert tool.ran == [{"n": 2}]
    assert run.outcomes == ["denied", "ok"]
    assert "lifecycle" in run.results[0].text


async def test_a73_an_observer_that_fails_before_a_model_call_ends_the_run():
    model = two_tools()
    run = await watched_run(Watcher(PreLlmCall, ValueError("a bad observer")), model=model)
    assert model.seen == []
    assert isinstance(run.outcome, HookTerminated)
    assert run.outcome.point == "pre_llm_call" and "a bad observer" in run.outcome.reason


async def test_a_stop_raised_by_an_observer_is_its_own():
    stop = StopRun(Done(stopped_by="me"), say="That is all.")
    run = await watched_run(Watcher(LoopIteration, stop))
    assert isinstance(run.outcome, Done) and run.outcome.stopped_by == "me"


async def test_a_compaction_is_told_at_the_next_point_whichever_that_is():
    watched = Lifecycle(watcher := Watcher(ContextCompaction, Terminate("too little left")))

    async def body(*_):
        watched.compacted(10, 5)
        return text_result("ok")

    model = ScriptedModel().will_call("echo").will_say("Done.")
    run = await ran(
        watched.around_model(model.stream_fn),
        "go",
        tools=[Tool(body=body)],
        config=compose(watched.bundle()),
    )
    assert watcher.points[-1] == "context_compaction"
    assert run.outcome == HookTerminated(point="context_compaction", reason="too little left")
    assert (len(model.seen), run.outcomes) == (1, ["ok"])


async def test_the_pair_of_hooks_and_decorator_is_enough_for_most():
    watcher = Watcher(PostLlmCall, Terminate("enough"))
    bundle, around = lifecycle_hooks(watcher)
    run = await ran(around(two_tools().stream_fn), "go", tools=[Tool()], config=compose(bundle))
    assert run.outcome == HookTerminated(point="post_llm_call", reason="enough")


async def test_one_model_call_is_told_once_however_often_it_is_made():
    watcher = Watcher()
    bundle, around = lifecycle_hooks(watcher)
    model = ScriptedModel().will_fail(kind="server").will_say("At last.")
    stream_fn = around(retrying_stream_fn(model.stream_fn, sleep=FakeClock(is_eager=True).sleep))
    run = await ran(stream_fn, "go", config=compose(bundle))
    assert isinstance(run.outcome, Done) and len(model.seen) == 2
    assert watcher.points == ["loop_iteration", "pre_llm_call", "post_llm_call"]
    assert watcher.heard[-1].message.text == "At last."


async def test_an_answer_that_broke_off_is_no_answer():
    watcher = Watcher()
    bundle, around = lifecycle_hooks(watcher)
    model = ScriptedModel().will_fail(text="half a")
    run = await ran(around(model.stream_fn), "go", config=compose(bundle))
    assert isinstance(run.outcome, Failed)
    assert watcher.points == ["loop_iteration", "pre_llm_call"]


async def test_calls_that_another_guard_answered_do_not_hide_the_end():
    bundle, around = lifecycle_hooks(Watcher(PostLlmCall, Terminate("enough")))
    first = Hooks(name="first", before_tool_call=lambda *_: ToolOverride("no"))
    run = await ran(
        around(two_tools().stream_fn), "go", tools=[Tool()], config=compose(first, bundle)
    )
    assert run.outcome == HookTerminated(point="post_llm_call", reason="enough")
    assert run.outcomes == ["denied", "denied"]
    assert await goes_on(run)


# -- what goes around a model


class Plain:
    """A stream that is no generator and cannot be closed."""

    def __init__(self, *events):
        self.events = list(events)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.events:
            raise StopAsyncIteration
        return self.events.pop(0)


async def shout(message, done):
    content = (TextBlock(message.text.upper()),)
    return StreamDone(message=AssistantMessage(content=content), usage=done.usage)


@pytest.mark.parametrize("end", [(), (StreamDone(usage=Usage(input=1)), TextDelta("never"))])
async def test_a_whole_answer_can_be_replaced_also_where_the_stream_just_ends(end):
    events = StreamStart("m"), TextDelta("quiet"), *end
    stream_fn = on_complete(lambda *_: Plain(*events), shout)
    run = await ran(stream_fn, "go", config=LoopConfig())
    assert run.new[-1].text == "QUIET"


async def test_an_error_ends_the_stream_without_a_look():
    error = StreamError(ProviderError("gone", kind="network"))
    stream_fn = on_complete(lambda *_: Plain(TextDelta("half"), error), shout)
    run = await ran(stream_fn, "go", config=LoopConfig())
    assert (run.new[-1].text, run.new[-1].stop_reason) == ("half", "error")
