"""One run of a conversation: `Run` is the handle of its caller, `RunExecutor` drives it."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass as mutable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dirge_py.agent_loop.cancellation import Aborted, until_aborted
from dirge_py.agent_loop.history import is_turn, open_calls
from dirge_py.agent_loop.merge import compose
from dirge_py.agent_loop.queues import InputQueue, QueuedInput
from dirge_py.agent_loop.run import run_agent_loop, run_agent_loop_continue
from dirge_py.conversation.broadcaster import BackpressurePolicy, EventBroadcaster, EventStream
from dirge_py.conversation.deps import ConversationDeps, RunSettings
from dirge_py.conversation.log import ConversationLog, add_cost, has_unknown_usage
from dirge_py.conversation.queue import PendingInserts, objection
from dirge_py.conversation.settings import ConversationSettings
from dirge_py.guards.limits import TIMEOUT, stop_after_one_turn, timed_out
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.transcript import closed_calls_text
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    LoopEvent,
    MessageEnd,
    PermissionAnswered,
    Sink,
    SystemNotice,
    UsageReported,
)
from dirge_py.types.hooks import (
    CallDecision,
    Context,
    Hooks,
    LoopConfig,
    ToolOverride,
    TurnInfo,
    TurnUpdate,
)
from dirge_py.types.llm import LlmContext, StreamEvent, StreamFn, StreamOptions, closing
from dirge_py.types.messages import Message, Usage, UserMessage
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    Cancelled,
    Done,
    Failed,
    HookTerminated,
    NeedsMoreTurns,
    Outcome,
)
from dirge_py.types.tools import ToolCall

if TYPE_CHECKING:
    from dirge_py.guards.structured_output import StructuredAnswer


Queue: TypeAlias = Callable[[str | UserMessage], QueuedInput]


class Run:
    """One run, from a prompt until the agent rests. `await run.outcome` never raises."""

    def __init__(
        self,
        *,
        steer: Queue,
        follow_up: Queue,
        prompts: Sequence[UserMessage],
        backpressure: BackpressurePolicy,
        on_notice: Callable[[str], None],
    ) -> None:
        self.steer, self.follow_up = steer, follow_up
        self.id = ""
        self.signal = AbortSignal()
        self.started_at = time.monotonic()
        self.api_s = 0.0
        self.turns = 0
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.broadcaster = EventBroadcaster(backpressure, on_detached=on_notice)
        self._is_over = False
        self._unsent = list(prompts)

    def __await__(self) -> Generator[Any, None, Outcome]:
        return self.outcome.__await__()

    @property
    def outcome(self) -> "asyncio.Future[Outcome]":
        """How the run ends. Cancelling one wait for it affects neither the run nor other waits."""
        return asyncio.shield(self._outcome)

    @property
    def unsent(self) -> Sequence[UserMessage]:
        """Typed messages to put back into the input: a check or the end of the run stopped them."""
        return tuple(self._unsent)

    def events(self) -> EventStream:
        """Return the events of this run; a late reader gets the earlier ones, too, if they fit."""
        return self.broadcaster.subscribe()

    def interject(self) -> None:
        self.signal.interject()

    def abort(self, reason: str = "user") -> None:
        self.signal.abort(reason)

    def timed(self, stream_fn: StreamFn) -> StreamFn:
        """Return `stream_fn` with its time added to `api_s`."""

        async def timed(
            context: LlmContext, options: StreamOptions, signal: AbortSignal
        ) -> AsyncIterator[StreamEvent]:
            started = time.monotonic()
            try:
                async with closing(stream_fn(context, options, signal)) as events:
                    async for event in events:
                        yield event
            finally:
                self.api_s += time.monotonic() - started

        return timed

    def complete_outcome(self, event: AgentEnd, time_limit_s: float | None) -> Outcome:
        """Return the outcome of the loop, completed with what only the run knows."""
        outcome = event.outcome
        if isinstance(outcome, Done) and self.signal.aborted and self.signal.reason != TIMEOUT:
            # The work was done, but not the checks after it: the abort counts.
            outcome = Cancelled(reason=self.signal.reason)
        if time_limit_s is not None:
            used_s = round(time.monotonic() - self.started_at, 3)
            outcome = timed_out(outcome, used_s=used_s, max_s=time_limit_s)
        if isinstance(outcome, Done) and outcome.result is not None:
            result = replace(outcome.result, usage=self.usage, turns=self.turns)
            return replace(outcome, result=result)
        return outcome

    def on_event(self, event: LoopEvent, journal_seq: int | None = None) -> None:
        """Send the event to the readers of this run; later ones than its end are not part of it."""
        if not self._is_over:
            self._is_over = isinstance(event, AgentEnd)
            self.broadcaster.put(event, journal_seq)

    def add_unsent(self, message: UserMessage) -> None:
        """Note a message that left a queue and is not yet in the history."""
        self._unsent.append(message)

    def count(self, event: LoopEvent) -> None:
        """Add the event to the totals of the run."""
        match event:
            case MessageEnd(message):
                self._unsent = [unsent for unsent in self._unsent if unsent is not message]
                self.turns += is_turn(message)
                if has_unknown_usage(message):
                    self.cost_usd = None
            case UsageReported(usage=usage, cost_usd=cost_usd):
                self.usage += usage
                self.cost_usd = add_cost(self.cost_usd, cost_usd)

    def finish(self, outcome: Outcome) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)
        self.broadcaster.close()


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a run has to do."""

    prompts: Sequence[UserMessage] | None = None
    """The messages that open it; None: it continues the conversation."""
    decisions: Sequence[CallDecision] = ()
    """Decisions about open calls."""
    single_turn: bool = False
    """Whether it rests after each turn."""
    bundles: Sequence[Hooks] = ()
    """Hooks for this run, after all others but redaction and permission."""
    answer: "StructuredAnswer | None" = None
    """Holds the structured answer; the run is done only when that fits its schema."""


@mutable(slots=True, kw_only=True, eq=False, repr=False)
class RunExecutor:
    """Drives one run."""

    run: Run
    request: RunRequest
    deps: ConversationDeps
    settings: ConversationSettings
    is_owned: bool
    """Whether the conversation has an exclusive owner."""
    log: ConversationLog
    steering: InputQueue
    """Input for the next turn."""
    follow_ups: InputQueue
    """Input for when the agent would stop."""
    inserts: PendingInserts
    emit: Sink
    """Receives every event of the run."""
    decisions: Sequence[CallDecision] = field(init=False)
    """The decisions of the request, completed for interrupted calls."""
    ended: AgentEnd | None = None
    """The end of the run, once the loop has emitted it."""
    has_begun: bool = False
    max_s: float | None = field(init=False)
    """How long the run may take."""

    def __post_init__(self) -> None:
        self.decisions = self.request.decisions
        self.max_s = self.deps.run.limits.most.time_s

    async def execute(self) -> Outcome:
        """Run to the end and return the outcome. Raises only a cancellation from outside."""
        limit_s, timer = self.max_s, None
        if limit_s is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(limit_s, self.run.signal.abort, TIMEOUT)
        try:
            early = await self._early_end()
            if early is None:
                await self._loop()
            ended = self._close(early or _NO_END)
        except Exception as error:
            _logger.exception("a run failed outside the loop")
            ended = self._close(_failure(error))
        except asyncio.CancelledError:
            self.run.signal.abort("cancelled")
            await self._emit_end(self._close(Cancelled(reason="cancelled")))
            raise
        finally:
            if timer is not None:
                timer.cancel()
        await self._emit_end(ended)
        outcome = ended.outcome
        if isinstance(outcome, AwaitingConfirmation) and self.deps.run.on_waiting is not None:
            return replace(outcome, continuation=self.deps.run.on_waiting(outcome))
        return outcome

    def _on_event(self, event: LoopEvent) -> None:
        self.has_begun = True
        if isinstance(event, AgentEnd):
            outcome = self.run.complete_outcome(event, self.max_s)
            if self.request.answer is not None:
                outcome = self.request.answer.check_outcome(outcome, self.log.messages)
            # Nothing may follow it, so it is emitted when all else is done: see `_emit_end`.
            self.ended = replace(event, outcome=outcome)
            return
        self.emit(event)

    def _close(self, outcome: Outcome) -> AgentEnd:
        """Emit the start if the loop did not; returns the end, with `outcome` if it has none."""
        if not self.has_begun:
            self._on_event(AgentStart(run_id=self.run.id))
        if self.ended is None:
            self._on_event(AgentEnd(messages=(), outcome=outcome))
        return self.ended or AgentEnd(messages=(), outcome=outcome)

    async def _emit_end(self, ended: AgentEnd) -> None:
        """Emit the end of the run, after `on_run_end`. A run that only rests is not over."""
        on_run_end = self.deps.run.on_run_end
        try:
            if on_run_end is not None and not isinstance(ended.outcome, _RESTING):
                is_continued = self.request.prompts is None
                # A continued run is a part: the others since the prompt belong to it.
                messages = self.log.messages_since_prompt() if is_continued else ended.messages
                await on_run_end(messages, self.run.signal)
        except Exception:
            _logger.exception("`on_run_end` failed")
        finally:
            self.emit(ended)
            self.inserts.run_ended()

    async def _early_end(self) -> Outcome | None:
        """Return the outcome if a check holds a prompt back from the history; else None."""
        checks = self.deps.run.prompt_checks
        for prompt in (self.request.prompts or ()) if checks else ():
            try:
                reason = await until_aborted(objection(checks, prompt), self.run.signal)
            except Aborted:
                return Cancelled(reason=self.run.signal.reason)
            if reason is not None:
                return HookTerminated(point="before_prompt", reason=reason)
        return None

    async def _loop(self) -> None:
        deps, request, run = self.deps, self.request, self.run
        if request.prompts is not None:
            self._answer_open_calls()
        else:
            self._complete_decisions()
        self.inserts.run_begins()
        config = self._config()
        names = [tool.name for tool in deps.run.tools]
        # Plugins may edit it, which may take time.
        prompt = asyncio.to_thread(deps.environment.system_prompt, names)
        try:
            system_prompt = await until_aborted(prompt, run.signal)
        except Aborted:
            self._close(Cancelled(reason=run.signal.reason))
            return
        context = Context(
            system_prompt=system_prompt,
            messages=list(self.log.messages),
            tools=(*deps.run.tools, *([request.answer.tool] if request.answer else ())),
        )
        watch = deps.run.watch
        stream_fn = run.timed(watch.around(deps.run.stream_fn) if watch else deps.run.stream_fn)
        if request.answer is not None:
            stream_fn = request.answer.around_model(stream_fn)
        decided = [each for each in self.decisions if each.allow or each.answer]
        more: dict[str, Any] = {
            "context": context,
            "config": config,
            "signal": run.signal,
            "emit": self._on_event,
            "stream_fn": stream_fn,
        }
        if request.prompts is None:
            await run_agent_loop_continue(decisions=decided, **more)
        else:
            await run_agent_loop(request.prompts, **more)

    def _answer_open_calls(self) -> None:
        """Answer calls that are still open, without events: they aren't part of this run."""
        from dirge_py.session.recovery import result_of_skipped_call

        recorder = self.deps.session.recorder
        interruption = recorder.interruption if recorder else None
        pending = open_calls(self.log.messages)
        for call in pending.calls if pending else ():
            answer = result_of_skipped_call(call, interruption)
            self.log.record(MessageEnd(answer))
            if recorder:
                recorder.add_message(answer)
        if interruption is not None and interruption.calls:
            names = [interrupted.call.name for interrupted in interruption.calls]
            self.deps.late_notices.append(closed_calls_text(names))

    def _complete_decisions(self) -> None:
        """Decide, before anything runs, about interrupted calls that may have had their effect."""
        from dirge_py.session.recovery import complete_decisions

        recorder = self.deps.session.recorder
        if recorder is not None and recorder.interruption is not None:
            self.decisions = complete_decisions(self.decisions, recorder.interruption, recorder)

    def _config(self) -> LoopConfig:
        deps, request = self.deps, self.request
        config = deps.run.configure(
            RunSettings(
                model=self.settings.model,
                thinking=self.settings.thinking,
                bundle=self._bundle(),
                chosen_model=lambda: self.settings.model,
                chosen_thinking=lambda: self.settings.thinking,
                max_turns=deps.run.max_turns,
                is_recorded=deps.session.recorder is not None,
                single_turn=request.single_turn,
                is_continued=request.prompts is None,
                is_reviewed=self.is_owned,
                further=(*request.bundles, self._late_input()),
            )
        )
        if not request.single_turn:
            return config
        turns, usage = (0, None) if request.prompts else self.log.since_prompt()
        limit = deps.run.max_turns
        hooks = stop_after_one_turn(turns_before=turns, usage_before=usage, max_turns=limit)
        return compose(hooks, config=config)

    # -- the hooks of the conversation

    def _bundle(self) -> Hooks:
        """Return the hooks that deliver queued input, changed settings and decisions to the run."""
        settings, broadcaster = self.settings, self.run.broadcaster
        used = (settings.model, settings.thinking)

        def wait_for_readers(*_args: object) -> Awaitable[None] | None:
            return broadcaster.backpressure()

        def changed_settings() -> TurnUpdate | None:
            nonlocal used
            if (chosen := (settings.model, settings.thinking)) == used:
                return None
            used = chosen
            return TurnUpdate(model=used[0], thinking_level=used[1])

        async def after(waiting: Awaitable[None]) -> TurnUpdate | None:
            await waiting
            return changed_settings()

        def before_next(_info: TurnInfo) -> TurnUpdate | Awaitable[TurnUpdate | None] | None:
            waiting = broadcaster.backpressure()
            return changed_settings() if waiting is None else after(waiting)

        return Hooks(
            name="conversation",
            only_watches=True,
            transform_context=wait_for_readers,
            before_tool_call=self._rejection if self.decisions else None,
            after_tool_call=wait_for_readers,
            prepare_next_turn=before_next,
            get_steering_messages=self._queue_hook(self.steering),
            get_followup_messages=self._queue_hook(self.follow_ups),
        )

    def _late_input(self) -> Hooks:
        """Return the hooks that deliver what was typed while a stop check looked at the work."""

        async def typed_meanwhile(info: TurnInfo, _so_far: Sequence[Message]) -> Sequence[Message]:
            if info.signal.aborted or info.signal.interjected:
                return ()  # nothing would read it: it stays in the queue
            steering = await self._checked(info, self._drained(self.steering))
            return [*steering, *await self._checked(info, self._drained(self.follow_ups))]

        return Hooks(name="late input", get_followup_messages=typed_meanwhile)

    def _rejection(self, info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        """Return the answer to a call that was denied while the run was interrupted."""
        for decision in self.decisions if info.turn == 1 else ():
            if decision.tool_call_id == call.id and not decision.allow:
                reason = decision.reason or "User rejected"
                info.emit(
                    PermissionAnswered(
                        tool_call_id=call.id,
                        tool_name=call.name,
                        effect="deny",
                        policy="answer",
                        reason=reason,
                        tool_input=call.arguments,
                    )
                )
                return ToolOverride(f"Rejected: {reason}", details={"outcome": "denied"})
        return None

    def _queue_hook(self, queue: InputQueue) -> Callable[..., Any]:
        """Return a hook that delivers the due input that passes the checks, after the inserts."""

        def deliver(
            info: TurnInfo, _so_far: Sequence[Message] = ()
        ) -> Sequence[Message] | Awaitable[Sequence[Message]]:
            due = self._drained(queue)
            # Nothing to wait for, nearly always: a wait costs a task.
            return self._checked(info, due) if due else self.inserts.due(continues=info.wants_more)

        return deliver

    def _drained(self, queue: InputQueue) -> Sequence[UserMessage]:
        """Return the input that is due; it is unsent until it is in the history."""
        messages = [item.message for item in queue.drain()]
        for message in messages:
            self.run.add_unsent(message)
        return messages

    async def _checked(self, info: TurnInfo, due: Sequence[UserMessage]) -> Sequence[Message]:
        """Return the input that passes the checks, after the inserts."""
        passed: list[Message] = []
        for message in due:
            reason = await objection(self.deps.run.prompt_checks, message)
            if reason is None:
                passed.append(message)
            else:
                info.emit(SystemNotice(f"Not sent: {reason}"))
        return [*self.inserts.due(continues=info.wants_more or bool(passed)), *passed]


_RESTING = (NeedsMoreTurns, AwaitingConfirmation)
"""Outcomes of runs that continue later: after a single turn, or a decision about a call."""
_NO_END = Failed(kind="bug", message="The loop ended without an outcome.")


def _failure(error: Exception) -> Failed:
    if isinstance(error, DirgeError):
        return Failed(kind="other", message=error.message, hint=error.hint)
    return Failed(kind="bug", message=f"{type(error).__name__}: {error}")
