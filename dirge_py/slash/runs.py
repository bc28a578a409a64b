"""`/continue`: carrying on without a new prompt."""

from typing import TYPE_CHECKING

from dirge_py.contributions import Command
from dirge_py.errors import UsageError
from dirge_py.slash.base import FrontEnd

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation


async def go_on(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if args:
        raise UsageError(
            "/continue takes no words.", hint="Send them as a prompt: it carries on, too."
        )
    conversation.continue_run()


COMMANDS = (
    Command(
        name="continue",
        summary="carry on after a limit, an error or an interruption, with new limits",
        run=go_on,
        while_running="no",
        headless=True,
    ),
)
