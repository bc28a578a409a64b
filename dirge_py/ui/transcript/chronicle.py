"""From what happens to what is seen: loop events and stored messages become blocks of the page."""

import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from dirge_py.events import (
    AgentEnd,
    AgentStart,
    CompactionStarted,
    ContextCompacted,
    ContextReplaced,
    EscalationActivated,
    LoopEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    PermissionAnswered,
    PermissionAsked,
    RepairStats,
    RetryNotice,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnStart,
)
from dirge_py.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from dirge_py.slash.base import Tone
from dirge_py.talk.endings import words_for
from dirge_py.ui.transcript import blocks as shown
from dirge_py.ui.transcript.answer import Answer
from dirge_py.ui.transcript.flow import Flow, Piece
from dirge_py.ui.transcript.prose import ProseBlock
from dirge_py.ui.transcript.tool_block import ToolBlock

_LONG_ANSWER = 20_000
"""Characters from which a stored answer is cut into pieces, so that no one drawing takes long."""


class Page(Protocol):
    """Where blocks go: the transcript's widget, or a `Layout` in a test."""

    def add(self, block: shown.Block) -> None: ...
    def insert(self, before: shown.Block, block: shown.Block) -> None: ...
    def remove_block(self, block: shown.Block) -> None: ...
    def touch(self, block: shown.Block) -> None: ...


class Chronicle:
    """Writes one conversation onto one page."""

    def __init__(
        self,
        page: Page,
        *,
        show_thinking: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._page = page
        self._show_thinking = show_thinking
        self._clock = clock
        self._answer: Answer | None = None
        self._tools: dict[str, ToolBlock] = {}
        self._turn = 0
        self._is_in_run = False
        self._activity: shown.Block | None = None

    def notice(self, text: str, *, tone: Tone = "plain") -> None:
        self._page.add(shown.NoticeBlock(text, tone=tone))

    def tell(self, messages: Iterable[Message]) -> None:
        """Write stored messages, as they would have come live."""
        for message in messages:
            match message:
                case UserMessage():
                    self._user(message, is_live=False)
                case AssistantMessage():
                    self._stored_answer(message)
                case ToolResultMessage():
                    self._tool(message.tool_call_id, message.tool_name).finish(
                        message.text, message.details, is_error=message.is_error, took_ms=0
                    )
                    self._touch_tool(message.tool_call_id)
        self._tools.clear()

    def hear(self, event: LoopEvent) -> None:
        """Write what an event says. Events that change nothing to be seen are passed over."""
        match event:
            case AgentStart():
                self._is_in_run = True
            case TurnStart(turn=turn):
                self._turn = turn
            case MessageStart(message=AssistantMessage()):
                self._end_activity()
                self._answer = Answer(self._page, show_thinking=self._show_thinking)
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
                wait = f" in {event.delay_ms / 1000:.0f} s" if event.delay_ms else ""
                self.notice(f"Try {event.attempt + 1}{wait}: {event.error}", tone="warning")
            case SystemNotice(content=content):
                self.notice(content)
            case CompactionStarted() | ContextCompacted():
                self._compaction(event)
            case ContextReplaced():
                self.notice("From here on the model is shown another history than this one.")
            case EscalationActivated():
                self.notice(event.message)
            case RepairStats():
                self._page.add(shown.DetailBlock(event.message))
            case AgentEnd():
                self._end(event)
            case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
                self._hear_tool(event)

    def settle(self) -> None:
        """Draw the text heard since the last time; called once for a batch of events."""
        if self._answer is not None:
            self._answer.settle()

    @property
    def has_calls_running(self) -> bool:
        return any(block.state == "running" for block in self._tools.values())

    def tick(self) -> None:
        """Time has gone by, which is seen of calls that run."""
        for block in self._tools.values():
            if block.state == "running":
                block.changed()
                self._page.touch(block)

    # -- what dirge does by itself

    def _compaction(self, event: CompactionStarted | ContextCompacted) -> None:
        """Tell of a compaction in a run. Between runs it was asked for, and its answer tells."""
        self._end_activity()
        if not self._is_in_run:
            return
        if isinstance(event, ContextCompacted):
            self.notice(event.message)
            return
        self._activity = shown.NoticeBlock(event.message)
        self._page.add(self._activity)

    def _end_activity(self) -> None:
        if self._activity is not None:
            self._page.remove_block(self._activity)
            self._activity = None

    # -- answers

    def _update(self, event: MessageUpdate) -> None:
        if self._answer is None:
            self._answer = Answer(self._page, show_thinking=self._show_thinking)
        if event.phase.startswith("toolcall"):
            if event.tool_call_id and event.tool_name:
                self._tool(event.tool_call_id, event.tool_name, state_if_new="waiting")
            return
        self._answer.hear(event)

    def _end_answer(self, message: AssistantMessage) -> None:
        answer = self._answer or Answer(self._page, show_thinking=self._show_thinking)
        self._answer = None
        if message.withheld or message.origin == "harness":
            answer.withdraw()
            self._words_of_dirge(message)
        else:
            answer.finish(message)
        called = {call.id for call in message.calls}
        for call_id, block in list(self._tools.items()):
            # The model began a call that did not come to be; it never ran.
            if block.state == "waiting" and call_id not in called:
                self._page.remove_block(block)
                del self._tools[call_id]

    def _words_of_dirge(self, message: AssistantMessage) -> None:
        """What stands in the place of an answer, or ends a run that the model did not end."""
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
                    shown.ThinkingBlock(block.text, is_done=True, is_shown=self._show_thinking)
                )
            elif isinstance(block, TextBlock):
                for piece in _pieces(block.text):
                    self._page.add(ProseBlock(piece))
            elif isinstance(block, ToolCallBlock):
                self._tool(block.id, block.name).set_call(block.name, block.arguments)

    def _user(self, message: UserMessage, *, is_live: bool) -> None:
        sources = {"harness": "from dirge, to the model", "plugin": "from a plugin, to the model"}
        if message.origin in sources:
            self._page.add(shown.AsideBlock(message.text, source=sources[message.origin]))
            return
        labels = {
            "steering": "steered in" + (f", delivered at turn {self._turn}" if is_live else ""),
            "follow_up": "queued, delivered when the agent was done",
        }
        typed = next((b.text for b in message.content if isinstance(b, TextBlock)), "")
        label = labels.get(message.origin, "")
        self._page.add(shown.UserBlock(typed, label=label, attached=message.attached))

    # -- tools

    def _tool(self, call_id: str, name: str, *, state_if_new: Any = "running") -> ToolBlock:
        block = self._tools.get(call_id)
        if block is None:
            block = ToolBlock(call_id, name, clock=self._clock)
            block.state = state_if_new
            self._tools[call_id] = block
            self._page.add(block)
        return block

    def _touch_tool(self, call_id: str) -> None:
        self._page.touch(self._tools[call_id])

    def _set_state(self, call_id: str, name: str, state: Any) -> None:
        self._tool(call_id, name).set_state(state)
        self._touch_tool(call_id)

    def _hear_tool(
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
        self._touch_tool(event.tool_call_id)

    def _end(self, event: AgentEnd) -> None:
        for call_id, block in self._tools.items():
            if block.state in ("running", "asking"):
                block.set_state("aborted")
                self._touch_tool(call_id)
        self._tools.clear()
        self._answer = None
        self._is_in_run = False
        self._end_activity()
        text, tone = words_for(event)
        if text:
            self.notice(text, tone=tone)


def _pieces(text: str) -> list[Piece]:
    """A stored answer; a usual one is one piece, which is not parsed before it is seen."""
    if len(text) < _LONG_ANSWER:
        return [Piece(text)]
    flow = Flow()
    return [*flow.feed(text), *flow.close()]
