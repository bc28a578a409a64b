"""What every front end holds: one conversation, and the runs in it.

A `Conversation` owns the history, the queues of what was typed while a run was busy, and who is
listening. It decides no policy: wiring hands it `Parts`, and `agent_loop` drives every run. What a
run is made of is in `conversation/run.py`, what may be chosen in `conversation/settings.py`, what
it came to in `conversation/log.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from dirge_py.agent_loop.queues import InputQueue, QueuedInput
from dirge_py.agent_loop.resume import resumable
from dirge_py.conversation.compaction_controls import Folded
from dirge_py.conversation.deps import ChildSpec, Parts, Pictures
from dirge_py.conversation.handle import Run
from dirge_py.conversation.log import Ledger
from dirge_py.conversation.pending_inserts import Inserts
from dirge_py.conversation.run import Drive, Order, Queues
from dirge_py.conversation.settings import Choices, Occupant
from dirge_py.lib.late import late
from dirge_py.session.rewind import Timeline
from dirge_py.session.unsent import Unsent
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import (
    OF_TURNS,
    AgentEnd,
    ContextCompacted,
    LoopEvent,
    MessageEnd,
    Sink,
    SystemNotice,
    UsageReported,
)
from dirge_py.types.hooks import Bundle, CallDecision
from dirge_py.types.messages import Message, Origin, Usage, UserMessage, user_text
from dirge_py.types.outcomes import Cancelled, Outcome

if TYPE_CHECKING:
    from dirge_py.context.report import ContextReport
    from dirge_py.guards.structured import StructuredAnswer
    from dirge_py.session.interruption import Interruption
else:
    StructuredAnswer = late("dirge_py.guards.structured", "StructuredAnswer")

_LEAVING_S = 3.0
"""How long whoever drives a conversation may take to leave it when it is closed."""

_logger = logging.getLogger(__name__)


class Conversation(Choices):
    """A history, and the means to carry it on. One run at a time."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._ledger = Ledger(parts.history, parts.usage, parts.cost_usd)
        self.inserts = Inserts(parts.prompt_checks, self)
        self._queues = Queues(
            inserts=self.inserts,
            steering=InputQueue("steering", parts.steering_mode),
            follow_ups=InputQueue("follow_up", parts.follow_up_mode),
        )
        self._sinks: list[Sink] = [*parts.sinks]
        self._task: asyncio.Task[None] | None = None
        self._is_compacting = self._closed = False
        self._is_gone = asyncio.Event()
        self.run: Run | None = None
        self.timeline = Timeline(
            parts.recorder, parts.snapshots, report=self.report, check_idle=self.check_idle
        )
        self.timeline.uncommitted = parts.uncommitted
        """The way to other points of the session, and back."""
        self.unsent = Unsent(parts.recorder, has_begun=bool(parts.history))
        """What was typed and is no message yet, kept for the next start."""
        self.journal_seq: int | None = None
        """The record that the event being delivered is stored in, while sinks hear of it."""
        parts.relay.sink = self.report
        self.folded = Folded(
            parts.view, lambda: self.messages, check_idle=self.check_idle, report=self.report
        )

    # -- what it is

    @property
    def session_id(self) -> str | None:
        return self._parts.recorder.session_id if self._parts.recorder else None

    @property
    def messages(self) -> Sequence[Message]:
        return self._ledger.messages

    @property
    def usage(self) -> Usage:
        return self._ledger.usage

    @property
    def cost_usd(self) -> float | None:
        """What it cost so far; None when a part of that is unknown."""
        return self._ledger.cost_usd

    @property
    def least_usd(self) -> float:
        return self._ledger.least_usd

    @property
    def reported(self) -> Sequence[UsageReported]:
        """What every model call since the start used, oldest first."""
        return self._ledger.reported

    @property
    def idle_requests(self) -> int:
        """Answers of models since the start that came while nothing was asked for."""
        return self._ledger.idle_requests

    @property
    def context_tokens(self) -> int:
        return self._ledger.context_tokens

    @property
    def is_running(self) -> bool:
        return self.run is not None

    @property
    def is_compacting(self) -> bool:
        """Whether `compact` is under way: no run can start until it is done."""
        return self._is_compacting

    def context_report(self) -> "ContextReport | None":
        """What would be sent now; None where nobody keeps count."""
        report = self._parts.context_report
        return report(tuple(self.messages)) if report is not None else None

    @property
    def interruption(self) -> "Interruption | None":
        """What the session's last run left when it was killed; None once something goes on."""
        recorder = self._parts.recorder
        return recorder.interruption if recorder is not None else None

    # -- runs

    def send(
        self,
        prompt: str | UserMessage,
        *,
        origin: Origin = "user",
        single_turn: bool = False,
        bundles: Sequence[Bundle] = (),
        by: Occupant | None = None,
    ) -> Run:
        """Start a run with this prompt. Raises DirgeError while another one is going on.

        `by` is who has the conversation to themselves, where somebody does: nobody else may.

        With `single_turn` it ends with `NeedsMoreTurns` after each turn but the last, and
        `continue_run` goes on. `bundles` are further hooks for this run; of all others
        only the permission engine is asked after them.
        """
        message = prompt if isinstance(prompt, UserMessage) else user_text(prompt, origin)
        order = Order(prompts=[message], single_turn=single_turn, bundles=bundles)
        return self._start(order, by)

    def continue_run(
        self,
        decisions: Sequence[CallDecision] = (),
        *,
        single_turn: bool = False,
        bundles: Sequence[Bundle] = (),
        by: Occupant | None = None,
    ) -> Run:
        """Carry on without a new prompt: from results nobody answered, or with open calls decided.

        Raises:
            DirgeError: a run goes on, there is nothing to go on from, or a decision fits no call.
        """
        try:
            resumable(self.messages, decisions)
        except ValueError as error:
            raise DirgeError(str(error)) from error
        order = Order(decisions=decisions, single_turn=single_turn, bundles=bundles)
        return self._start(order, by)

    def resume_queued(self) -> Run | None:
        """Start a run with what is still queued, joined into one prompt; None if nothing is."""
        left = () if self.is_running or self.occupant is not None else self.take_back()
        if not left:
            return None
        blocks = tuple(block for item in left for block in item.message.content)
        return self.send(UserMessage(content=blocks))

    async def attach(self, text: str, pictures: Pictures | None = None) -> UserMessage:
        """A prompt with its `@path` attachments read. Raises FileError for one that cannot be."""
        return await self._parts.attach(text, pictures or {})

    def steer(self, prompt: str | UserMessage) -> QueuedInput:
        """Queue input for before the next turn; while idle it waits for the next run."""
        return self._kept(self._queues.steering.put(prompt))

    def follow_up(self, prompt: str | UserMessage) -> QueuedInput:
        """Queue input for when the agent would stop."""
        return self._kept(self._queues.follow_ups.put(prompt))

    def queued(self) -> Sequence[QueuedInput]:
        return [*self._queues.steering.peek(), *self._queues.follow_ups.peek()]

    def take_back(self) -> Sequence[QueuedInput]:
        """Empty both queues and return what was in them, oldest first."""
        taken = [*self._queues.steering.take_back(), *self._queues.follow_ups.take_back()]
        self._keep_queue()
        return sorted(taken, key=lambda item: item.id)

    def queue_again(self, waiting: Sequence[tuple[str, UserMessage]]) -> None:
        """Queue what was left of an earlier start: its kind, and what was typed."""
        for kind, message in waiting:
            (self.steer if kind == "steering" else self.follow_up)(message)

    def interject(self) -> None:
        if self.run is not None:
            self.run.interject()

    def abort(self, reason: str = "user") -> None:
        if self.run is not None:
            self.run.abort(reason)

    async def compact(self, focus: str = "") -> ContextCompacted | None:
        """Send less from now on; None if there was nothing to leave out.

        `focus` says what a summary should keep above all. Sinks and the journal are told.

        Raises:
            DirgeError: a run goes on, or this conversation cannot do it.
        """
        self.check_idle()
        if self._parts.compact is None:
            raise DirgeError("this conversation cannot compact its context.")
        self._is_compacting = True
        try:
            compacted = await self._parts.compact(tuple(self.messages), focus)
        finally:
            self._is_compacting = False
        if compacted is not None:
            self.report(compacted)
        return compacted

    # -- who listens, and what becomes of it

    def subscribe(self, sink: Sink) -> Callable[[], None]:
        """Hear every event of every run; returns the removal."""
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink) if sink in self._sinks else None

    def report(self, event: LoopEvent) -> None:
        """Tell what happened outside the loop: tokens of a judge, a summary that begins.

        It is recorded, counted and told like an event of the run that goes on, if one does.
        """
        self._emit(self.run, event)

    async def fork(self, spec: ChildSpec) -> "Conversation":
        """A conversation of its own that starts from this one. Raises what `Parts.forked` does."""
        now = replace(self._parts, model=self.model, thinking=self.thinking)
        return Conversation(await now.forked(spec, tuple(self.messages)))

    def rename(self, title: str) -> str:
        """Call the session `title`; returns it as it is kept. Raises DirgeError: see `Unsent`."""
        return self.unsent.rename(title)

    async def close(self) -> None:
        """Stop what runs, flush, and let everything go. Whoever calls it again waits for that."""
        if self._closed:
            await self._is_gone.wait()
            return
        self._closed = True
        await self._send_away()
        self.abort("closed")
        try:
            if self._task is not None and self.run is not None:
                await asyncio.wait([self._task])
            for settle in self._parts.before_close:
                await settle()
            if self._parts.recorder is not None:
                # Before anything else is waited for: who comes next may have the session.
                self._parts.recorder.close()
            for close in self._parts.on_close:
                await close()
        finally:
            # What could not be saved is known only now.
            self._tell_notices(None)
            self._is_gone.set()

    # -- inside

    async def _send_away(self) -> None:
        """Let whoever has the conversation to themselves leave in good order."""
        if self.occupant is not None:
            self.occupant.interrupt("closed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_vacant.wait(), _LEAVING_S)

    def check_idle(self, by: Occupant | None = None) -> None:
        """Raises DirgeError while something goes on, of somebody else than `by`."""
        if self._closed:
            raise DirgeError("this conversation is closed.")
        if self.occupant is not None and self.occupant is not by:
            raise DirgeError(f"{self.occupant.doing}.", hint="Wait for its end, or interrupt it.")
        if self.run is not None:
            raise DirgeError("a run is going on.", hint="Steer it, queue a follow-up, or abort it.")
        if self._is_compacting:
            raise DirgeError("the context is being compacted.", hint="Wait until that is done.")
        if self.timeline.is_moving:
            raise DirgeError("the session goes to another point.", hint="Wait until that is done.")

    def _start(self, order: Order, by: Occupant | None) -> Run:
        self.check_idle(by)
        if self.answer_schema is not None:
            answer = StructuredAnswer(self.answer_schema, is_native=self._parts.models.holds_schema)
            order = replace(order, answer=answer, bundles=(*order.bundles, answer.bundle()))
        run = Run(
            self,
            AbortSignal(),
            prompts=order.prompts or (),
            patience=self._parts.patience,
            on_notice=self._parts.late_notices.append,
        )
        self.run = run
        self._task = asyncio.get_running_loop().create_task(self._drive(run, order))
        return run

    async def _drive(self, run: Run, order: Order) -> None:
        outcome: Outcome = Cancelled(reason="closed")
        try:
            drive = Drive(
                run,
                order,
                parts=self._parts,
                choices=self,
                ledger=self._ledger,
                queues=self._queues,
                tell=lambda event: self._emit(run, event),
            )
            outcome = await drive.to_its_end()
        finally:
            self.run = None
            run.finish(outcome)

    def _emit(self, run: Run | None, event: LoopEvent) -> None:
        if isinstance(event, UsageReported) and event.cost_usd is None:
            event = replace(event, cost_usd=self._parts.models.cost_usd(event.model, event.usage))
        if isinstance(event, UsageReported) and event.role in OF_TURNS and self._parts.watch:
            event = replace(event, changed=self._parts.watch.take())
        if isinstance(event, AgentEnd):
            self._tell_notices(run)  # those of a run come before its end
        is_asked = run is not None or self._is_compacting or self.asides > 0 or self.occupant
        self._ledger.take_in(event, run, is_idle=not is_asked)
        self.journal_seq = None
        if self._parts.recorder is not None:
            self._parts.recorder.sink(event)
            self.journal_seq = self._parts.recorder.written_seq
            if isinstance(event, MessageEnd):
                self.unsent.message_came()
            if isinstance(event, MessageEnd | AgentEnd):
                self._keep_queue()
        self._tell(run, event)
        self.journal_seq = None
        self._tell_notices(run)

    def _kept(self, item: QueuedInput) -> QueuedInput:
        self._keep_queue()
        return item

    def _keep_queue(self) -> None:
        """Keep what waits; what was handed over waits until it is history."""
        held = self.run.unsent if self.run is not None else ()
        self.unsent.keep_queue(
            [
                *((m.origin, m) for m in held if m.origin == "steering" or m.origin == "follow_up"),
                *((item.kind, item.message) for item in self.queued()),
            ]
        )

    def _tell_notices(self, run: Run | None) -> None:
        while self._parts.late_notices:
            self._tell(run, SystemNotice(self._parts.late_notices.pop(0)))

    def _tell(self, run: Run | None, event: LoopEvent) -> None:
        if run is not None:
            run.hear(event, self.journal_seq)
        for sink in list(self._sinks):
            try:
                sink(event)
            except Exception:
                # A watcher that breaks is no reason to lose the run, or to keep watching.
                _logger.exception("a sink failed on %s and is told no more", event.type)
                if sink in self._sinks:
                    self._sinks.remove(sink)
