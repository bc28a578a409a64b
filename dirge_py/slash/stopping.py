"""`/stop`: the run rests at its next boundary; what it does now is still done."""

from typing import TYPE_CHECKING

from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


async def stop(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if args:
        raise UsageError("/stop takes no words.", hint="A prompt during a run steers it.")
    if conversation.is_compacting:
        front.show("A compaction has no boundaries: wait for its end, or interrupt it.")
    elif conversation.is_running:
        conversation.interject()
        front.show("The run stops when the calls of this turn are done.")
    elif conversation.exclusive_owner is not None:
        conversation.exclusive_owner.interrupt("user")
        front.show("The plan is being stopped.")
    else:
        front.show("Nothing runs.")


COMMANDS = (
    Command(
        name="stop",
        summary="let the run rest after this turn, when its calls are done",
        run=stop,
        while_running="yes",
    ),
)
