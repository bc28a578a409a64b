"""Plays a scenario on a conversation that the SDK builds, and records what it observes."""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from dirge_py.agent_loop.history import open_calls
from dirge_py.agent_loop.retry import RecoveryPolicy
from dirge_py.config.load import load
from dirge_py.context.hooks import ContextHooks
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.run import Run
from dirge_py.providers.scripted import Reply, Script
from dirge_py.sdk.options import SessionChoice
from dirge_py.session.history import LoadedSession, replay
from dirge_py.session.journal import read_journal
from dirge_py.types.errors import ModelRetry
from dirge_py.types.events import (
    AgentEnd,
    CompactionStarted,
    ContextCompacted,
    LoopEvent,
    SystemNotice,
    UsageReported,
)
from dirge_py.types.hooks import CallDecision, Hooks, StopRun, TurnUpdate
from dirge_py.types.llm import LlmContext, StreamEvent, StreamOptions
from dirge_py.types.messages import Usage, user_text
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    Done,
    HookTerminated,
    NeedsMoreTurns,
    Outcome,
)
from dirge_py.types.questions import PermissionAnswer
from tests.invariants.scenarios import HOOKS, Scenario
from tests.support.project import ScriptedProject

BETWEEN_RUNS = (SystemNotice, UsageReported, CompactionStarted, ContextCompacted)
PATIENCE_S = 20.0
_CLINGS_S = 0.1

_PLUGIN = """\
from tests.invariants.scenario_runner import ScenarioRunner

def register(dirge):
    ScenarioRunner.current.register(dirge)
"""


@dataclass
class ObservedRun:
    """One run as observed from outside. `slowness_s` is the time from its abort to its end."""

    run: Run
    events: list[LoopEvent] = field(default_factory=list)
    requests: int = 0
    ended_at: float | None = None
    aborted_at: float | None = None

    @property
    def is_over(self) -> bool:
        return bool(self.events) and isinstance(self.events[-1], AgentEnd)

    @property
    def outcome(self) -> Outcome:
        end = self.events[-1]
        assert isinstance(end, AgentEnd)
        return end.outcome

    @property
    def slowness_s(self) -> float:
        if self.aborted_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.aborted_at


class ScenarioRunner:
    """Plays one scenario in its own folder; its attributes hold what it observed."""

    current: "ScenarioRunner"

    def __init__(self, scenario: Scenario, base: Path) -> None:
        self.scenario = copy.deepcopy(scenario)
        self.seen: list[ObservedRun] = []
        self.sent: list[LlmContext] = []
        self.late_calls: list[str] = []
        self.typed: list[str] = []
        self.unsent: list[str] = []
        self.shown_before: Sequence[Any] = ()
        self.shown_after: Sequence[Any] = ()
        self.records = LoadedSession()
        self._script = Script([*self.scenario.replies, *[Reply(text="end")] * 60])
        self._views: list[ContextHooks] = []
        self.project = ScriptedProject(base)
        self.project.configure(self.scenario.config)
        self.config = load(environment=self.project._environment)
        self.project.model = self  # type: ignore[assignment]
        self.project.user = self  # type: ignore[assignment]
        plugins = base / "config" / "plugins"
        plugins.mkdir()
        (plugins / "mischief.py").write_text(_PLUGIN)
        (self.project.folder / "a.py").write_text("x = 1\n")
        (self.project.folder / "long.txt").write_text("a long line of words\n" * 300)
        ScenarioRunner.current = self

    # -- the play

    async def play(self) -> None:
        with self._props():
            async with asyncio.timeout(PATIENCE_S):
                self.conversation = self.project.build(self, SessionChoice(kind="new"))
                try:
                    await self._runs()
                finally:
                    await self.conversation.close()
            self.shown_before = self._shown(self.conversation)
            self.again = self.project.build(self, SessionChoice(kind="newest"))
            self.shown_after = self._shown(self.again)
            await self.again.close()
            self.records = replay(read_journal(self.project.journal).records)

    @contextlib.contextmanager
    def _props(self) -> Iterator[None]:
        def hooks(*args: Any, **named: Any) -> ContextHooks:
            self._views.append(ContextHooks(*args, **named))
            return self._views[-1]

        with (
            contextlib.chdir(self.project.folder),
            mock.patch.object(RecoveryPolicy, "delay_s", lambda *_: 0.0),
            mock.patch("dirge_py.sdk.guards.ContextHooks", hooks),
        ):
            yield

    def _shown(self, conversation: Conversation) -> Sequence[Any]:
        hooks = self._views[-1]
        return hooks._view.shown(hooks._budget.apply(tuple(conversation.messages)))

    async def _runs(self) -> None:
        self._is_single = False
        self.conversation.subscribe(self._hear)
        self.conversation.subscribe(_break)
        while self.scenario.prompts and not self.conversation._is_closed:
            prompt = self.scenario.prompts.pop()
            self.typed.append(prompt)
            way = self.scenario.ways.pop() if self.scenario.ways else ""
            if way == "compact":
                await self.conversation.compact()
            self._is_single = way == "single"
            self._begin(
                self.conversation.send(
                    prompt, single_turn=self._is_single, bundles=[self._bundle()]
                )
            )
            await self._end()
            while self._goes_on():
                await self._end()

    def _begin(self, run: Run) -> None:
        self.seen.append(ObservedRun(run))
        run.signal.on_abort(self._note_abort)

    async def _end(self) -> None:
        seen = self.seen[-1]
        await seen.run.outcome
        seen.ended_at = asyncio.get_running_loop().time()
        self.unsent += [message.text for message in seen.run.unsent]

    def _goes_on(self) -> bool:
        if self.conversation._is_closed:
            return False
        match self.seen[-1].outcome:
            case NeedsMoreTurns():
                decisions = []
            case AwaitingConfirmation() if self.scenario.goes_on:
                how = self.scenario.goes_on.pop()
                waiting = open_calls(self.conversation.messages)
                if how == "prompt" or waiting is None:
                    return False
                decisions = [
                    CallDecision(tool_call_id=call.id, allow=how == "allow")
                    for call in waiting.calls
                    if how != "continue"
                ]
            case _:
                return False
        self._begin(
            self.conversation.continue_run(
                decisions, single_turn=self._is_single, bundles=[self._bundle()]
            )
        )
        return True

    def _note_abort(self) -> None:
        self.seen[-1].aborted_at = asyncio.get_running_loop().time()

    def _hear(self, event: LoopEvent) -> None:
        if not self.seen:
            assert isinstance(event, BETWEEN_RUNS)
            return
        seen = self.seen[-1]
        if seen.is_over:
            # Between runs nobody but the harness speaks.
            assert isinstance(event, BETWEEN_RUNS)
            return
        seen.events.append(event)
        count = sum(len(each.events) for each in self.seen)
        if self.scenario.typed and count % 5 == 0:
            kind, text = self.scenario.typed.pop()
            self.typed.append(text)
            getattr(self.conversation, kind)(text)
        if count == self.scenario.ends_at:
            match self.scenario.ends_by:
                case "abort":
                    seen.run.abort()
                case "interject":
                    seen.run.interject()
                case "close":
                    self._closing = asyncio.ensure_future(self.conversation.close())

    # -- the model, its judges, and the person

    @property
    def stream_fn(self) -> Any:
        return self._stream

    async def _stream(
        self, context: LlmContext, options: StreamOptions, signal: Any
    ) -> AsyncIterator[StreamEvent]:
        run = self.conversation.run
        if run is not None and run.signal.aborted:
            self.late_calls.append(options.model)
        role = options.model.partition("/")[2]
        said = {"critic": self.scenario.judgements, "summary": self.scenario.summaries}.get(role)
        if said is None:
            self.sent.append(context)
            self.seen[-1].requests += 1
            script = self._script
        else:
            answer = said.pop() if said else "COMPLETE"
            reply = Reply(error=answer) if isinstance(answer, Exception) else Reply(text=answer)
            script = Script([replace(reply, usage=Usage(input=70, output=7))])
        async for event in script.stream(context, options, signal):
            await asyncio.sleep(0)
            yield event

    async def permission(self, requests: Sequence[Any]) -> Sequence[PermissionAnswer]:
        answer = self.scenario.answers.pop() if self.scenario.answers else None
        if answer == "raise":
            raise RuntimeError("nobody is there")
        if answer == "hang":
            await self._hang()
        return [answer or PermissionAnswer(effect="allow")] * len(requests)

    async def _hang(self) -> None:
        """Wait forever, until another step aborts."""
        for _ in range(3):
            await asyncio.sleep(0)
        self.seen[-1].run.abort()
        await asyncio.Event().wait()

    # -- the hooks of the program, and those of a plugin

    def _bundle(self) -> Hooks:
        return Hooks(name="mischief", **{name: self._hook(name) for name in HOOKS})

    def _hook(self, name: str) -> Any:
        async def hook(*given: Any) -> Any:
            await asyncio.sleep(0)
            left = self.scenario.hooks.get(name)
            deed = left.pop() if left else ""
            if not deed and name == "before_tool_call" and self.scenario.before:
                return self.scenario.before.pop()
            return await self._do(deed, name, given)

        return hook

    async def _do(self, deed: str, name: str, given: Sequence[Any]) -> Any:
        run = self.seen[-1].run
        match deed:
            case "raise":
                raise RuntimeError("a bad hook")
            case "exit":
                raise SystemExit(3)
            case "cancel":
                raise asyncio.CancelledError
            case "garbage":
                return object()
            case "stop":
                raise StopRun(HookTerminated(point=name, reason="x"), say="Bye.")
            case "finalize":
                return StopRun(Done(stopped_by="x"), finalize=True)
            case "abort":
                run.abort()
            case "interject":
                run.interject()
            case "hang":
                await self._hang()
            case "cling":
                await self._cling()
            case "scramble" | "replace":
                return _changed(deed, name, given)
        return None

    async def _cling(self) -> None:
        """Continue for a while after cancellation."""
        self.seen[-1].run.abort()
        loop = asyncio.get_running_loop()
        until = loop.time() + _CLINGS_S
        while (left := until - loop.time()) > 0:
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), left)

    def register(self, dirge: Any) -> None:
        for point, left in self.scenario.plugin.items():
            if point == "around_tool":
                dirge.around_tool(self._around(left))
            else:
                dirge.on(point, self._at(dirge, point, left))

        def faulty() -> str:
            """Fail."""
            raise ValueError("nothing matched")

        def again() -> str:
            """Ask for other arguments."""
            raise ModelRetry("use another date")

        async def steps() -> str:
            """Take a few steps."""
            for _ in range(3):
                await asyncio.sleep(0)
            return "ok"

        async def stuck() -> str:
            """Never return."""
            await asyncio.Event().wait()
            return "never"

        for tool, mode in ((faulty, "parallel"), (again, "parallel"), (stuck, "parallel")):
            dirge.tool(tool, mode=mode)
        dirge.tool(steps, mode="sequential")

    def _at(self, dirge: Any, point: str, left: list[str]) -> Any:
        async def act(*given: Any) -> Any:
            deed = left.pop() if left else ""
            if deed == "stop" and point in HOOKS:
                return dirge.stop("enough")
            if deed == "hang":
                await asyncio.Event().wait()
            if deed in ("stop", "scramble") and point not in HOOKS:
                return "no" if point == "before_prompt" else None
            return await self._do(deed, point, given)

        return act

    def _around(self, left: list[str]) -> Any:
        async def around(call: Any, proceed: Any) -> Any:
            deed = left.pop() if left else ""
            if deed == "hang":
                await asyncio.Event().wait()
            if deed in ("stop", "scramble"):
                return "instead"
            await self._do(deed, "around_tool", (call,))
            return await proceed()

        return around


def _break(event: LoopEvent) -> None:
    if event.type == "turn_end":
        raise RuntimeError("a bad sink")


def _changed(deed: str, name: str, given: Sequence[Any]) -> Any:
    """A hook's answer that drops messages or starts over."""
    if name == "convert_to_llm":
        return list(given[1])[::-2] if deed == "scramble" else [user_text("short")]
    if name not in ("transform_context", "prepare_next_turn"):
        return None
    context = given[0].context
    short = context.messages[1::2] if deed == "scramble" else (user_text("anew", "harness"),)
    changed = replace(context, messages=short)
    if name == "transform_context":
        return changed
    return TurnUpdate(context=replace(context, messages=(user_text("anew", "harness"),)))
