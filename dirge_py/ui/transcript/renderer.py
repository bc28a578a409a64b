"""Renders loop events and stored messages as blocks of the transcript."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.frontend.event_text import (
    describe_event,
    describe_run_end,
    describe_silent_answer,
    parse_shell_message,
)
from dirge_py.frontend.replay import replay_messages
from dirge_py.session.history import PlanRecordEvent
from dirge_py.slash.base import Tone
from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    CompactionStarted,
    ContextCompacted,
    ContextReplaced,
    EscalationActivated,
    EvidenceTaken,
    ForkEvent,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    PermissionAnswered,
    PermissionAsked,
    PlanPhase,
    RepairStats,
    RetryNotice,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from dirge_py.ui.transcript import blocks as shown
from dirge_py.ui.transcript.blocks import RetryBlock, RunSummary, RunSummaryBlock, ShellBlock
from dirge_py.ui.transcript.diff import DiffLayout, diff_blocks
from dirge_py.ui.transcript.images import attachments_in, describe_attachment
from dirge_py.ui.transcript.plan_blocks import (
    EvidenceBlock,
    PhaseBlock,
    PlanDocumentBlock,
    evidence_words,
)
from dirge_py.ui.transcript.prose import ProseBlock, StreamedAnswer, pieces_of
from dirge_py.ui.transcript.tool_block import ToolBlock


class TranscriptRenderer:
    """Draws one conversation as blocks on one page.

    `diff`: how changes are laid out; `assets`: the folder of the session's pictures, if it is
    known; `clock` gives seconds.
    """

    def __init__(
        self,
        page: shown.BlockPage,
        *,
        show_thinking: bool = False,
        clock: Callable[[], float] = time.monotonic,
        diff: DiffLayout = "auto",
        assets: Path | None = None,
    ) -> None:
        self._page = page
        self._show_thinking = show_thinking
        self._clock = clock
        self._diff = diff
        self._assets = assets
        self._tally = RunSummary(clock)
        self._silence = ""
        self._answer = self._new_answer()
        self._tools: dict[str, ToolBlock] = {}
        self._turn = 0
        self._is_in_run = False
        self._activity: shown.TranscriptBlock | None = None
        self.phases = PlanRenderer(self, page, clock)
        """Draws the events of plans."""

    def for_fork(self, page: shown.BlockPage) -> "TranscriptRenderer":
        """A renderer like this one for the events of a fork."""
        return TranscriptRenderer(
            page,
            show_thinking=self._show_thinking,
            clock=self._clock,
            diff=self._diff,
            assets=self._assets,
        )

    def _new_answer(self) -> StreamedAnswer:
        return StreamedAnswer(self._page, show_thinking=self._show_thinking)

    def show_thinking(self, is_shown: bool) -> None:
        """Show the thinking of models, or not, from the next answer on."""
        self._show_thinking = is_shown

    def notice(self, text: str, *, tone: Tone = "plain") -> None:
        self._page.add(shown.NoticeBlock(text, tone=tone))

    def diff(self, text: str) -> None:
        """Write a unified diff."""
        for block in diff_blocks(text, self._diff):
            self._page.add(block)

    def replay(
        self, messages: Iterable[Message], besides: Sequence[tuple[int, PlanRecordEvent]] = ()
    ) -> None:
        """Write stored messages, as they would have come live; `besides`: see `replay_messages`."""
        replay_messages(messages, besides, self._stored_message, self.phases.on_event)
        self.phases.cut_off()
        self._tools.clear()

    def _stored_message(self, message: Message) -> None:
        match message:
            case UserMessage():
                self._user(message, is_live=False)
            case AssistantMessage():
                self._stored_answer(message)
            case ToolResultMessage():
                block = self._tool(message.tool_call_id, message.tool_name)
                block.finish(message.text, message.details, is_error=message.is_error, took_ms=0)
                self._show_pictures(block, message.content)
                self._page.touch(block)

    def on_event(self, event: LoopEvent) -> None:
        """Draw an event; events that change nothing visible are ignored."""
        self._tally.on_event(event)
        match event:
            case AgentStart():
                self._is_in_run = True
            case TurnStart(turn=turn):
                self._turn = turn
            case MessageStart(message=AssistantMessage()):
                self._end_activity()
                self._answer = self._new_answer()
            case MessageUpdate():
                self._update(event)
            case MessageEnd(message=UserMessage() as message):
                self._user(message, is_live=True)
            case MessageEnd(message=AssistantMessage() as message):
                self._end_answer(message)
            case PermissionAsked():
                self._set_state(event.tool_call_id, event.tool_name, "asking")
            case PermissionAnswered(effect="allow"):
                self._set_state(event.tool_call_id, event.tool_name, "running")
            case RetryNotice():
                self._retry(event)
            case SystemNotice(content=content):
                self.notice(content)
            case CompactionStarted() | ContextCompacted():
                self._compaction(event)
            case ContextReplaced():
                self.notice("From here on, the model sees another history than this one.")
            case EscalationActivated():
                self.notice(describe_event(event))
            case PlanPhase() | EvidenceTaken() | ForkEvent():
                self.phases.on_event(event)
            case RepairStats():
                self._page.add(shown.DetailBlock(describe_event(event)))
            case AgentEnd():
                self._end(event)
            case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
                self._on_tool_event(event)

    def settle(self) -> None:
        """Draw the text that has come since the last time; called once for a batch of events."""
        self._answer.settle()
        self.phases.settle()

    @property
    def has_calls_running(self) -> bool:
        is_any = any(block.state == "running" for block in self._tools.values())
        return is_any or self.phases.has_calls_running

    @property
    def has_something_to_tick(self) -> bool:
        """Whether it shows anything that time alone changes."""
        waits = isinstance(self._activity, RetryBlock) and self._activity.is_waiting
        return waits or self.has_calls_running or self.phases.is_running

    def tick(self) -> None:
        """Update the times shown: of running calls, and of the wait before another try."""
        if isinstance(self._activity, RetryBlock) and self._activity.tick():
            self._page.touch(self._activity)
        for block in self._tools.values():
            if block.state == "running":
                block.changed()
                self._page.touch(block)
        self.phases.tick()

    # -- what dirge does by itself

    def _compaction(self, event: CompactionStarted | ContextCompacted) -> None:
        """Report a compaction in a run; between runs the command that asked for it does."""
        self._end_activity()
        if not self._is_in_run:
            return
        if isinstance(event, ContextCompacted):
            self.notice(describe_event(event))
            return
        self._activity = shown.NoticeBlock(describe_event(event))
        self._page.add(self._activity)

    def _end_activity(self) -> None:
        activity, self._activity = self._activity, None
        if isinstance(activity, RetryBlock):
            self._page.insert(activity, shown.DetailBlock(activity.text))
        if activity is not None:
            self._page.remove_block(activity)

    def _retry(self, event: RetryNotice) -> None:
        """Show another attempt at a model call: remove what the last one streamed, unless that
        had ended, which makes it history.
        """
        self._end_activity()
        if not event.delay_ms:
            self.notice(f"Try {event.attempt + 1}: {event.error}", tone="warning")
            return
        self._answer.withdraw()
        self._drop_calls_begun()
        delay_s = event.delay_ms / 1000
        self._activity = RetryBlock(event.attempt + 1, delay_s, event.error, clock=self._clock)
        self._page.add(self._activity)

    # -- answers

    def _update(self, event: MessageUpdate) -> None:
        self._end_activity()
        if event.phase.startswith("toolcall"):
            if event.tool_call_id and event.tool_name:
                self._tool(event.tool_call_id, event.tool_name, state_if_new="waiting")
            return
        self._answer.on_event(event)

    def _end_answer(self, message: AssistantMessage) -> None:
        answer, self._answer = self._answer, self._new_answer()
        if message.withheld or message.origin == "harness":
            answer.withdraw()
            self._words_of_dirge(message)
        else:
            answer.finish(message)
        self._drop_calls_begun({call.id for call in message.calls})
        self._note_empty_answer(message)

    def _drop_calls_begun(self, called: Collection[str] = ()) -> None:
        """Remove the calls that the model began and did not complete; none has run."""
        for call_id, block in list(self._tools.items()):
            if block.state == "waiting" and call_id not in called:
                self._page.remove_block(block)
                del self._tools[call_id]

    def _note_empty_answer(self, message: AssistantMessage) -> None:
        self._silence = describe_silent_answer(message)
        if self._silence:
            self.notice(self._silence, tone="warning")

    def _words_of_dirge(self, message: AssistantMessage) -> None:
        """Show a message of dirge that replaces an answer, or ends a run for the model."""
        if message.withheld:
            self.notice(f"The answer was withheld by {message.withheld}.", tone="warning")
        elif message.text.strip():
            self._page.add(shown.AsideBlock(message.text, source="from dirge", is_whole=True))

    def _stored_answer(self, message: AssistantMessage) -> None:
        if message.withheld or message.origin == "harness":
            self._words_of_dirge(message)
            return
        for block in message.content:
            if isinstance(block, ThinkingBlock) and block.text:
                self._page.add(
                    shown.ReasoningBlock(block.text, is_done=True, is_shown=self._show_thinking)
                )
            elif isinstance(block, TextBlock):
                for piece in pieces_of(block.text):
                    self._page.add(ProseBlock(piece))
            elif isinstance(block, ToolCallBlock):
                self._tool(block.id, block.name).set_call(block.name, block.arguments)
        self._note_empty_answer(message)

    # -- messages of the person and of dirge

    def _user(self, message: UserMessage, *, is_live: bool) -> None:
        sources = {"harness": "from dirge, to the model", "plugin": "from a plugin, to the model"}
        if message.origin in sources:
            self._page.add(shown.AsideBlock(message.text, source=sources[message.origin]))
            return
        typed = next((b.text for b in message.content if isinstance(b, TextBlock)), "")
        if message.origin == "shell":
            command, how, output = parse_shell_message(typed)
            self._page.add(ShellBlock(command, output, how=how))
            return
        ways = {"steering": "steered in", "follow_up": "queued"}
        label = ways.get(message.origin, "")
        if label and is_live:
            # Stored messages don't say in which turn of which run that was.
            label += f" → delivered at turn {self._turn}"
        self._page.add(shown.UserBlock(typed, label=label, attached=self._attached(message)))

    def _attached(self, message: UserMessage) -> Sequence[str]:
        """The names of what was attached; of pictures and documents, what they are."""
        attachments = attachments_in(message.content)
        about = {name: describe_attachment(item, self._assets) for name, item in attachments}
        names = [*message.attached, *(name for name in about if name not in message.attached)]
        return [f"{name or 'image'} · {about[name]}" if name in about else name for name in names]

    def _show_pictures(self, block: ToolBlock, content: Sequence[Any]) -> None:
        if attachments := attachments_in(content):
            about = [(name, describe_attachment(item, self._assets)) for name, item in attachments]
            block.show_pictures([" · ".join(filter(None, parts)) for parts in about])

    # -- tools

    def _tool(self, call_id: str, name: str, *, state_if_new: Any = "running") -> ToolBlock:
        block = self._tools.get(call_id)
        if block is None:
            block = ToolBlock(call_id, name, clock=self._clock, diff_layout=self._diff)
            block.state = state_if_new
            self._tools[call_id] = block
            self._page.add(block)
        return block

    def _set_state(self, call_id: str, name: str, state: Any) -> None:
        block = self._tool(call_id, name)
        block.set_state(state)
        self._page.touch(block)

    def _on_tool_event(
        self, event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd
    ) -> None:
        block = self._tool(event.tool_call_id, event.tool_name)
        match event:
            case ToolExecutionStart():
                block.set_call(event.tool_name, event.args)
                block.set_state("running")
            case ToolExecutionUpdate():
                block.show_progress(event.partial_result.text, event.partial_result.details)
            case ToolExecutionEnd(deferred=True):
                block.set_state("waiting")
            case ToolExecutionEnd():
                result = event.result
                block.finish(
                    result.text,
                    result.details,
                    is_error=event.is_error,
                    took_ms=event.duration_ms,
                )
                self._show_pictures(block, result.content)
        self._page.touch(block)

    def _end(self, event: AgentEnd) -> None:
        self.settle()
        for block in self._tools.values():
            if block.state in ("running", "asking"):
                block.set_state("aborted")
                self._page.touch(block)
        self._tools.clear()
        self._answer = self._new_answer()
        self._is_in_run = False
        self._end_activity()
        text, tone = describe_run_end(event)
        if text and text != self._silence:
            self.notice(text, tone=tone)
        self._silence = ""
        if words := self._tally.words:
            self._page.add(RunSummaryBlock(words))


PlanEvent = PlanPhase | EvidenceTaken | ForkEvent


class GroupedPage:
    """The part of a page that belongs to one phase."""

    def __init__(self, page: shown.BlockPage, group: PhaseBlock) -> None:
        self._page = page
        self._group = group

    def add(self, block: shown.TranscriptBlock) -> None:
        self._claim(block)
        self._page.add(block)

    def insert(self, before: shown.TranscriptBlock, block: shown.TranscriptBlock) -> None:
        self._claim(block)
        self._page.insert(before, block)

    def remove_block(self, block: shown.TranscriptBlock) -> None:
        self._page.remove_block(block)

    def touch(self, block: shown.TranscriptBlock) -> None:
        self._page.touch(block)

    def _claim(self, block: shown.TranscriptBlock) -> None:
        block.group = self._group
        if self._group.start_group():
            self._page.touch(self._group)


class PlanRenderer:
    """Draws the events of plans as blocks, live or as they were stored.

    `owner` draws everything else of the conversation; `clock` gives seconds.
    """

    def __init__(
        self, owner: TranscriptRenderer, page: shown.BlockPage, clock: Callable[[], float]
    ) -> None:
        self._owner = owner
        self._page = page
        self._clock = clock
        self._now: PhaseBlock | None = None
        self._fork: TranscriptRenderer | None = None
        self._evidence: EvidenceBlock | None = None
        self._early: list[EvidenceTaken] = []
        self.to_read: PhaseBlock | None = None
        """The heading of a plan that waits for a decision."""

    def on_event(self, event: PlanEvent) -> None:
        match event:
            case PlanPhase(state="started"):
                self._begin(event)
            case PlanPhase():
                self._end(event)
            case EvidenceTaken() if self._now is None:
                self._early.append(event)
            case EvidenceTaken(phase="implement"):
                # The call itself is shown above, with how it ended.
                words = "  ".join(evidence_words(event))
                self._page.add(shown.DetailBlock(f"evidence {words}"))
            case EvidenceTaken():
                self._list_evidence(event)
            case ForkEvent() if self._now is not None and self._fork is not None:
                inner = event.event
                if isinstance(inner, MessageEnd) and isinstance(inner.message, UserMessage):
                    # The prompt of a fork is dirge's own, not the person's.
                    inner = MessageEnd(replace(inner.message, origin="harness"))
                self._fork.on_event(inner)
                if self._now.on_event(event.event):
                    self._page.touch(self._now)

    def settle(self) -> None:
        if self._fork is not None:
            self._fork.settle()

    @property
    def is_running(self) -> bool:
        """Whether a phase is running, whose time is shown."""
        return self._now is not None

    @property
    def has_calls_running(self) -> bool:
        return self._fork is not None and self._fork.has_calls_running

    def tick(self) -> None:
        if self._now is not None:
            self._now.changed()
            self._page.touch(self._now)
        if self._fork is not None:
            self._fork.tick()

    def cut_off(self) -> None:
        """End the running phase: the plan was stopped, which no event reports."""
        if self._now is not None:
            self._now.cut_off()
            self._page.touch(self._now)
        self.to_read = None
        self._end_phase()

    # -- inside

    def _begin(self, event: PlanPhase) -> None:
        self.cut_off()
        self._now = PhaseBlock(event, self._clock)
        self._page.add(self._now)
        if event.phase != "implement":
            self._fork = self._owner.for_fork(GroupedPage(self._page, self._now))

    def _end(self, event: PlanPhase) -> None:
        block, was_live = self._now, self._fork is not None
        if block is None or (block.phase, block.step) != (event.phase, event.step):
            block = PhaseBlock(event, self._clock)
            self._page.add(block)
            self._show_early(event)
        self.settle()
        is_document = event.phase in ("plan", "review") and bool(event.text.strip())
        block.end(event, has_text_below=is_document and event.phase == "plan")
        self._page.touch(block)
        if is_document:
            for piece in pieces_of(event.text):
                self._page.add(PlanDocumentBlock(piece))
        elif event.text.strip() and not was_live:
            # Of a stored phase that is all there is; live, the fork's last words say it.
            below = GroupedPage(self._page, block)
            for piece in pieces_of(event.text):
                below.add(ProseBlock(piece))
        self._end_phase()
        self.to_read = block if event.phase == "plan" else None

    def _list_evidence(self, event: EvidenceTaken) -> None:
        if self._evidence is None:
            self._evidence = EvidenceBlock()
            self._page.add(self._evidence)
        self._evidence.add(event)
        self._page.touch(self._evidence)

    def _show_early(self, phase: PlanPhase) -> None:
        """Show stored evidence, which comes before the end of its phase, the only stored event."""
        early, self._early = self._early, []
        self._evidence = None
        for event in early:
            belongs = (event.phase, event.step) == (phase.phase, phase.step)
            if belongs and event.phase != "implement":
                self._list_evidence(event)

    def _end_phase(self) -> None:
        self._now = self._fork = self._evidence = None
