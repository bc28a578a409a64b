"""`/init`: has the model write, or improve, the AGENTS.md of the project."""

from typing import TYPE_CHECKING

from dirge_py.context.prompt_text import prompt_text
from dirge_py.slash.base import FrontEnd
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


async def init(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    wishes = f"\n\nWhat matters to me in particular: {args}" if args else ""
    conversation.send(f"{prompt_text('init')}{wishes}")


COMMANDS = (
    Command(
        name="init",
        summary="have AGENTS.md written or improved from what the project shows",
        usage="[WISHES]",
        run=init,
        while_running="no",
        headless=True,
    ),
)
