"""What every front end holds: one conversation, and the runs in it.

A `Conversation` owns the history, the queues of what was typed while a run was busy, and who is
listening. It decides no policy: wiring hands it `Parts`, and `agent_loop` drives every run.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dirge_py.abort import AbortSignal
from dirge_py.agent_loop.guards.limits import TIMEOUT
from dirge_py.agent_loop.hooks import Bundle, CallDecision, Context, TurnInfo, TurnUpdate
from dirge_py.agent_loop.queues import (
    InputQueue,
    QueuedInput,
    followups_from_queue,
    steering_from_queue,
)
from dirge_py.agent_loop.resume import resumable
from dirge_py.agent_loop.run import run_agent_loop, run_agent_loop_continue
from dirge_py.errors import DirgeError
from dirge_py.events import (
    AgentEnd,
    AgentStart,
    LoopEvent,
    MessageEnd,
    Sink,
    SystemNotice,
    UsageReported,
)
from dirge_py.messages import AssistantMessage, Message, Origin, UserMessage, user_text
from dirge_py.outcomes import Cancelled, Failed, Outcome
from dirge_py.parts import ChildSpec, ModelChoice, Parts, RunSettings
from dirge_py.permission.decision import Decision
from dirge_py.permission.gate import Gate
from dirge_py.permission.rules import Mode, Rule
from dirge_py.runs import Run
from dirge_py.session.listing import SessionSummary
from dirge_py.streams import ThinkingLevel


class Conversation:
    """A history, and the means to carry it on. One run at a time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._messages: list[Message] = list(parts.history)
        self._steering = InputQueue("steering", parts.steering_mode)
        self._follow_ups = InputQueue("follow_up", parts.follow_up_mode)
        self._sinks: list[Sink] = [*parts.sinks]
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.model = parts.model
        self.thinking: ThinkingLevel = parts.thinking
        self.usage = parts.usage
        self.cost_usd = parts.cost_usd
        self.context_tokens = _last_context_tokens(self._messages)
        self.run: Run | None = None
        self.journal_seq: int | None = None
        """The record that the event being delivered is stored in, while sinks hear of it."""

    # -- what it is

    @property
    def session_id(self) -> str | None:
        return self._parts.recorder.session_id if self._parts.recorder else None

    @property
    def cwd(self) -> Path:
        return self._parts.cwd

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    @property
    def is_running(self) -> bool:
        return self.run is not None

    @property
    def instruction_files(self) -> Sequence[str]:
        return self._parts.instruction_files

    @property
    def notices(self) -> Sequence[str]:
        return self._parts.notices

    @property
    def tool_names(self) -> Sequence[str]:
        return [tool.name for tool in self._parts.tools]

    @property
    def window_tokens(self) -> int:
        return self._parts.models.window_tokens(self.model)

    # -- runs

    def send(self, prompt: str | UserMessage, *, origin: Origin = "user") -> Run:
        """Start a run with this prompt. Raises DirgeError while another one is going on."""
        message = prompt if isinstance(prompt, UserMessage) else user_text(prompt, origin)
        return self._start([message], ())

    def continue_run(self, decisions: Sequence[CallDecision] = ()) -> Run:
        """Carry on without a new prompt: from results nobody answered, or with open calls decided.

        Raises:
            DirgeError: a run goes on, there is nothing to go on from, or a decision fits no call.
        """
        try:
            resumable(self._messages, decisions)
        except ValueError as error:
            raise DirgeError(str(error)) from error
        return self._start(None, decisions)

    def resume_queued(self) -> Run | None:
        """Start a run with what is still queued, joined into one prompt; None if nothing is."""
        left = self.take_back()
        if not left or self.is_running:
            return None
        blocks = tuple(block for item in left for block in item.message.content)
        return self.send(UserMessage(content=blocks))

    async def attach(self, text: str) -> UserMessage:
        """A prompt with its `@path` attachments read. Raises FileError for one that cannot be."""
        return await self._parts.attach(text)

    def steer(self, prompt: str | UserMessage) -> QueuedInput:
        """Queue input for before the next turn; while idle it waits for the next run."""
        return self._steering.put(prompt)

    def follow_up(self, prompt: str | UserMessage) -> QueuedInput:
        """Queue input for when the agent would stop."""
        return self._follow_ups.put(prompt)

    def queued(self) -> Sequence[QueuedInput]:
        return [*self._steering.peek(), *self._follow_ups.peek()]

    def take_back(self) -> Sequence[QueuedInput]:
        """Empty both queues and return what was in them, oldest first."""
        taken = [*self._steering.take_back(), *self._follow_ups.take_back()]
        return sorted(taken, key=lambda item: item.id)

    def interject(self) -> None:
        if self.run is not None:
            self.run.interject()

    def abort(self, reason: str = "user") -> None:
        if self.run is not None:
            self.run.abort(reason)

    def subscribe(self, sink: Sink) -> Callable[[], None]:
        """Hear every event of every run; returns the removal."""
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink) if sink in self._sinks else None

    async def fork(self, spec: ChildSpec) -> "Conversation":
        """A conversation of its own that starts from this one and keeps no journal."""
        now = replace(self._parts, model=self.model, thinking=self.thinking)
        return Conversation(now.forked(spec, tuple(self._messages)))

    # -- settings

    def set_model(self, spec: str) -> str:
        """Switch the model from the next turn on; returns `alias/id`. Raises ConfigError."""
        self.model, level = self._parts.models.resolve(spec)
        if level is not None:
            self.thinking = level
        self._note_model()
        return self.model

    def set_thinking(self, level: ThinkingLevel) -> None:
        self.thinking = level
        self._note_model()

    def models(self) -> Sequence[ModelChoice]:
        return self._parts.models.choices()

    @property
    def mode(self) -> Mode:
        return self._gate.mode

    def set_mode(self, mode: Mode) -> None:
        self._gate.mode = mode
        if self._parts.recorder:
            self._parts.recorder.note_mode(mode)

    @property
    def grants(self) -> Sequence[Rule]:
        return self._gate.grants

    def add_grant(self, rule: str) -> None:
        """Allow what `rule` (`op:pattern`) matches, for this session. Raises UsageError."""
        self._gate.add_grant(rule)
        if self._parts.recorder:
            self._parts.recorder.note_grant(rule)

    def remove_grant(self, index: int) -> None:
        """Take back the grant at `index` of `grants`. Raises UsageError: there is none."""
        removed = self._gate.remove_grant(index)
        if self._parts.recorder:
            self._parts.recorder.note_grant_removed(str(removed))

    def clear_grants(self) -> None:
        while self._gate.grants:
            self.remove_grant(0)

    def why(self, tool: str, input_text: str) -> Decision:
        """What would be decided about this call, and why. Executes nothing."""
        if self._parts.explain is None:
            raise DirgeError("this conversation has no permission engine to ask.")
        return self._parts.explain(tool, input_text)

    def sessions(self) -> Sequence[SessionSummary]:
        return self._parts.list_sessions()

    async def close(self) -> None:
        """Stop what runs, flush, and let everything go. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self.abort("closed")
        if self._task is not None:
            await asyncio.wait([self._task])
        for close in self._parts.on_close:
            await close()

    # -- inside

    @property
    def _gate(self) -> Gate:
        if self._parts.gate is None:
            raise DirgeError("this conversation has no permission engine.")
        return self._parts.gate

    def _note_model(self) -> None:
        if self._parts.recorder:
            self._parts.recorder.note_model(self.model, thinking=self.thinking)

    def _start(self, prompts: list[Message] | None, decisions: Sequence[CallDecision]) -> Run:
        if self._closed:
            raise DirgeError("this conversation is closed.")
        if self.run is not None:
            raise DirgeError("a run is going on.", hint="Steer it, queue a follow-up, or abort it.")
        run = Run(self, AbortSignal())
        self.run = run
        self._task = asyncio.get_running_loop().create_task(self._drive(run, prompts, decisions))
        return run

    async def _drive(
        self, run: Run, prompts: list[Message] | None, decisions: Sequence[CallDecision]
    ) -> None:
        ended: list[AgentEnd] = []
        has_begun = False

        def emit(event: LoopEvent) -> None:
            nonlocal has_begun
            has_begun = True
            if isinstance(event, AgentEnd):
                event = replace(event, outcome=run.judge(event, self._parts.time_limit_s))
                ended.append(event)
            self._emit(run, event)

        timer = None
        if self._parts.time_limit_s is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._parts.time_limit_s, run.signal.abort, TIMEOUT)
        outcome: Outcome = Cancelled(reason="closed")
        try:
            await self._loop(run, prompts, decisions, emit)
            outcome = ended[-1].outcome if ended else Failed(kind="bug", message="no agent_end")
        except Exception as error:
            outcome = _failure(error)
            # Whoever watches was promised a beginning and an end, whatever lies between.
            if not has_begun:
                emit(AgentStart(run_id=run.id))
            if not ended:
                emit(AgentEnd(messages=(), outcome=outcome))
        finally:
            if timer is not None:
                timer.cancel()
            self.run = None
            run.finish(outcome)

    async def _loop(
        self,
        run: Run,
        prompts: list[Message] | None,
        decisions: Sequence[CallDecision],
        emit: Sink,
    ) -> None:
        parts = self._parts
        config = parts.configure(
            RunSettings(
                model=self.model,
                thinking=self.thinking,
                bundle=self._bundle(),
                max_turns=parts.max_turns,
                is_recorded=parts.recorder is not None,
            )
        )
        context = Context(
            system_prompt=parts.system_prompt(self.tool_names),
            messages=list(self._messages),
            tools=parts.tools,
        )
        stream_fn = run.timed(parts.stream_fn)
        if prompts is None:
            await run_agent_loop_continue(
                context=context,
                config=config,
                signal=run.signal,
                emit=emit,
                stream_fn=stream_fn,
                decisions=decisions,
            )
        else:
            await run_agent_loop(
                prompts,
                context=context,
                config=config,
                signal=run.signal,
                emit=emit,
                stream_fn=stream_fn,
            )

    def _bundle(self) -> Bundle:
        """The hooks through which what was typed, and what was switched, reaches a run."""
        told = (self.model, self.thinking)

        async def switch(info: TurnInfo) -> TurnUpdate | None:
            nonlocal told
            now = (self.model, self.thinking)
            if now == told:
                return None
            told = now
            return TurnUpdate(model=now[0], thinking_level=now[1])

        return Bundle(
            name="conversation",
            prepare_next_turn=switch,
            get_steering_messages=steering_from_queue(self._steering),
            get_followup_messages=followups_from_queue(self._follow_ups),
        )

    def _emit(self, run: Run, event: LoopEvent) -> None:
        if isinstance(event, UsageReported):
            event = replace(event, cost_usd=self._parts.models.cost_usd(event.model, event.usage))
        self._take_in(run, event)
        self.journal_seq = None
        if self._parts.recorder is not None:
            self._parts.recorder.sink(event)
            self.journal_seq = self._parts.recorder.written_seq
        self._tell(run, event)
        while self._parts.late_notices:
            self._tell(run, SystemNotice(self._parts.late_notices.pop(0)))

    def _tell(self, run: Run, event: LoopEvent) -> None:
        run.hear(event)
        for sink in list(self._sinks):
            try:
                sink(event)
            except Exception:
                # A watcher that breaks is no reason to lose the run, or to keep watching.
                self._sinks.remove(sink)

    def _take_in(self, run: Run, event: LoopEvent) -> None:
        if isinstance(event, MessageEnd):
            self._messages.append(event.message)
            if isinstance(event.message, AssistantMessage) and event.message.origin == "model":
                run.turns += 1
                if event.message.content and not event.message.usage:
                    # It was paid for, and nobody said how much.
                    run.cost_usd = self.cost_usd = None
        elif isinstance(event, UsageReported):
            self.usage += event.usage
            run.usage += event.usage
            self.cost_usd = _sum(self.cost_usd, event.cost_usd)
            run.cost_usd = _sum(run.cost_usd, event.cost_usd)
            self.context_tokens = event.usage.total


def _failure(error: Exception) -> Failed:
    if isinstance(error, DirgeError):
        return Failed(kind="other", message=error.message, hint=error.hint)
    return Failed(kind="bug", message=f"{type(error).__name__}: {error}")


def _sum(total: float | None, cost: float | None) -> float | None:
    # One unknown price makes the sum unknown: a known-looking figure would be too low.
    return None if total is None or cost is None else total + cost


def _last_context_tokens(messages: Sequence[Message]) -> int:
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and message.usage:
            return message.usage.total
    return 0
