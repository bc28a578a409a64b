"""Slash commands of line mode alone: `/queue`, a prompt for when the run is over."""

from typing import TYPE_CHECKING

from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


async def queue(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if not args:
        waiting = [f"{item.kind}: {item.message.text}" for item in conversation.queued()]
        front.show("\n".join(waiting) or "Nothing waits.")
        return
    if not conversation.is_running:
        raise UsageError("/queue is for during a run.", hint="Send the words as they are.")
    conversation.follow_up(await conversation.attach(args))
    front.show(f"Waits until the run is over: {args}")


COMMANDS = (
    Command(name="queue", summary="a prompt for when the run is over", usage="[TEXT]", run=queue),
)
