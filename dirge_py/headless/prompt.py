"""The prompt of `dirge -p`: words of the command line, and what was piped in behind them."""

from dataclasses import replace

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.messages import TextBlock, UserMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What was asked. Where there are words, only they name commands and attachments.

    What is piped in besides is material: an issue, a diff, somebody else's text.
    """

    words: str = ""
    piped: str = ""

    @property
    def typed(self) -> str:
        """The text that a person is taken to have written."""
        return self.words if self.words.strip() else self.piped


def with_piped(message: UserMessage, piped: str) -> UserMessage:
    """The message with what was piped behind its words, after a blank line."""
    first, *rest = message.content
    words = first.text if isinstance(first, TextBlock) else ""
    return replace(message, content=(TextBlock(f"{words}\n\n{piped}"), *rest))
