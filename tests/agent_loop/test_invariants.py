"""Random scripts, tools, aborts, steering and failing hooks: the invariants of the loop."""

import asyncio
import time
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import (
    Context,
    Defer,
    EditArgs,
    LoopConfig,
    StopRun,
    ToolOverride,
    TurnUpdate,
    compose,
    run_agent_loop,
)
from dirge_py.agent_loop.queues import InputQueue, followups_from_queue, steering_from_queue
from dirge_py.guards.limits import Limits, Meter
from dirge_py.guards.recovery import resume_broken_answers
from dirge_py.guards.reminders import DepthTracker, depth_reminder
from dirge_py.guards.repetition import StormBreaker
from dirge_py.guards.stop_checks import failure_check, stop_checks
from dirge_py.guards.tool_hooks import limit_tool_retries
from dirge_py.providers.scripted import Reply, Script
from dirge_py.testing import EventRecorder, FakeClock, assert_balanced, assert_event_grammar
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.messages import AssistantMessage, ToolResultMessage, UserMessage, user_text
from dirge_py.types.outcomes import AwaitingConfirmation, Done, HookTerminated
from dirge_py.types.tools import text_result
from tests.security.sizes import size
from tests.support.loop_runs import Tool, a_breath, boom

BAD = ["raise", "stop", "finalize", "garbage", "abort", "interject", "hang"]
SLOW_S = 3.0
"""Much longer than an aborted run needs to end."""
tool_names = st.sampled_from(["echo", "seq", "boom", "nope"])
arguments = st.sampled_from([{}, {"n": 1}, '{"cut', "[1]", None])
replies = st.builds(
    Reply,
    text=st.sampled_from(["", "words"]),
    thinking=st.sampled_from(["", "hm"]),
    calls=st.lists(st.tuples(tool_names, arguments), max_size=4),
    error=st.sampled_from([None, None, None, ProviderError("gone", kind="network")]),
    chunk_chars=st.sampled_from([0, 2]),
)
hook_names = st.sampled_from([
    "transform_context", "convert_to_llm", "before_tool_call", "after_tool_call",
    "prepare_next_turn", "should_stop_after_turn", "get_steering_messages",
    "get_followup_messages", "get_api_key",
])  # fmt: skip
before_answers = st.sampled_from([None, None, ToolOverride("no"), EditArgs({"n": 2}), Defer("?")])


@dataclass
class Plan:
    """What hooks do at their nth call; afterwards they do nothing."""

    mischief: dict[str, list[str]]
    before: list[object]
    typed: list[tuple[str, str]]
    abort_at: int | None
    recovers: bool
    is_guarded: bool
    signal: AbortSignal = field(default_factory=AbortSignal)
    aborted_at: float | None = None
    heard: EventRecorder = field(default_factory=EventRecorder)
    steering: InputQueue = field(default_factory=lambda: InputQueue("steering"))
    follow_ups: InputQueue = field(default_factory=lambda: InputQueue("follow_up"))

    def emit(self, event):
        self.heard(event)
        count = len(self.heard.events)
        if self.typed and count % 5 == 0:
            kind, text = self.typed.pop()
            (self.steering if kind == "steer" else self.follow_ups).put(text)
        if count == self.abort_at:
            self.signal.abort()
        if count % 7 == 0:
            raise RuntimeError("a bad sink")

    def hook(self, name, well_behaved):
        async def hook(*given):
            await asyncio.sleep(0)
            trick = self.mischief[name].pop() if self.mischief.get(name) else ""
            match trick:
                case "raise":
                    raise RuntimeError("a bad hook")
                case "stop":
                    raise StopRun(HookTerminated(point=name, reason="x"), say="Bye.")
                case "finalize":
                    return StopRun(Done(stopped_by="x"), finalize=True)
                case "garbage":
                    return object()
                case "abort":
                    self.signal.abort()
                case "interject":
                    self.signal.interject()
                case "hang":
                    # The user aborts, but only after the hook hangs.
                    asyncio.get_running_loop().call_soon(self.signal.abort)
                    await asyncio.Event().wait()
            return well_behaved(*given)

        return hook

    def config(self, mode):
        recoveries = [TurnUpdate(continue_with=[user_text("go on", "harness")])]
        behaved = {
            "transform_context": lambda info: None,
            "convert_to_llm": lambda info, messages: messages,
            "before_tool_call": lambda *_: self.before.pop() if self.before else None,
            "after_tool_call": lambda *_: None,
            "prepare_next_turn": lambda _: (
                recoveries.pop() if self.recovers and recoveries else None
            ),
            "should_stop_after_turn": lambda _: False,
            "get_steering_messages": steering_from_queue(self.steering),
            "get_followup_messages": followups_from_queue(self.follow_ups),
            "get_api_key": lambda _: None,
        }
        hooks = {name: self.hook(name, hook) for name, hook in behaved.items()}
        config = LoopConfig(tool_execution=mode, max_parallel=2, **hooks)
        return compose(*guards(), config=config) if self.is_guarded else config

    def note_abort(self):
        self.aborted_at = time.monotonic()

    @property
    def slowness_s(self):
        return 0.0 if self.aborted_at is None else time.monotonic() - self.aborted_at


def guards():
    """The guards that need no services, in the order of the program."""
    return [
        Meter(Limits(turns=5, tool_calls=9)).bundle(),
        StormBreaker(4, 2, failures=2).bundle(),
        limit_tool_retries(1),
        resume_broken_answers(2, sleep=FakeClock(is_eager=True).sleep),
        depth_reminder(DepthTracker(), 2),
        stop_checks([failure_check()]),
    ]


plans = st.builds(
    Plan,
    mischief=st.dictionaries(
        hook_names, st.lists(st.sampled_from(["", *BAD]), max_size=3), max_size=3
    ),
    before=st.lists(before_answers, max_size=5),
    typed=st.lists(
        st.tuples(st.sampled_from(["steer", "follow"]), st.uuids().map(str)), max_size=4
    ),
    abort_at=st.none() | st.integers(1, 60),
    recovers=st.booleans(),
    is_guarded=st.booleans(),
)


@settings(max_examples=size(50, 150), deadline=None)
@given(
    plan=plans,
    script=st.lists(replies, max_size=6),
    mode=st.sampled_from(["parallel", "sequential"]),
)
def test_random_runs_keep_the_invariants(plan, script, mode):
    typed = [text for _, text in plan.typed]
    script = Script([*script, *[Reply(text="end")] * 12])
    calls_after_abort = []

    def watching(context, options, signal):
        if signal.aborted:
            calls_after_abort.append(context)
        assert_balanced(context.messages)
        return script.stream(context, options, signal)

    async def body():
        plan.signal.on_abort(plan.note_abort)
        async with asyncio.timeout(5):
            return await run_agent_loop(
                [user_text("start")],
                context=Context(tools=[
                    Tool(body=a_breath), Tool("seq", a_breath, "sequential"), Tool("boom", boom),
                ]),
                config=plan.config(mode),
                signal=plan.signal,
                emit=plan.emit,
                stream_fn=watching,
            )  # fmt: skip

    new = asyncio.run(body())

    assert plan.slowness_s < SLOW_S
    assert_event_grammar(plan.heard.events)
    is_waiting = isinstance(plan.heard.outcome, AwaitingConfirmation)
    assert_balanced(new, open_calls_allowed=is_waiting)
    assert calls_after_abort == []
    injected = [m.text for m in new if isinstance(m, UserMessage)]
    queued = [item.message.text for item in (*plan.steering.peek(), *plan.follow_ups.peek())]
    unsaid = [text for _, text in plan.typed]
    for text in typed:
        assert (injected + queued + unsaid).count(text) == 1
    asked = [call.id for m in new if isinstance(m, AssistantMessage) for call in m.calls]
    answered = [m.tool_call_id for m in new if isinstance(m, ToolResultMessage)]
    assert is_waiting or sorted(asked) == sorted(answered)
    assert all("outcome" in m.details for m in new if isinstance(m, ToolResultMessage))
    assert text_result("x").details == {"outcome": "ok"}
