"""What every front end holds: one conversation, and the runs in it.

A `Conversation` owns the history, the queues of input that came while a run was busy, and the
subscribers. It decides no policy: `sdk/build.py` hands it `ConversationDeps`, and `agent_loop`
drives every run. A run is in `conversation/run.py`, what a person may choose in
`conversation/settings.py`, totals in `conversation/log.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dirge_py.agent_loop.history import check_resumable
from dirge_py.agent_loop.queues import InputQueue, QueuedInput
from dirge_py.conversation.deps import (
    ConversationDeps,
    ForkOptions,
    Pictures,
    SentView,
    SessionDeps,
    WorkEnvironment,
)
from dirge_py.conversation.log import ConversationLog
from dirge_py.conversation.queue import PendingInserts
from dirge_py.conversation.run import Queues, Run, RunExecutor, RunRequest
from dirge_py.conversation.settings import ConversationSettings
from dirge_py.lib.lazy import late
from dirge_py.session.drafts import SessionDrafts
from dirge_py.session.rewind import Rewinder
from dirge_py.session.snapshots.repository import ProjectSnapshots, SnapshotRepository
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
from dirge_py.types.extensions import Extension
from dirge_py.types.hooks import CallDecision, Hooks
from dirge_py.types.messages import Message, Origin, Usage, UserMessage, user_text
from dirge_py.types.outcomes import Cancelled, Outcome
from dirge_py.types.tools import LoopTool

if TYPE_CHECKING:
    from dirge_py.context.shape import OmittedMessage
    from dirge_py.context.view import ContextReport
    from dirge_py.guards.structured_output import StructuredAnswer
    from dirge_py.session.transcript import InterruptedRun
else:
    StructuredAnswer = late("dirge_py.guards.structured_output", "StructuredAnswer")

_LEAVING_S = 3.0
"""How long whoever drives a conversation may take to leave it when it is closed."""
_logger = logging.getLogger(__name__)

E = TypeVar("E", bound=Extension)


class ExclusiveOwner(Protocol):
    """Has a conversation to itself for a while, as a plan that works through its phases.

    Nobody else starts runs then; what a person types waits, or steers the owner's runs.
    """

    @property
    def description(self) -> str:
        """What it does, for people: `the plan is being reviewed`."""

    def interrupt(self, reason: str = "user") -> None:
        """Stop what goes on, and leave: soon, and without starting anything more."""


class Conversation:
    """A history, and the means to carry it on. One run at a time."""

    def __init__(self, deps: ConversationDeps) -> None:
        self._deps = deps
        session = deps.session
        self.settings = ConversationSettings(deps)
        """Model, mode, grants, folders: what a person may change."""
        self.extensions = deps.extensions
        """Its capabilities, in order."""
        self._log = ConversationLog(session.history, session.usage, session.cost_usd)
        self.inserts = PendingInserts(deps.run.prompt_checks, self)
        self._queues = Queues(
            inserts=self.inserts,
            steering=InputQueue("steering", deps.run.steering_mode),
            follow_ups=InputQueue("follow_up", deps.run.follow_up_mode),
        )
        self._sinks: list[Sink] = [*deps.sinks]
        self._task: asyncio.Task[None] | None = None
        self._is_compacting = False
        self._is_closed = False
        self._close_done = asyncio.Event()
        self._owner: ExclusiveOwner | None = None
        self._owner_left = asyncio.Event()
        self._owner_left.set()
        self.side_questions = 0
        """How many side questions are being answered."""
        self.run: Run | None = None
        """The run that goes on now."""
        self.timeline = Rewinder(
            session.recorder, self.snapshots, report=self.report, check_idle=self.check_idle
        )
        self.timeline.uncommitted = session.uncommitted
        """The way to other points of the session, and back."""
        self.unsent = SessionDrafts(session.recorder, has_begun=bool(session.history))
        """What was typed and is no message yet, kept for the next start."""
        self.journal_seq: int | None = None
        """The record that the event being delivered is stored in, while sinks receive it."""
        self.compaction_controls = CompactionControls(
            session.view, lambda: self.messages, check_idle=self.check_idle, report=self.report
        )
        deps.relay.sink = self.report

    # -- what it is

    @property
    def environment(self) -> WorkEnvironment:
        """Where it works."""
        return self._deps.environment

    @property
    def session(self) -> SessionDeps:
        """What of it is stored."""
        return self._deps.session

    @property
    def cwd(self) -> Path:
        """The folder it works in."""
        return self.environment.cwd

    @property
    def session_id(self) -> str | None:
        recorder = self.session.recorder
        return recorder.session_id if recorder is not None else None

    @property
    def exclusive_owner(self) -> ExclusiveOwner | None:
        """Who has the conversation to itself; None: anybody may start a run."""
        return self._owner

    @exclusive_owner.setter
    def exclusive_owner(self, owner: ExclusiveOwner | None) -> None:
        self._owner = owner
        (self._owner_left.clear if owner is not None else self._owner_left.set)()

    def extension(self, kind: type[E]) -> E | None:
        """The extension of that class; None where the conversation has none."""
        return self.extensions.find(kind)

    @property
    def snapshots(self) -> SnapshotRepository | None:
        """Snapshots of the project's files; None where none are taken."""
        extension = self.extension(ProjectSnapshots)
        return extension.snapshots if extension is not None else None

    @property
    def notices(self) -> Sequence[str]:
        """What to tell the person at the start."""
        return self._deps.notices

    @property
    def tools(self) -> Sequence[LoopTool]:
        return self._deps.run.tools

    @property
    def tool_names(self) -> Sequence[str]:
        return [tool.name for tool in self.tools]

    def bound_tools(self, tools: Sequence[Any]) -> Sequence[LoopTool]:
        """These tools with this conversation's services, as a `TurnUpdate` wants them."""
        return self._deps.run.bind_tools(tools)

    @property
    def messages(self) -> Sequence[Message]:
        return self._log.messages

    @property
    def usage(self) -> Usage:
        return self._log.usage

    @property
    def cost_usd(self) -> float | None:
        """What it cost so far; None when a part of that is unknown."""
        return self._log.cost_usd

    @property
    def least_usd(self) -> float:
        """What it cost as far as prices are known."""
        return self._log.least_usd

    @property
    def reported(self) -> Sequence[UsageReported]:
        """What every model call since the start used, oldest first."""
        return self._log.reported

    @property
    def idle_requests(self) -> int:
        """Answers of models since the start that came while nothing was asked for."""
        return self._log.idle_requests

    @property
    def context_tokens(self) -> int:
        return self._log.context_tokens

    @property
    def is_running(self) -> bool:
        return self.run is not None

    @property
    def is_compacting(self) -> bool:
        """Whether `compact` is under way: no run can start until it is done."""
        return self._is_compacting

    def context_report(self) -> "ContextReport | None":
        """What would be sent now; None where nobody keeps count."""
        report = self._deps.session.context_report
        return report(tuple(self.messages)) if report is not None else None

    @property
    def interruption(self) -> "InterruptedRun | None":
        """What the session's last run left when it was killed; None once something goes on."""
        recorder = self._deps.session.recorder
        return recorder.interruption if recorder is not None else None

    # -- runs

    def send(
        self,
        prompt: str | UserMessage,
        *,
        origin: Origin = "user",
        single_turn: bool = False,
        bundles: Sequence[Hooks] = (),
        by: ExclusiveOwner | None = None,
    ) -> Run:
        """Start a run with this prompt. Raises DirgeError while another one is going on.

        `by` is who has the conversation to themselves, where somebody does: nobody else may.

        With `single_turn` it ends with `NeedsMoreTurns` after each turn but the last, and
        `continue_run` goes on. `bundles` are further hooks for this run; of all others
        only the permission engine is asked after them.
        """
        message = prompt if isinstance(prompt, UserMessage) else user_text(prompt, origin)
        order = RunRequest(prompts=[message], single_turn=single_turn, bundles=bundles)
        return self._start(order, by)

    def continue_run(
        self,
        decisions: Sequence[CallDecision] = (),
        *,
        single_turn: bool = False,
        bundles: Sequence[Hooks] = (),
        by: ExclusiveOwner | None = None,
    ) -> Run:
        """Carry on without a new prompt: from results nobody answered, or with open calls decided.

        Raises:
            DirgeError: a run goes on, there is nothing to go on from, or a decision fits no call.
        """
        try:
            check_resumable(self.messages, decisions)
        except ValueError as error:
            raise DirgeError(str(error)) from error
        order = RunRequest(decisions=decisions, single_turn=single_turn, bundles=bundles)
        return self._start(order, by)

    def resume_queued(self) -> Run | None:
        """Start a run with what is still queued, joined into one prompt; None if nothing is."""
        left = () if self.is_running or self.exclusive_owner is not None else self.take_back()
        if not left:
            return None
        blocks = tuple(block for item in left for block in item.message.content)
        return self.send(UserMessage(content=blocks))

    async def attach(self, text: str, pictures: Pictures | None = None) -> UserMessage:
        """A prompt with its `@path` attachments read. Raises FileError for one that cannot be."""
        if "@" not in text and not pictures:
            return user_text(text)
        return await self._deps.environment.attach(text, pictures or {})

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
        if self._deps.session.compact is None:
            raise DirgeError("this conversation cannot compact its context.")
        self._is_compacting = True
        try:
            compacted = await self._deps.session.compact(tuple(self.messages), focus)
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

    async def fork(self, spec: ForkOptions) -> "Conversation":
        """A conversation that starts from this one. Raises what `ConversationDeps.forked` does."""
        now = replace(self._deps, model=self.settings.model, thinking=self.settings.thinking)
        return Conversation(await now.forked(spec, tuple(self.messages)))

    def rename(self, title: str) -> str:
        """Name the session; returns the kept name. Raises DirgeError: see `SessionDrafts`."""
        return self.unsent.rename(title)

    async def close(self) -> None:
        """Stop what runs, flush, and let everything go. Whoever calls it again waits for that."""
        if self._is_closed:
            await self._close_done.wait()
            return
        self._is_closed = True
        await self._send_away()
        self.abort("closed")
        try:
            if self._task is not None and self.run is not None:
                await asyncio.wait([self._task])
            for settle in self._deps.before_close:
                await settle()
            if self._deps.session.recorder is not None:
                # Before anything else is waited for: who comes next may have the session.
                self._deps.session.recorder.close()
            for close in self._deps.on_close:
                await close()
        finally:
            # What could not be saved is known only now.
            self._tell_notices(None)
            self._close_done.set()

    # -- inside

    async def _send_away(self) -> None:
        """Let whoever has the conversation to themselves leave in good order."""
        if self.exclusive_owner is not None:
            self.exclusive_owner.interrupt("closed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._owner_left.wait(), _LEAVING_S)

    def check_idle(self, by: ExclusiveOwner | None = None) -> None:
        """Raises DirgeError while something goes on, of somebody else than `by`."""
        if self._is_closed:
            raise DirgeError("this conversation is closed.")
        if self.exclusive_owner is not None and self.exclusive_owner is not by:
            raise DirgeError(
                f"{self.exclusive_owner.description}.", hint="Wait for its end, or interrupt it."
            )
        if self.run is not None:
            raise DirgeError("a run is going on.", hint="Steer it, queue a follow-up, or abort it.")
        if self._is_compacting:
            raise DirgeError("the context is being compacted.", hint="Wait until that is done.")
        if self.timeline.is_moving:
            raise DirgeError("the session goes to another point.", hint="Wait until that is done.")

    def _start(self, order: RunRequest, by: ExclusiveOwner | None) -> Run:
        self.check_idle(by)
        self.extensions.start()
        schema = self.settings.answer_schema
        if schema is not None:
            answer = StructuredAnswer(schema, is_native=self._deps.models.holds_schema)
            order = replace(order, answer=answer, bundles=(*order.bundles, answer.bundle()))
        run = Run(
            self,
            AbortSignal(),
            prompts=order.prompts or (),
            patience=self._deps.run.backpressure,
            on_notice=self._deps.late_notices.append,
        )
        self.run = run
        self._task = asyncio.get_running_loop().create_task(self._drive(run, order))
        return run

    async def _drive(self, run: Run, order: RunRequest) -> None:
        outcome: Outcome = Cancelled(reason="closed")
        try:
            executor = RunExecutor(
                run,
                order,
                deps=self._deps,
                settings=self.settings,
                is_owned=self._owner is not None,
                log=self._log,
                queues=self._queues,
                tell=lambda event: self._emit(run, event),
            )
            outcome = await executor.execute()
        finally:
            self.run = None
            run.finish(outcome)

    def _emit(self, run: Run | None, event: LoopEvent) -> None:
        if isinstance(event, UsageReported) and event.cost_usd is None:
            event = replace(event, cost_usd=self._deps.models.cost_usd(event.model, event.usage))
        if isinstance(event, UsageReported) and event.role in OF_TURNS and self._deps.run.watch:
            event = replace(event, changed=self._deps.run.watch.pop_changes())
        if isinstance(event, AgentEnd):
            self._tell_notices(run)  # those of a run come before its end
        is_asked = (
            run is not None
            or self._is_compacting
            or self.side_questions > 0
            or self.exclusive_owner
        )
        self._log.record(event, run, is_idle=not is_asked)
        self.journal_seq = None
        if self._deps.session.recorder is not None:
            self._deps.session.recorder.sink(event)
            self.journal_seq = self._deps.session.recorder.written_seq
            if isinstance(event, MessageEnd):
                self.unsent.on_message()
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
        self.unsent.save_queue(
            [
                *((m.origin, m) for m in held if m.origin == "steering" or m.origin == "follow_up"),
                *((item.kind, item.message) for item in self.queued()),
            ]
        )

    def _tell_notices(self, run: Run | None) -> None:
        while self._deps.late_notices:
            self._tell(run, SystemNotice(self._deps.late_notices.pop(0)))

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


class CompactionControls:
    """`check_idle` raises while a run goes on; `report` tells sinks and journal of each change."""

    def __init__(
        self,
        view: SentView | None,
        messages: Callable[[], Sequence[Message]],
        *,
        check_idle: Callable[[], None],
        report: Sink,
    ) -> None:
        self._view = view
        self._messages = messages
        self._check_idle = check_idle
        self._report = report

    def dropped(self) -> "Sequence[OmittedMessage]":
        """The messages that are left out or shortened, in order."""
        return self._view.dropped(self._messages()) if self._view is not None else ()

    def show_again(self, number: int) -> ContextCompacted | None:
        """Send this message (counted from 1) whole again; None if it is not left out.

        Raises:
            DirgeError: a run goes on.
        """
        self._check_idle()
        if self._view is None:
            return None
        return self._told(self._view.show_again(self._messages(), number))

    def undo(self) -> ContextCompacted | None:
        """Take the last compaction back; None if there was none.

        Raises:
            DirgeError: a run goes on.
        """
        self._check_idle()
        return self._told(self._view.undo(self._messages())) if self._view is not None else None

    def _told(self, change: ContextCompacted | None) -> ContextCompacted | None:
        if change is not None:
            self._report(change)
        return change
