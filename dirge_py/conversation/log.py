"""The messages of a conversation, and their totals."""

from collections.abc import Sequence
from typing import Protocol

from dirge_py.agent_loop.history import is_turn
from dirge_py.types.events import (
    ContextReplaced,
    HistoryMoved,
    LoopEvent,
    MessageEnd,
    UsageReported,
)
from dirge_py.types.messages import AssistantMessage, Message, Usage, UserMessage


class CountedRun(Protocol):
    """The totals of a run."""

    usage: Usage
    cost_usd: float | None

    def count(self, message: Message) -> None: ...


class ConversationLog:
    """Messages, tokens and cost, updated by events of runs and from outside of them."""

    def __init__(self, messages: Sequence[Message], usage: Usage, cost_usd: float | None) -> None:
        self.messages: list[Message] = list(messages)
        self.usage = usage
        self.cost_usd = cost_usd
        """None as soon as one price is unknown, since any figure would be too low."""
        self.least_usd = cost_usd or 0.0
        """The sum of the known costs."""
        self.context_tokens = _last_context_tokens(messages)
        """The size of the last model call."""
        self.idle_requests = 0
        """The number of answers that nothing asked for: there should be none."""
        self.reported: list[UsageReported] = []
        """Every usage report since the start."""

    def record(self, event: LoopEvent, run: CountedRun | None, *, is_idle: bool = False) -> None:
        """Count the event, also for its run; None: it belongs to no run."""
        match event:
            case MessageEnd(message):
                self._add(message, run)
            case ContextReplaced(messages=messages):
                self.messages = list(messages)
            case HistoryMoved(messages=messages):
                self.messages = list(messages)
                self.context_tokens = _last_context_tokens(messages)
            case UsageReported(usage=usage, cost_usd=cost_usd):
                self.reported.append(event)
                self.usage += usage
                self.cost_usd = _sum(self.cost_usd, cost_usd)
                self.least_usd += cost_usd or 0.0
                self.idle_requests += is_idle
                if run is not None:
                    run.usage += usage
                    run.cost_usd = _sum(run.cost_usd, cost_usd)

    def since_prompt(self) -> tuple[int, Usage]:
        """Return the turns since the last prompt that opened a run."""
        turns, usage = 0, Usage()
        for message in reversed(self.messages):
            if isinstance(message, UserMessage) and message.origin == "user":
                break
            if isinstance(message, AssistantMessage):
                turns += is_turn(message)
                usage += message.usage or Usage()
        return turns, usage

    def _add(self, message: Message, run: CountedRun | None) -> None:
        self.messages.append(message)
        if run is not None:
            run.count(message)
        if not isinstance(message, AssistantMessage) or message.origin != "model":
            return
        if message.usage:
            self.context_tokens = message.usage.total
        elif message.content:
            # It cost something, and the service did not say how much.
            self.cost_usd = None


def _sum(total: float | None, cost: float | None) -> float | None:
    return None if total is None or cost is None else total + cost


def _last_context_tokens(messages: Sequence[Message]) -> int:
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and message.usage:
            return message.usage.total
    return 0
