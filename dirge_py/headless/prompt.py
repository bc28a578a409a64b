"""The prompt of `dirge -p`: words of the command line, and what was piped in behind them."""

from dataclasses import replace

from dirge_py.conversation import Conversation
from dirge_py.errors import FileError, UsageError
from dirge_py.headless.printer import complain
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.messages import TextBlock, UserMessage
from dirge_py.slash.registry import Typed

_PLAN = "plan"


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

    @property
    def has_both(self) -> bool:
        return bool(self.words.strip() and self.piped.strip())

    def as_plan(self) -> "Prompt":
        """The same as a request for `/plan`; unchanged where it is one."""
        is_one = self.typed.split(None, 1)[:1] == [f"/{_PLAN}"]
        return self if is_one else replace(self, words=f"/{_PLAN} {self.words}".rstrip())

    def arguments(self, typed: Typed) -> str:
        """What the command gets that was typed: a plan gets the material with its request."""
        if typed.name != _PLAN or not self.has_both or len(typed.args.split()) == 1:
            return typed.args  # `/plan resume` is no request.
        return f"{typed.args}\n\n{self.piped}".strip()


async def message_of(conversation: Conversation, text: str, prompt: Prompt) -> UserMessage:
    """`text` with its attachments, and what was piped in behind it. Raises UsageError."""
    try:
        message = await conversation.attach(text)
    except FileError as error:
        raise UsageError(error.message, hint=error.hint) from error
    if prompt.has_both:
        message = with_piped(message, prompt.piped)
    if message.attached:
        complain(f"attached {', '.join(message.attached)}.")
    return message


def with_piped(message: UserMessage, piped: str) -> UserMessage:
    """The message with what was piped behind its words, after a blank line."""
    first, *rest = message.content
    words = first.text if isinstance(first, TextBlock) else ""
    return replace(message, content=(TextBlock(f"{words}\n\n{piped}"), *rest))
