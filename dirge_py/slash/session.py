"""`/clear` and `/sessions`: beginning anew, and going back."""

from typing import TYPE_CHECKING

from dirge_py.contributions import Command
from dirge_py.slash.base import Choice, FrontEnd

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation

_MOST_SHOWN = 50


async def clear(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    left = conversation.session_id
    await front.open(None)
    if left:
        front.show(f"A new session. The one before: dirge -r {left}", tone="good")


async def sessions(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    stored = list(conversation.sessions())
    if args and any(_begins(one.id, args) for one in stored):
        chosen: str | None = args
    else:
        words = args.lower().split()
        found = [one for one in stored if all(word in one.title.lower() for word in words)]
        if not found:
            about = f" whose title has {args!r}" if args else ""
            front.show(f"There are no stored sessions of this project{about}.")
            return
        choices = [
            Choice(
                id=one.id, label=one.title or one.id, detail=f"{one.messages} messages, {one.id}"
            )
            for one in found[:_MOST_SHOWN]
        ]
        chosen = await front.pick("Session", choices, current=conversation.session_id or "")
    if chosen is not None and chosen != conversation.session_id:
        await front.open(chosen)


def _begins(session_id: str, typed: str) -> bool:
    """Whether it begins so, or what follows its date does."""
    return session_id.startswith(typed) or session_id.partition("-")[2].startswith(typed)


def known(conversation: "Conversation") -> list[str]:
    return [summary.id for summary in conversation.sessions()]


COMMANDS = (
    Command(
        name="clear",
        summary="begin a new session; this one is kept",
        run=clear,
        aliases=("new", "reset"),
        while_running="no",
    ),
    Command(
        name="sessions",
        summary="go on in another session of this project",
        usage="[ID | WORDS]",
        run=sessions,
        aliases=("resume",),
        while_running="no",
        complete=known,
    ),
)
