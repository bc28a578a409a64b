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
    chosen: str | None = args
    if not args:
        found = list(conversation.sessions())[:_MOST_SHOWN]
        if not found:
            front.show("There are no stored sessions of this project.")
            return
        choices = [
            Choice(
                id=one.id, label=one.title or one.id, detail=f"{one.messages} messages, {one.id}"
            )
            for one in found
        ]
        chosen = await front.pick("Session", choices, current=conversation.session_id or "")
    if chosen is not None and chosen != conversation.session_id:
        await front.open(chosen)


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
        usage="[ID]",
        run=sessions,
        aliases=("resume",),
        while_running="no",
        complete=known,
    ),
)
