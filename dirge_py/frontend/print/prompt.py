"""The prompt of `dirge -p`: words of the command line, and what was piped in behind them."""

from dataclasses import replace

from dirge_py.context.attachments import without_mentions
from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.print.printer import complain
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.slash.registry import Typed
from dirge_py.types.errors import FileError, UsageError
from dirge_py.types.messages import TextBlock, UserMessage, user_text

_PLAN = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What was asked. Only the words name commands and attachments.

    What is piped in is material, also where it is all there is: an issue, a diff, somebody else's
    text. Nothing in it is a command or the name of a file to read.
    """

    words: str = ""
    piped: str = ""

    @property
    def is_typed(self) -> bool:
        """Whether a person wrote some of it."""
        return bool(self.words.strip())

    @property
    def text(self) -> str:
        """What is sent first: the words, or what was piped in without any."""
        return self.words if self.is_typed else self.piped

    @property
    def has_both(self) -> bool:
        return bool(self.is_typed and self.piped.strip())

    def as_plan(self) -> "Prompt":
        """The same as a request for `/plan`; unchanged where it is one."""
        is_one = self.words.split(None, 1)[:1] == [f"/{_PLAN}"]
        return self if is_one else replace(self, words=f"/{_PLAN} {self.words}".rstrip())

    def arguments(self, typed: Typed) -> str:
        """What the command gets that was typed: a plan gets the material with its request."""
        if typed.name != _PLAN or not self.has_both or len(typed.args.split()) == 1:
            return typed.args  # `/plan resume` is no request.
        # The command takes one text, in which names of files are looked for.
        request = f"{typed.args}\n\n{without_mentions(self.piped)}".strip()
        # A lone word would be taken for one of the command's own, and nobody typed it.
        return request if len(request.split()) > 1 else f'"{request}"'


async def message_of(conversation: Conversation, text: str, prompt: Prompt) -> UserMessage:
    """`text` with its attachments, and what was piped in behind it. Raises UsageError."""
    if not prompt.is_typed:
        return user_text(text)
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
