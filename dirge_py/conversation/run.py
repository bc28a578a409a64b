"""One run driven to its end: what was asked for, the hooks of the conversation, how it ended.

One run of a conversation, as whoever started it holds it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from dirge_py.agent_loop.cancellation import Aborted, until_aborted
from dirge_py.agent_loop.history import final_text, is_turn, open_calls
from dirge_py.agent_loop.merge import compose
from dirge_py.agent_loop.queues import InputQueue, QueuedInput
from dirge_py.agent_loop.run import run_agent_loop, run_agent_loop_continue
from dirge_py.conversation.broadcaster import BackpressurePolicy, EventBroadcaster, EventStream
from dirge_py.conversation.deps import ConversationDeps, RunSettings
from dirge_py.conversation.log import ConversationLog
from dirge_py.conversation.queue import PendingInserts, objection
from dirge_py.conversation.settings import ConversationSettings
from dirge_py.guards.limits import TIMEOUT, stop_after_one_turn, timed_out
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.recovery import (
    choices_of,
    complete_decisions,
    end_leftovers,
    result_of_skipped_call,
)
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
from dirge_py.types.llm import LlmContext, StreamEvent, StreamFn, StreamOptions
from dirge_py.types.messages import AssistantMessage, Message, Usage, UserMessage
from dirge_py.types.outcomes import (
    AgentResult,
    AwaitingConfirmation,
    Cancelled,
    Done,
    Failed,
    HookTerminated,
    NeedsMoreTurns,
    Outcome,
)
from dirge_py.types.tools import LoopToolResult, ToolCall

if TYPE_CHECKING:
    from dirge_py.guards.structured_output import StructuredAnswer


class Queueing(Protocol):
    """Where a run's input goes: its conversation."""

    def steer(self, prompt: str | UserMessage) -> QueuedInput: ...
    def follow_up(self, prompt: str | UserMessage) -> QueuedInput: ...


class Run:
    """One run, from a prompt until the agent rests. `await run.outcome` never raises.

    `unsent` are typed messages that did not become part of history and are in no queue: a check
    held them back, or the run ended before it took them up. They belong back in the input.
    """

    def __init__(
        self,
        conversation: Queueing,
        signal: AbortSignal,
        *,
        prompts: Sequence[Message] = (),
        patience: BackpressurePolicy | None = None,
        on_notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.id = ""
        self.signal = signal
        self.started_at = time.monotonic()
        self.api_s = 0.0
        self.turns = 0
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.mailboxes = EventBroadcaster(patience, on_detached=on_notice)
        self._conversation = conversation
        self._is_over = False
        self._unsent = [prompt for prompt in prompts if isinstance(prompt, UserMessage)]

    def __await__(self) -> Generator[Any, None, Outcome]:
        return self.outcome.__await__()

    @property
    def outcome(self) -> "asyncio.Future[Outcome]":
        """How it ends. Who stops waiting for it stops neither the run nor others who wait."""
        return asyncio.shield(self._outcome)

    @property
    def unsent(self) -> Sequence[UserMessage]:
        return tuple(self._unsent)

    def events(self) -> EventStream:
        """The events of this run, in order, read at the reader's own pace; ends after `agent_end`.

        Any number may read. What happened before one begins is still there as long as it is not
        much; after that it hears what comes. One that stays behind gets `Detached`.
        """
        return self.mailboxes.subscribe()

    def steer(self, prompt: str | UserMessage) -> QueuedInput:
        return self._conversation.steer(prompt)

    def follow_up(self, prompt: str | UserMessage) -> QueuedInput:
        return self._conversation.follow_up(prompt)

    def interject(self) -> None:
        self.signal.interject()

    def abort(self, reason: str = "user") -> None:
        self.signal.abort(reason)

    def timed(self, stream_fn: StreamFn) -> StreamFn:
        """`stream_fn`, its time added up in `api_s`."""

        async def timed(
            context: LlmContext, options: StreamOptions, signal: AbortSignal
        ) -> AsyncIterator[StreamEvent]:
            started = time.monotonic()
            events = stream_fn(context, options, signal)
            try:
                async for event in events:
                    yield event
            finally:
                if isinstance(events, AsyncGenerator):
                    await events.aclose()
                self.api_s += time.monotonic() - started

        return timed

    def judge(self, event: AgentEnd, time_limit_s: float | None) -> Outcome:
        """The outcome as the loop saw it, told with what only the run knows."""
        outcome = event.outcome
        if isinstance(outcome, Done) and self.signal.aborted and self.signal.reason != TIMEOUT:
            # Its work was done, but not what was to be asked about it: whoever said stop is heard.
            outcome = Cancelled(reason=self.signal.reason)
        if time_limit_s is not None:
            used_s = round(time.monotonic() - self.started_at, 3)
            outcome = timed_out(outcome, used_s=used_s, max_s=time_limit_s)
        if isinstance(outcome, Done):
            result = AgentResult(
                response=final_text(event.messages),
                messages=event.messages,
                usage=self.usage,
                turns=self.turns,
            )
            return replace(outcome, result=result)
        return outcome

    def hear(self, event: LoopEvent, journal_seq: int | None = None) -> None:
        """Tell whoever reads the events of this run. What comes after its end is not of it."""
        if not self._is_over:
            self._is_over = isinstance(event, AgentEnd)
            self.mailboxes.put(event, journal_seq)

    def hold_back(self, message: UserMessage) -> None:
        """Keep what was taken from a queue until it is history."""
        self._unsent.append(message)

    def count(self, message: Message) -> None:
        """Note that the message is history."""
        if isinstance(message, UserMessage):
            self._unsent = [held for held in self._unsent if held is not message]
        elif isinstance(message, AssistantMessage) and message.origin == "model":
            self.turns += is_turn(message)
            if message.content and not message.usage:
                # It was paid for, and nobody said how much.
                self.cost_usd = None

    def finish(self, outcome: Outcome) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)
        self.mailboxes.close()


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a run is to do. No `prompts`: it goes on from where the conversation stands.

    `bundles` are asked behind those of the configuration; only permission comes after them. With
    `answer` the run is only done when that holds a value that fits.
    """

    prompts: Sequence[Message] | None = None
    decisions: Sequence[CallDecision] = ()
    single_turn: bool = False
    bundles: Sequence[Hooks] = ()
    answer: "StructuredAnswer | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """What was typed while a run was busy; `inserts` open no run."""

    steering: InputQueue
    follow_ups: InputQueue
    inserts: PendingInserts


class RunExecutor:
    """Drives one run. `tell` takes every event of it to whoever listens."""

    def __init__(
        self,
        run: Run,
        order: RunRequest,
        *,
        deps: ConversationDeps,
        settings: ConversationSettings,
        is_owned: bool,
        log: ConversationLog,
        queues: Queues,
        tell: Sink,
    ) -> None:
        self._run = run
        self._order = order
        self._deps = deps
        self._settings = settings
        self._is_owned = is_owned
        self._log = log
        self._queues = queues
        self._tell = tell
        self._decisions = order.decisions
        self._has_begun = False
        self._ended: AgentEnd | None = None

    async def execute(self) -> Outcome:
        """How the run ended. Raises only a cancellation from outside."""
        limit_s, timer = self._deps.run.time_limit_s, None
        if limit_s is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(limit_s, self._run.signal.abort, TIMEOUT)
        try:
            early = await self._early_end()
            if early is None:
                await self._loop()
            ended = self._close(early or _NO_END)
        except Exception as error:
            _logger.exception("a run failed outside the loop")
            ended = self._close(_failure(error))
        except asyncio.CancelledError:
            self._run.signal.abort("cancelled")
            await self._tell_end(self._close(Cancelled(reason="cancelled")))
            raise
        finally:
            if timer is not None:
                timer.cancel()
        await self._tell_end(ended)
        return self._continuable(ended.outcome)

    def emit(self, event: LoopEvent) -> None:
        self._has_begun = True
        if isinstance(event, AgentEnd):
            outcome = self._run.judge(event, self._deps.run.time_limit_s)
            if self._order.answer is not None:
                outcome = self._order.answer.check_outcome(outcome, self._log.messages)
            # Nothing may come after it, so it is told when all else is done: see `_tell_end`.
            self._ended = replace(event, outcome=outcome)
            return
        self._tell(event)

    def _close(self, outcome: Outcome) -> AgentEnd:
        """Whoever watches was promised a beginning and an end, whatever lies between."""
        if not self._has_begun:
            self.emit(AgentStart(run_id=self._run.id))
        if self._ended is None:
            self.emit(AgentEnd(messages=(), outcome=outcome))
        return self._ended or AgentEnd(messages=(), outcome=outcome)

    async def _tell_end(self, ended: AgentEnd) -> None:
        """Tell that the run is over, after whoever keeps what it said. One that rests is not."""
        on_run_end = self._deps.run.on_run_end
        try:
            if on_run_end is not None and not isinstance(ended.outcome, _RESTING):
                await on_run_end(self._said(ended), self._run.signal)
        except Exception:
            _logger.exception("what a run said was not taken in")
        finally:
            self._tell(ended)
            self._queues.inserts.run_ended()

    def _said(self, ended: AgentEnd) -> Sequence[Message]:
        """What was said since the prompt, also by the parts of the run before this one."""
        if self._order.prompts is not None:
            return ended.messages
        messages = self._log.messages
        opened = [at for at, message in enumerate(messages) if _opens(message)]
        return tuple(messages[opened[-1] :]) if opened else ended.messages

    async def _early_end(self) -> Outcome | None:
        """Why the prompts do not become history, if they do not."""
        for prompt in self._order.prompts or ():
            if not isinstance(prompt, UserMessage) or not self._deps.run.prompt_checks:
                continue
            try:
                reason = await until_aborted(
                    objection(self._deps.run.prompt_checks, prompt), self._run.signal
                )
            except Aborted:
                return Cancelled(reason=self._run.signal.reason)
            if reason is not None:
                return HookTerminated(point="before_prompt", reason=reason)
        return None

    async def _loop(self) -> None:
        deps, order, run = self._deps, self._order, self._run
        if order.prompts is not None:
            self._pass_over()
        else:
            self._take_up()
        self._queues.inserts.run_begins()
        config = self._config()
        names = [tool.name for tool in deps.run.tools]
        # Plugins may have a word in it, and take their time.
        writing = asyncio.to_thread(deps.environment.system_prompt, names)
        try:
            system_prompt = await until_aborted(writing, run.signal)
        except Aborted:
            self._close(Cancelled(reason=run.signal.reason))
            return
        context = Context(
            system_prompt=system_prompt,
            messages=list(self._log.messages),
            tools=(*deps.run.tools, *([order.answer.tool] if order.answer else ())),
        )
        watched = (
            deps.run.watch.around(deps.run.stream_fn) if deps.run.watch else deps.run.stream_fn
        )
        stream_fn = run.timed(watched)
        if order.answer is not None:
            stream_fn = order.answer.around_model(stream_fn)
        if order.prompts is None:
            await run_agent_loop_continue(
                context=context,
                config=config,
                signal=run.signal,
                emit=self.emit,
                stream_fn=stream_fn,
                decisions=[one for one in self._decisions if one.allow or one.answer],
            )
        else:
            await run_agent_loop(
                order.prompts,
                context=context,
                config=config,
                signal=run.signal,
                emit=self.emit,
                stream_fn=stream_fn,
            )

    def _pass_over(self) -> None:
        """Answer the calls that are still open when a new prompt comes.

        It is told in no event, as these calls are no part of this run.
        """
        recorder = self._deps.session.recorder
        interruption = recorder.interruption if recorder is not None else None
        waiting = open_calls(self._log.messages)
        for call in waiting.calls if waiting else ():
            answer = result_of_skipped_call(call, interruption)
            self._log.record(MessageEnd(answer), None)
            if recorder is not None:
                recorder.add_message(answer)
        if interruption is not None and interruption.calls:
            names = [one.call.name for one in interruption.calls]
            self._deps.late_notices.append(closed_calls_text(names))

    def _take_up(self) -> None:
        """Have something decided about each call that may have done its work when it was cut off.

        It is recorded before anything runs, so that nobody is asked about them again.
        """
        recorder = self._deps.session.recorder
        interruption = recorder.interruption if recorder is not None else None
        if recorder is None or interruption is None:
            return
        self._decisions = complete_decisions(self._decisions, interruption)
        choices = choices_of(self._decisions, interruption)
        if choices:
            data = {"run_id": interruption.run_id, "choices": choices}
            recorder.note("interruption", data, sync=True)
        end_leftovers(self._decisions, interruption)

    def _config(self) -> LoopConfig:
        deps, order = self._deps, self._order
        config = deps.run.configure(
            RunSettings(
                model=self._settings.model,
                thinking=self._settings.thinking,
                bundle=self._bundle(),
                chosen_model=lambda: self._settings.model,
                chosen_thinking=lambda: self._settings.thinking,
                max_turns=deps.run.max_turns,
                is_recorded=deps.session.recorder is not None,
                single_turn=order.single_turn,
                is_continued=order.prompts is None,
                is_reviewed=self._is_owned,
                further=order.bundles,
            )
        )
        if not order.single_turn:
            return config
        turns, usage = (0, None) if order.prompts else self._log.since_prompt()
        rests = stop_after_one_turn(
            turns_before=turns, usage_before=usage, max_turns=deps.run.max_turns
        )
        return compose(rests, config=config)

    # -- the hooks of the conversation

    def _bundle(self) -> Hooks:
        """The hooks through which what was typed, switched or decided reaches a run.

        Also where it waits for slow readers of its events: it never waits inside an event.
        """
        settings, mailboxes = self._settings, self._run.mailboxes
        told = (settings.model, settings.thinking)

        def before_model(_info: TurnInfo) -> Awaitable[None] | None:
            return mailboxes.room()

        def after_call(
            _info: TurnInfo, _call: ToolCall, _result: LoopToolResult
        ) -> Awaitable[None] | None:
            return mailboxes.room()

        async def before_next(_info: TurnInfo) -> TurnUpdate | None:
            nonlocal told
            await mailboxes.wait_for_room()
            now = (settings.model, settings.thinking)
            if now == told:
                return None
            told = now
            return TurnUpdate(model=now[0], thinking_level=now[1])

        return Hooks(
            name="conversation",
            only_watches=True,
            transform_context=before_model,
            before_tool_call=self._rejection if self._decisions else None,
            after_tool_call=after_call,
            prepare_next_turn=before_next,
            get_steering_messages=self._delivering(self._queues.steering),
            get_followup_messages=self._delivering(self._queues.follow_ups),
        )

    def _rejection(self, info: TurnInfo, call: ToolCall) -> ToolOverride | None:
        """The answer to a call that somebody decided against while the run was down."""
        for decision in self._decisions if info.turn == 1 else ():
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

    def _delivering(self, queue: InputQueue) -> Callable[..., Awaitable[Sequence[Message]]]:
        """A hook that hands over what is due in the queue and passes the checks, inserts first."""
        inserts = self._queues.inserts

        async def deliver(info: TurnInfo, _so_far: Sequence[Message] = ()) -> Sequence[Message]:
            due = [item.message for item in queue.drain()]
            if not self._deps.run.prompt_checks:
                return [*inserts.due(goes_on=info.wants_more or bool(due)), *due]
            for message in due:
                # From here on it is in no queue; it counts as unsent until it is history.
                self._run.hold_back(message)
            passed: list[Message] = []
            for message in due:
                reason = await objection(self._deps.run.prompt_checks, message)
                if reason is None:
                    passed.append(message)
                else:
                    info.emit(SystemNotice(f"Not sent: {reason}"))
            return [*inserts.due(goes_on=info.wants_more or bool(passed)), *passed]

        return deliver

    def _continuable(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, AwaitingConfirmation) and self._deps.run.on_waiting is not None:
            return replace(outcome, continuation=self._deps.run.on_waiting(outcome))
        return outcome


_RESTING = (NeedsMoreTurns, AwaitingConfirmation)
"""Ends of what goes on later: a turn that was asked for alone, a call that waits for a yes."""
_NO_END = Failed(kind="bug", message="The loop ended without saying so.")


def _opens(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin == "user"


def _failure(error: Exception) -> Failed:
    if isinstance(error, DirgeError):
        return Failed(kind="other", message=error.message, hint=error.hint)
    return Failed(kind="bug", message=f"{type(error).__name__}: {error}")
