"""One conversation and its runs, as every front end uses it.

A `Conversation` owns the history, the queues of input and the subscribers, and decides no policy.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dirge_py.agent_loop.dispatch import call_outside_run
from dirge_py.agent_loop.history import check_resumable, open_calls
from dirge_py.agent_loop.queues import InputQueue, QueuedInput
from dirge_py.conversation.deps import (
    ConversationDeps,
    ForkOptions,
    Pictures,
    RunSettings,
    SessionDeps,
    WorkEnvironment,
)
from dirge_py.conversation.log import ConversationLog
from dirge_py.conversation.queue import PendingInserts
from dirge_py.conversation.run import Run, RunExecutor, RunRequest
from dirge_py.conversation.settings import ConversationSettings
from dirge_py.session.drafts import SessionDrafts
from dirge_py.session.record import NO_RECORD
from dirge_py.session.rewind import Rewinder
from dirge_py.session.snapshots.repository import ProjectSnapshots, SnapshotRepository
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import (
    EMBED,
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
from dirge_py.types.hooks import CallDecision, Context, Hooks
from dirge_py.types.messages import Message, Origin, Usage, UserMessage, user_text
from dirge_py.types.outcomes import Cancelled, Outcome
from dirge_py.types.tools import LoopTool, LoopToolResult

if TYPE_CHECKING:
    from dirge_py.context.hooks import ContextHooks
    from dirge_py.context.shape import OmittedMessage
    from dirge_py.context.view import ContextReport
    from dirge_py.session.transcript import InterruptedRun


_OWNER_EXIT_S = 3.0
"""How long `close` waits for the exclusive owner to give the conversation up."""
_logger = logging.getLogger(__name__)

E = TypeVar("E", bound=Extension)


class ExclusiveOwner(Protocol):
    """Controls a conversation exclusively for a while, like a plan: only it starts runs then."""

    @property
    def description(self) -> str:
        """What the owner does, as shown to the user: `the plan is being reviewed`."""

    def interrupt(self, reason: str = "user") -> None:
        """Stop the owner's run, start no other, and give the conversation up soon."""


class Conversation:
    """A history and the runs that continue it, one at a time."""

    def __init__(self, deps: ConversationDeps) -> None:
        self._deps = deps
        session, loaded = deps.session, deps.session.loaded
        self.settings = ConversationSettings(deps)
        """Model, mode, grants and folders, which the user may change."""
        self.extensions = deps.extensions
        """The capabilities, in order."""
        self._log = ConversationLog(
            loaded.messages, loaded.usage, loaded.cost_usd, loaded.least_usd
        )
        if deps.run.limits.session_used is None:
            # A fork shares the limits of its parent, and its usage is reported there.
            deps.run.limits.session_used = lambda: (self.usage, self.least_usd)
        self.inserts = PendingInserts(
            deps.run.prompt_checks, report=self.report, is_unfinished=self._is_unfinished
        )
        self._steering = InputQueue("steering", deps.run.steering_mode)
        self._follow_ups = InputQueue("follow_up", deps.run.follow_up_mode)
        self._sinks: list[Sink] = [*deps.sinks]
        self._task: asyncio.Task[None] | None = None
        self.is_compacting = False
        """Whether `compact` is in progress: no run can start until it is done."""
        self._is_closed = False
        self._close_done = asyncio.Event()
        self._owner: ExclusiveOwner | None = None
        self._owner_left = asyncio.Event()
        self._owner_left.set()
        self.side_questions = 0
        """How many side questions are being answered now."""
        self.program_calls = 0
        """How many calls of the program itself are in progress."""
        self.run: Run | None = None
        """The current run."""
        self.timeline = Rewinder(
            session.recorder, self.snapshots, report=self.report, check_idle=self.check_idle
        )
        self.timeline.uncommitted = session.uncommitted
        """Moves the session to other points of its history, and back."""
        self.unsent = SessionDrafts(session.recorder, has_begun=bool(loaded.messages))
        """Drafts and queued input, stored for the next start."""
        self.journal_seq: int | None = None
        """The journal record of the event that sinks receive now."""
        self._process = token_hex(2)
        self._delivered = 0
        deps.relay.sink = self.report

    # -- parts and state

    @property
    def environment(self) -> WorkEnvironment:
        """The folder, permission engine and commands of the conversation."""
        return self._deps.environment

    @property
    def session(self) -> SessionDeps:
        """The stored part of the conversation."""
        return self._deps.session

    @property
    def cwd(self) -> Path:
        """The working folder."""
        return self.environment.cwd

    @property
    def session_id(self) -> str | None:
        recorder = self.session.recorder
        return recorder.session_id if recorder is not None else None

    @property
    def event_id(self) -> str:
        """The id of the event that sinks receive now, unique in its session.

        That of its record if it is stored; else `RECORD.PROCESS.N`: the Nth event of this process,
        after that record. `Store.events_since` takes both.
        """
        recorder = self.session.recorder
        if recorder is not None and self.journal_seq is not None:
            return recorder.written_id
        last = recorder.last_id if recorder is not None else ""
        return f"{last or NO_RECORD}.{self._process}.{self._delivered}"

    @property
    def exclusive_owner(self) -> ExclusiveOwner | None:
        """Who controls the conversation exclusively; None: anyone may start a run."""
        return self._owner

    @exclusive_owner.setter
    def exclusive_owner(self, owner: ExclusiveOwner | None) -> None:
        self._owner = owner
        (self._owner_left.clear if owner is not None else self._owner_left.set)()

    def extension(self, kind: type[E]) -> E | None:
        """Return the extension of that class; None if the conversation has none."""
        return self.extensions.find(kind)

    @property
    def snapshots(self) -> SnapshotRepository | None:
        """Snapshots of the project's files; None if none are taken."""
        extension = self.extension(ProjectSnapshots)
        return extension.snapshots if extension is not None else None

    @property
    def notices(self) -> Sequence[str]:
        """Messages for the user at the start."""
        return self._deps.notices

    @property
    def tools(self) -> Sequence[LoopTool]:
        return self._deps.run.tools

    @property
    def tool_names(self) -> Sequence[str]:
        return [tool.name for tool in self.tools]

    @property
    def offered_tool_names(self) -> Sequence[str]:
        """The names of the tools that the model is offered: `websearch` only with a service."""
        return [tool.name for tool in self.tools if not getattr(tool, "unavailable", "")]

    def bound_tools(self, tools: Sequence[Any]) -> Sequence[LoopTool]:
        """Return these tools, bound to the services of this conversation, for a `TurnUpdate`."""
        return self._deps.run.bind_tools(tools)

    def put_tool(self, tool: Any) -> None:
        """Add a tool, or replace the one of its name, for runs that start from now on."""
        self._deps = replace(self._deps, run=self._deps.run.with_tool(tool))

    async def call_tool(
        self, tool: LoopTool, arguments: Mapping[str, Any], emit: Sink
    ) -> LoopToolResult:
        """Run one call that no model made, judged like a model's, and return its result.

        It enters neither the history nor the journal. Raises DirgeError during a run.
        """
        self.check_idle()
        configured = RunSettings(
            model=self.settings.model,
            thinking=self.settings.thinking,
            bundle=Hooks(),
            chosen_model=lambda: self.settings.model,
            chosen_thinking=lambda: self.settings.thinking,
            is_recorded=False,
            by_program=True,
        )
        context = Context(system_prompt="", messages=list(self.messages), tools=[tool])
        config = self._deps.run.configure(configured)
        self.program_calls += 1
        try:
            return await call_outside_run(
                tool.name, arguments, context=context, config=config, emit=emit
            )
        finally:
            self.program_calls -= 1

    @property
    def messages(self) -> Sequence[Message]:
        return self._log.messages

    @property
    def usage(self) -> Usage:
        return self._log.usage

    @property
    def cost_usd(self) -> float | None:
        """The cost so far; None when a part of it is unknown."""
        return self._log.cost_usd

    @property
    def least_usd(self) -> float:
        """The part of the cost for which prices are known."""
        return self._log.least_usd

    @property
    def reported(self) -> Sequence[UsageReported]:
        """The usage of every model call since the start, oldest first."""
        return self._log.reported

    @property
    def idle_requests(self) -> int:
        """The number of model answers since the start that nothing asked for."""
        return self._log.idle_requests

    @property
    def context_tokens(self) -> int:
        return self._log.context_tokens

    @property
    def is_running(self) -> bool:
        return self.run is not None

    def context_report(self) -> "ContextReport | None":
        """Return what would be sent now; None if the conversation does not count it."""
        report = self.session.context_report
        return report(tuple(self.messages)) if report is not None else None

    @property
    def interruption(self) -> "InterruptedRun | None":
        """What the session's last run left when it was killed; None once another run starts."""
        recorder = self.session.recorder
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
        """Start a run with this prompt. Raises DirgeError during another run.

        With `single_turn` it ends with `NeedsMoreTurns` after each turn but the last;
        `continue_run` continues it. `bundles` are further hooks for this run, before redaction and
        permission. `by` is the exclusive owner, if there is one: nobody else may start runs.
        """
        message = prompt if isinstance(prompt, UserMessage) else user_text(prompt, origin)
        request = RunRequest(prompts=[message], single_turn=single_turn, bundles=bundles)
        return self._start(request, by)

    def continue_run(
        self,
        decisions: Sequence[CallDecision] = (),
        *,
        single_turn: bool = False,
        bundles: Sequence[Hooks] = (),
        by: ExclusiveOwner | None = None,
    ) -> Run:
        """Continue without a new prompt: from unanswered results, or with open calls decided.

        Raises DirgeError if a run is active or nothing can continue, or a decision fits no call.
        """
        try:
            check_resumable(self.messages, decisions)
        except ValueError as error:
            raise DirgeError(str(error)) from error
        request = RunRequest(decisions=decisions, single_turn=single_turn, bundles=bundles)
        return self._start(request, by)

    def resume_queued(self) -> Run | None:
        """Start a run with the queued input, joined into one prompt; None if there is none."""
        queued = () if self.is_running or self.exclusive_owner is not None else self.take_back()
        if not queued:
            return None
        blocks = tuple(block for item in queued for block in item.message.content)
        return self.send(UserMessage(content=blocks))

    async def attach(self, text: str, pictures: Pictures | None = None) -> UserMessage:
        """Return the prompt with its `@path` attachments read. Raises FileError: one can't be."""
        if "@" not in text and not pictures:
            return user_text(text)
        return await self.environment.attach(text, pictures or {})

    def steer(self, prompt: str | UserMessage) -> QueuedInput:
        """Queue input for the next turn; while idle it waits for the next run."""
        return self._queued(self._steering.put(prompt))

    def follow_up(self, prompt: str | UserMessage) -> QueuedInput:
        """Queue input for when the agent would stop."""
        return self._queued(self._follow_ups.put(prompt))

    def _queued(self, item: QueuedInput) -> QueuedInput:
        self._save_queue()
        return item

    def queued(self) -> Sequence[QueuedInput]:
        return [*self._steering.peek(), *self._follow_ups.peek()]

    def take_back(self) -> Sequence[QueuedInput]:
        """Empty both queues and return their input, oldest first."""
        items = [*self._steering.take_back(), *self._follow_ups.take_back()]
        self._save_queue()
        return sorted(items, key=lambda item: item.id)

    def queue_again(self, waiting: Sequence[tuple[str, UserMessage]]) -> None:
        """Queue what an earlier start did not deliver, as (kind, message)."""
        for kind, message in waiting:
            (self.steer if kind == "steering" else self.follow_up)(message)

    def interject(self) -> None:
        if self.run is not None:
            self.run.interject()

    def abort(self, reason: str = "user") -> None:
        if self.run is not None:
            self.run.abort(reason)

    async def compact(self, focus: str = "") -> ContextCompacted | None:
        """Compact the context; None if there was nothing to leave out.

        `focus` is what a summary should keep above all. Raises DirgeError during a run, or if this
        conversation can't compact.
        """
        self.check_idle()
        view = self.session.view
        if view is None:
            raise DirgeError("this conversation cannot compact its context.")
        self.is_compacting = True
        try:
            compacted = await view.compact(tuple(self.messages), focus, emit=self.report)
        finally:
            self.is_compacting = False
        return self._reported(compacted)

    def omitted_messages(self) -> "Sequence[OmittedMessage]":
        """Return the messages that compactions leave out or shorten, in order."""
        view = self.session.view
        return view.dropped(self.messages) if view is not None else ()

    def send_whole_again(self, number: int) -> ContextCompacted | None:
        """Send this message (counted from 1) whole again; None if it is not left out."""
        return self._change_view(lambda view: view.show_again(self.messages, number))

    def undo_compaction(self) -> ContextCompacted | None:
        """Undo the last compaction; None if there was none. Raises DirgeError during a run."""
        return self._change_view(lambda view: view.undo(self.messages))

    def _change_view(
        self, change: "Callable[[ContextHooks], ContextCompacted | None]"
    ) -> ContextCompacted | None:
        self.check_idle()
        return self._reported(change(self.session.view) if self.session.view is not None else None)

    def _reported(self, compacted: ContextCompacted | None) -> ContextCompacted | None:
        if compacted is not None:
            self.report(compacted)
        return compacted

    # -- sinks, forks and the end

    def subscribe(self, sink: Sink) -> Callable[[], None]:
        """Send every event of every run to `sink`; returns a function that ends this."""
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink) if sink in self._sinks else None

    def report(self, event: LoopEvent) -> None:
        """Emit an event from outside the loop, as part of the current run if there is one."""
        self._emit(self.run, event)

    async def fork(self, spec: ForkOptions) -> "Conversation":
        """Fork the conversation. Raises what `ConversationDeps.forked` does."""
        now = replace(self._deps, model=self.settings.model, thinking=self.settings.thinking)
        return Conversation(await now.forked(spec, tuple(self.messages)))

    def rename(self, title: str) -> str:
        """Name the session; returns the stored name. Raises DirgeError: see `SessionDrafts`."""
        return self.unsent.rename(title)

    async def close(self) -> None:
        """Stop the run, flush and close everything. A second call waits for the first."""
        if self._is_closed:
            await self._close_done.wait()
            return
        self._is_closed = True
        if self.exclusive_owner is not None:
            self.exclusive_owner.interrupt("closed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._owner_left.wait(), _OWNER_EXIT_S)
        self.abort("closed")
        try:
            if self._task is not None and self.run is not None:
                await asyncio.wait([self._task])
            for finish in self._deps.before_close:
                await finish()
            if self.session.recorder is not None:
                # Before any other wait, so that another process can open the session.
                self.session.recorder.close()
            for close in self._deps.on_close:
                await close()
        finally:
            # Only now are all failures to save known.
            self._emit_notices(None)
            self._close_done.set()

    # -- inside

    def check_idle(self, by: ExclusiveOwner | None = None) -> None:
        """Raise DirgeError during a run, a compaction or the control of another owner than `by`."""
        if self._is_closed:
            raise DirgeError("this conversation is closed.")
        if self.exclusive_owner is not None and self.exclusive_owner is not by:
            hint = "Wait for it to end, or interrupt it."
            raise DirgeError(f"{self.exclusive_owner.description}.", hint=hint)
        if self.run is not None:
            raise DirgeError("a run is active.", hint="Steer it, queue a follow-up, or abort it.")
        if self.is_compacting:
            raise DirgeError("the context is being compacted.", hint="Wait until that is done.")
        if self.timeline.is_moving:
            hint = "Wait until that is done."
            raise DirgeError("the session is moving to another point.", hint=hint)

    def _is_unfinished(self) -> bool:
        """Whether a message now would end an interrupted run, open calls or a move."""
        has_open_calls = open_calls(self.messages) is not None
        return self.timeline.is_moving or self.interruption is not None or has_open_calls

    def _start(self, request: RunRequest, by: ExclusiveOwner | None) -> Run:
        from dirge_py.guards.structured_output import StructuredAnswer

        self.check_idle(by)
        self.extensions.start()
        schema = self.settings.answer_schema
        if schema is not None:
            answer = StructuredAnswer(schema, is_native=self._deps.models.holds_schema)
            bundles = (*request.bundles, answer.bundle())
            request = replace(request, answer=answer, bundles=bundles)
        run = Run(
            steer=self.steer,
            follow_up=self.follow_up,
            prompts=request.prompts or (),
            backpressure=self._deps.run.backpressure,
            on_notice=self._deps.late_notices.append,
        )
        self.run = run
        self._task = asyncio.get_running_loop().create_task(self._drive(run, request))
        return run

    async def _drive(self, run: Run, request: RunRequest) -> None:
        outcome: Outcome = Cancelled(reason="closed")
        try:
            executor = RunExecutor(
                run=run,
                request=request,
                deps=self._deps,
                settings=self.settings,
                is_owned=self._owner is not None,
                log=self._log,
                steering=self._steering,
                follow_ups=self._follow_ups,
                inserts=self.inserts,
                emit=partial(self._emit, run),
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
            self._emit_notices(run)  # before the end of the run
        is_asked = run or self.is_compacting or self.side_questions or self.exclusive_owner
        is_embedding = isinstance(event, UsageReported) and event.role == EMBED
        self._log.record(event, is_idle=not (is_asked or is_embedding))
        if run is not None:
            run.count(event)
        self.journal_seq = None
        recorder = self.session.recorder
        if recorder is not None:
            recorder.sink(event)
            self.journal_seq = recorder.written_seq
            if isinstance(event, MessageEnd):
                self.unsent.on_message()
            if isinstance(event, MessageEnd | AgentEnd):
                self._save_queue()
        self._deliver(run, event)
        self.journal_seq = None
        self._emit_notices(run)

    def _save_queue(self) -> None:
        """Store the queued input, and what left the queue but is not yet in the history."""
        held = self.run.unsent if self.run is not None else ()
        sent = ((m.origin, m) for m in held if m.origin == "steering" or m.origin == "follow_up")
        self.unsent.save_queue([*sent, *((item.kind, item.message) for item in self.queued())])

    def _emit_notices(self, run: Run | None) -> None:
        while self._deps.late_notices:
            self._deliver(run, SystemNotice(self._deps.late_notices.pop(0)))

    def _deliver(self, run: Run | None, event: LoopEvent) -> None:
        self._delivered += 1
        if run is not None:
            run.on_event(event, self.journal_seq)
        for sink in list(self._sinks):
            try:
                sink(event)
            except Exception:
                # A broken sink must neither end the run nor be called again.
                _logger.exception("a sink failed on %s and gets no more events", event.type)
                if sink in self._sinks:
                    self._sinks.remove(sink)
