"""Renders loop events and stored messages as blocks of the transcript."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dirge_py.conversation.log import ConversationLog
from dirge_py.frontend import event_text
from dirge_py.frontend.replay import replay_messages
from dirge_py.lib.text import plural
from dirge_py.session.history import PlanRecordEvent
from dirge_py.slash.base import Tone
from dirge_py.types import events
from dirge_py.types.events import EvidenceTaken, ForkEvent, LoopEvent, PlanPhase
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from dirge_py.types.outcomes import Cancelled
from dirge_py.types.tools import LoopToolResult
from dirge_py.ui.transcript import blocks as shown
from dirge_py.ui.transcript import plan_blocks
from dirge_py.ui.transcript.diff import DiffLayout, diff_blocks
from dirge_py.ui.transcript.images import attachments_in, describe_attachment
from dirge_py.ui.transcript.prose import ProseBlock, StreamedAnswer, pieces_of
from dirge_py.ui.transcript.tool_block import LookupPage, ToolBlock

ToolEvent = events.ToolExecutionStart | events.ToolExecutionUpdate | events.ToolExecutionEnd


_SUMMARY_FROM_TURNS = 2
_SUMMARY_FROM_S = 5
"""A run with fewer turns and less time than these gets no summary."""


class RunSummary:
    """Counts the turns, tokens and cost of a run, one run after another."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start_run()

    def _start_run(self) -> None:
        self._began, self._turns = self._clock(), 0
        self._log = ConversationLog((), Usage(), 0.0)

    def on_event(self, event: LoopEvent) -> None:
        if isinstance(event, events.AgentStart):
            self._start_run()
        elif isinstance(event, events.MessageEnd):
            self._turns += event.message.role == "assistant" and event.message.origin == "model"
        self._log.record(event)

    @property
    def words(self) -> str:
        """`3 turns · 12.3k in (80% cached) · 1.2k out · $0.0123 · 14 s`; empty for a short run."""
        took_s = self._clock() - self._began
        if self._turns < _SUMMARY_FROM_TURNS and took_s < _SUMMARY_FROM_S:
            return ""
        spent = shown.spent_text(self._log.usage, self._log.cost_usd, self._log.least_usd)
        parts = (plural(self._turns, "turn"), *spent, shown.duration_text(took_s))
        return " · ".join(part for part in parts if part)


class TranscriptRenderer:
    """Draws one conversation as blocks on a page; `assets` is the folder of its pictures."""

    def __init__(
        self,
        page: shown.BlockPage,
        *,
        show_thinking: bool = False,
        clock: Callable[[], float] = time.monotonic,
        diff: DiffLayout = "auto",
        assets: Path | None = None,
    ) -> None:
        page = LookupPage(page)
        self._page, self._show_thinking, self._clock = page, show_thinking, clock
        self._diff, self._assets = diff, assets
        self._tally = RunSummary(clock)
        self._answer = StreamedAnswer(page, show_thinking=show_thinking)
        self._tools: dict[str, ToolBlock] = {}
        self._turn = 0
        self._is_in_run = False
        self._activity: shown.TranscriptBlock | None = None
        self._retried = ""  # The error of the last attempt, until an answer begins.
        self.phases = PlanRenderer(self, page, clock)
        """Draws the events of plans."""

    def for_fork(self, page: shown.BlockPage) -> "TranscriptRenderer":
        """Return a renderer with the same settings for the events of a fork."""
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
        """Show or hide the model's thinking from the next answer on."""
        self._show_thinking = is_shown

    def notice(self, text: str, *, tone: Tone = "plain") -> None:
        self._page.add(shown.NoticeBlock(text, tone=tone))

    def diff(self, text: str) -> None:
        for block in diff_blocks(text, self._diff):
            self._page.add(block)

    def replay(
        self, messages: Iterable[Message], besides: Sequence[tuple[int, PlanRecordEvent]] = ()
    ) -> None:
        """Draw stored messages as if they were new; for `besides` see `replay_messages`."""
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
                self._finish_call(block, message, is_error=message.is_error, took_ms=0)

    def on_event(self, event: LoopEvent) -> None:
        """Draw an event; events that change nothing visible are ignored."""
        self._tally.on_event(event)
        match event:
            case events.AgentStart():
                self._is_in_run = True
            case events.TurnStart(turn=turn):
                self._turn = turn
            case events.MessageStart(message=AssistantMessage()):
                self._end_activity()
                self._answer = self._new_answer()
            case events.MessageUpdate():
                self._update(event)
            case events.MessageEnd(message=UserMessage() as message):
                self._user(message, is_live=True)
            case events.MessageEnd(message=AssistantMessage() as message):
                self._end_answer(message)
            case events.PermissionAsked():
                self._set_state(event.tool_call_id, event.tool_name, "asking")
            case events.PermissionAnswered(effect="allow"):
                self._set_state(event.tool_call_id, event.tool_name, "running")
            case events.RetryNotice():
                self._retry(event)
            case events.SystemNotice(content=content):
                self.notice(content)
            case events.CompactionStarted() | events.ContextCompacted():
                self._compaction(event)
            case events.ContextReplaced():
                self.notice("From here on, the model sees a different history.")
            case events.EscalationActivated():
                self.notice(event_text.describe_event(event))
            case PlanPhase() | EvidenceTaken() | ForkEvent():
                self.phases.on_event(event)
            case events.RepairStats():
                self._page.add(shown.DetailBlock(event_text.describe_event(event)))
            case events.AgentEnd():
                self._end(event)
            case _ if isinstance(event, ToolEvent):
                self._on_tool_event(event)

    def settle(self) -> None:
        """Draw the text of a batch of events."""
        self._answer.settle()
        self.phases.settle()

    @property
    def has_calls_running(self) -> bool:
        states = (block.state for block in self._tools.values())
        return "running" in states or self.phases.has_calls_running

    @property
    def has_something_to_tick(self) -> bool:
        waits = isinstance(self._activity, shown.RetryBlock) and self._activity.is_waiting
        return waits or self.has_calls_running or self.phases.is_running

    def tick(self) -> None:
        if isinstance(self._activity, shown.RetryBlock) and self._activity.tick():
            self._page.touch(self._activity)
        for block in self._tools.values():
            if block.state == "running":
                block.changed()
                self._page.touch(block)
        self.phases.tick()

    def _compaction(self, event: events.CompactionStarted | events.ContextCompacted) -> None:
        """Report a compaction in a run; between runs its command does that."""
        self._end_activity()
        if self._is_in_run:
            notice = shown.NoticeBlock(event_text.describe_event(event))
            self._activity = notice if isinstance(event, events.CompactionStarted) else None
            self._page.add(notice)

    def _end_activity(self) -> None:
        activity, self._activity = self._activity, None
        if isinstance(activity, shown.RetryBlock):
            self._page.insert(activity, shown.DetailBlock(activity.text))
        if activity is not None:
            self._page.remove_block(activity)

    def _retry(self, event: events.RetryNotice) -> None:
        self._end_activity()
        self._answer.withdraw()
        self._drop_calls_begun()
        self._retried = event.error
        delay_s, attempt = event.delay_ms / 1000, event.attempt + 1
        self._activity = shown.RetryBlock(attempt, delay_s, event.error, clock=self._clock)
        self._page.add(self._activity)

    def _update(self, event: events.MessageUpdate) -> None:
        self._end_activity()
        self._retried = ""
        if not event.phase.startswith("toolcall"):
            self._answer.on_event(event)
        elif event.tool_call_id and event.tool_name:
            self._tool(event.tool_call_id, event.tool_name, state_if_new="waiting")

    def _end_answer(self, message: AssistantMessage) -> None:
        answer, self._answer = self._answer, self._new_answer()
        if _is_from_dirge(message):
            answer.withdraw()
            self._words_of_dirge(message)
        else:
            answer.finish(message)
        for call in message.calls:
            # Calls that wait for others of their batch show what they will do.
            if (block := self._tools.get(call.id)) and block.state == "waiting":
                block.set_call(call.name, call.arguments)
                self._page.touch(block)
        self._drop_calls_begun({call.id for call in message.calls})

    def _drop_calls_begun(self, called: Collection[str] = ()) -> None:
        for call_id, block in list(self._tools.items()):
            if block.state == "waiting" and call_id not in called:
                self._page.remove_block(block)
                del self._tools[call_id]

    def _words_of_dirge(self, message: AssistantMessage) -> None:
        if message.withheld:
            self.notice(f"The answer was withheld by {message.withheld}.", tone="warning")
        elif message.text.strip():
            self._page.add(shown.AsideBlock(message.text, source="from dirge", is_whole=True))

    def _stored_answer(self, message: AssistantMessage) -> None:
        if _is_from_dirge(message):
            self._words_of_dirge(message)
            return
        for block in message.content:
            if isinstance(block, ThinkingBlock) and block.text:
                is_shown = self._show_thinking
                self._page.add(shown.ReasoningBlock(block.text, is_done=True, is_shown=is_shown))
            elif isinstance(block, TextBlock):
                for piece in pieces_of(block.text):
                    self._page.add(ProseBlock(piece))
            elif isinstance(block, ToolCallBlock):
                self._tool(block.id, block.name).set_call(block.name, block.arguments)
        # In a run, its end says so, or dirge asks again.
        if text := event_text.describe_silent_answer(message):
            self.notice(text, tone="warning")

    def _user(self, message: UserMessage, *, is_live: bool) -> None:
        sources = {"harness": "from dirge, to the model", "plugin": "from a plugin, to the model"}
        if message.origin in sources:
            self._page.add(shown.AsideBlock(message.text, source=sources[message.origin]))
            return
        typed = next((b.text for b in message.content if isinstance(b, TextBlock)), "")
        if message.origin == "shell":
            command, how, output = event_text.parse_shell_message(typed)
            self._page.add(shown.ShellBlock(command, output, how=how))
            return
        label = {"steering": "steered in", "follow_up": "queued"}.get(message.origin, "")
        if label and is_live:
            # Stored messages don't have the turn.
            label += f" → delivered at turn {self._turn}"
        self._page.add(shown.UserBlock(typed, label=label, attached=self._attached(message)))

    def _attached(self, message: UserMessage) -> Sequence[str]:
        attachments = attachments_in(message.content)
        about = {name: describe_attachment(item, self._assets) for name, item in attachments}
        names = [*message.attached, *(name for name in about if name not in message.attached)]
        return [f"{name or 'image'} · {about[name]}" if name in about else name for name in names]

    def _finish_call(
        self, block: ToolBlock, result: ToolResultMessage | LoopToolResult, **ending: Any
    ) -> None:
        block.finish(result.text, result.details, **ending)
        if attachments := attachments_in(result.content):
            about = [(name, describe_attachment(item, self._assets)) for name, item in attachments]
            block.show_pictures([" · ".join(filter(None, parts)) for parts in about])
        self._page.touch(block)

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

    def _on_tool_event(self, event: ToolEvent) -> None:
        block = self._tool(event.tool_call_id, event.tool_name)
        match event:
            case events.ToolExecutionStart():
                block.set_call(event.tool_name, event.args)
                block.set_state("running")
            case events.ToolExecutionUpdate():
                block.show_progress(event.partial_result)
            case events.ToolExecutionEnd(deferred=True):
                block.set_state("waiting")
            case events.ToolExecutionEnd():
                ending = {"is_error": event.is_error, "took_ms": event.duration_ms}
                self._finish_call(block, event.result, **ending)
        self._page.touch(block)

    def _end(self, event: events.AgentEnd) -> None:
        self.settle()
        for block in self._tools.values():
            if block.state in ("running", "asking"):
                block.set_state("aborted")
                self._page.touch(block)
        self._tools.clear()
        self._answer = self._new_answer()
        self._is_in_run = False
        self._end_activity()
        if self._retried and isinstance(event.outcome, Cancelled):
            self.notice(f"The last attempt failed: {self._retried}", tone="warning")
        self._retried = ""
        text, tone = event_text.describe_run_end(event)
        if text:
            self.notice(text, tone=tone)
        if words := self._tally.words:
            self._page.add(shown.RunSummaryBlock(words))


def _is_from_dirge(message: AssistantMessage) -> bool:
    return bool(message.withheld) or message.origin == "harness"


PlanEvent = PlanPhase | EvidenceTaken | ForkEvent


class GroupedPage:
    """The part of a page that belongs to one phase."""

    def __init__(self, page: shown.BlockPage, group: plan_blocks.PhaseBlock) -> None:
        self._page = page
        self._group = group
        self.remove_block, self.touch = page.remove_block, page.touch

    def add(self, block: shown.TranscriptBlock) -> None:
        self._claim(block)
        self._page.add(block)

    def insert(self, before: shown.TranscriptBlock, block: shown.TranscriptBlock) -> None:
        self._claim(block)
        self._page.insert(before, block)

    def _claim(self, block: shown.TranscriptBlock) -> None:
        block.group = self._group
        if self._group.start_group():
            self._page.touch(self._group)


class PlanRenderer:
    """Draws the live or stored events of plans; `owner` draws the rest of the conversation."""

    def __init__(
        self, owner: TranscriptRenderer, page: shown.BlockPage, clock: Callable[[], float]
    ) -> None:
        self._owner, self._page, self._clock = owner, page, clock
        self._now: plan_blocks.PhaseBlock | None = None
        self._fork: TranscriptRenderer | None = None
        self._evidence: plan_blocks.EvidenceBlock | None = None
        self._early: list[EvidenceTaken] = []
        self.to_read: plan_blocks.PhaseBlock | None = None
        """The heading of a plan that waits for a decision."""

    def on_event(self, event: PlanEvent) -> None:
        match event:
            case PlanPhase(state="started"):
                self.cut_off()
                self._now = plan_blocks.PhaseBlock(event, self._clock)
                self._page.add(self._now)
                if event.phase != "implement":
                    self._fork = self._owner.for_fork(GroupedPage(self._page, self._now))
            case PlanPhase():
                self._end(event)
            case EvidenceTaken() if self._now is None:
                self._early.append(event)
            case EvidenceTaken(phase="implement"):
                # The block of the call shows how it ended.
                words = "  ".join(plan_blocks.evidence_words(event))
                self._page.add(shown.DetailBlock(f"evidence {words}"))
            case EvidenceTaken():
                self._list_evidence(event)
            case ForkEvent() if self._now is not None and self._fork is not None:
                inner = event.event
                if isinstance(inner, events.MessageEnd) and isinstance(inner.message, UserMessage):
                    # dirge wrote the prompt of a fork.
                    inner = events.MessageEnd(replace(inner.message, origin="harness"))
                self._fork.on_event(inner)
                if self._now.on_event(event.event):
                    self._page.touch(self._now)

    def settle(self) -> None:
        if self._fork is not None:
            self._fork.settle()

    @property
    def is_running(self) -> bool:
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
        """End the running phase, as the plan was stopped without an event."""
        if self._now is not None:
            self._now.cut_off()
            self._page.touch(self._now)
        self.to_read = None
        self._end_phase()

    def _end(self, event: PlanPhase) -> None:
        block, was_live = self._now, self._fork is not None
        if block is None or (block.phase, block.step) != (event.phase, event.step):
            block = plan_blocks.PhaseBlock(event, self._clock)
            self._page.add(block)
            self._show_early(event)
        self.settle()
        is_document = event.phase in ("plan", "review") and bool(event.text.strip())
        block.end(event, has_text_below=is_document and event.phase == "plan")
        self._page.touch(block)
        if is_document:
            for piece in pieces_of(event.text):
                self._page.add(plan_blocks.PlanDocumentBlock(piece))
        elif event.text.strip() and not was_live:
            # Of a live phase, the last answer of its fork has this text.
            below = GroupedPage(self._page, block)
            for piece in pieces_of(event.text):
                below.add(ProseBlock(piece))
        self._end_phase()
        self.to_read = block if event.phase == "plan" else None

    def _list_evidence(self, event: EvidenceTaken) -> None:
        if self._evidence is None:
            self._evidence = plan_blocks.EvidenceBlock()
            self._page.add(self._evidence)
        self._evidence.add(event)
        self._page.touch(self._evidence)

    def _show_early(self, phase: PlanPhase) -> None:
        """Show the stored evidence of a phase, which is stored in front of the phase."""
        early, self._early = self._early, []
        self._evidence = None
        for event in early:
            belongs = (event.phase, event.step) == (phase.phase, phase.step)
            if belongs and event.phase != "implement":
                self._list_evidence(event)

    def _end_phase(self) -> None:
        self._now = self._fork = self._evidence = None
