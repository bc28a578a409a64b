"""What the model is told again and again: in a request only, never in history."""

from collections.abc import Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import Message, user_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReminderRule:
    """`text` is due in every n-th turn, or in every turn from so many tokens of context on."""

    text: str
    every_turns: int | None = None
    at_tokens: int | None = None

    def is_due(self, turn: int, tokens: int) -> bool:
        """Whether it is told in this turn, counted from 1, with a context of this size."""
        if self.every_turns is not None and turn > 0 and turn % self.every_turns == 0:
            return True
        return self.at_tokens is not None and tokens >= self.at_tokens


def reminded(
    messages: Sequence[Message], rules: Sequence[ReminderRule], *, turn: int, tokens: int
) -> Sequence[Message]:
    """The messages and, behind them, what is due; the same object when nothing is.

    Behind and not in the system prompt: what is cached of the request stays good.
    """
    due = [rule.text for rule in rules if rule.is_due(turn, tokens)]
    if not due:
        return messages
    return (*messages, user_text("\n\n".join(["[Reminder]", *due]), origin="harness"))
