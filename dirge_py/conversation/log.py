"""The messages of a conversation, and their totals."""

from collections.abc import Sequence

from dirge_py.agent_loop.history import is_turn
from dirge_py.types.events import (
    ContextReplaced,
    HistoryMoved,
    LoopEvent,
    MessageEnd,
    UsageReported,
)
from dirge_py.types.messages import AssistantMessage, Message, Usage, UserMessage


class ConversationLog:
    """Messages, tokens and cost, updated by events of runs and from outside of them."""

    def __init__(
        self,
        messages: Sequence[Message],
        usage: Usage,
        cost_usd: float | None,
        least_usd: float = 0.0,
    ) -> None:
        self.messages: list[Message] = list(messages)
        self.usage = usage
        self.cost_usd = cost_usd
        """None as soon as one price is unknown, since any figure would be too low."""
        self.least_usd = cost_usd or least_usd
        """The sum of the known costs."""
        self.context_tokens = _last_context_tokens(messages)
        """The size of the last model call."""
        self.idle_requests = 0
        """The number of answers that nothing asked for: there should be none."""
        self.reported: list[UsageReported] = []
        """Every usage report since the start."""

    def record(self, event: LoopEvent, *, is_idle: bool = False) -> None:
        """Count the event; `is_idle`: nothing asked for it."""
        match event:
            case MessageEnd(message):
                self.messages.append(message)
                if isinstance(message, AssistantMessage) and message.usage:
                    self.context_tokens = message.usage.total
                elif has_unknown_usage(message):
                    self.cost_usd = None
            case ContextReplaced(messages=messages):
                self.messages = list(messages)
            case HistoryMoved(messages=messages):
                self.messages = list(messages)
                self.context_tokens = _last_context_tokens(messages)
            case UsageReported(usage=usage, cost_usd=cost_usd):
                self.reported.append(event)
                self.usage += usage
                self.cost_usd = add_cost(self.cost_usd, cost_usd)
                self.least_usd += cost_usd or 0.0
                self.idle_requests += is_idle

    def since_prompt(self) -> tuple[int, Usage]:
        """Return the turns since the last prompt that opened a run."""
        messages = self.messages_since_prompt()
        answers = [message for message in messages if isinstance(message, AssistantMessage)]
        usage = sum((answer.usage or Usage() for answer in answers), Usage())
        return sum(map(is_turn, answers)), usage

    def messages_since_prompt(self) -> Sequence[Message]:
        """Return the last prompt that opened a run and the messages after it; all without one."""
        for index in reversed(range(len(self.messages))):
            message = self.messages[index]
            if isinstance(message, UserMessage) and message.origin == "user":
                return tuple(self.messages[index:])
        return tuple(self.messages)


def has_unknown_usage(message: Message) -> bool:
    """Whether a model wrote the message and its service did not report the tokens."""
    if not isinstance(message, AssistantMessage) or message.origin != "model":
        return False
    return bool(message.content) and not message.usage


def add_cost(total: float | None, cost: float | None) -> float | None:
    return None if total is None or cost is None else total + cost


def _last_context_tokens(messages: Sequence[Message]) -> int:
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) and message.usage:
            return message.usage.total
    return 0
