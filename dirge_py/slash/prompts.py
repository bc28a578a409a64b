"""`/prompt`: prompts of one's own, kept in files, and the one in use."""

from typing import TYPE_CHECKING

from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.context.prompts import PromptBook
    from dirge_py.conversation.conversation import Conversation

_NONE = "none"


async def prompt(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    book = conversation.settings.prompts
    if book is None or not book.names:
        raise UsageError(
            "There are no prompts.",
            hint="Write one into `prompts/<name>.md` beside your config.toml.",
        )
    name: str | None = args
    if not args:
        name = await front.pick("Prompt", _choices(book), current=_current(book))
    if name is None:
        return
    chosen = book.choose(None if name == _NONE else name)
    if chosen is None:
        front.show("No prompt is in use from the next run on.", tone="good")
        return
    denied = f" It denies {', '.join(chosen.deny_tools)}." if chosen.deny_tools else ""
    front.show(f"The prompt {chosen.name} is in use from the next run on.{denied}", tone="good")


def _choices(book: "PromptBook") -> list[Choice]:
    named = [Choice(id=name, label=name, detail=book.describe(name)) for name in book.names]
    return [*named, Choice(id=_NONE, label=_NONE, detail="use no prompt")]


def _current(book: "PromptBook") -> str:
    return book.current.name if book.current is not None else _NONE


def known(conversation: "Conversation") -> list[str]:
    book = conversation.settings.prompts
    return [*book.names, _NONE] if book is not None else []


COMMANDS = (
    Command(
        name="prompt",
        summary="use a prompt of yours, with the tools it denies",
        usage="[NAME|none]",
        run=prompt,
        while_running="no",
        complete=known,
    ),
)
