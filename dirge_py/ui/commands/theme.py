"""`/theme`: the colours."""

from typing import TYPE_CHECKING

from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.types.extensions import Command
from dirge_py.ui.front import TuiFront
from dirge_py.ui.ink import theme_names
from dirge_py.ui.theme_files import own_names

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


async def theme(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    name = args or await _picked(front)
    if name:
        front.theme(name)


async def _picked(front: FrontEnd) -> str | None:
    own = set(own_names())
    choices = [
        Choice(id=name, label=name, detail="yours" if name in own else "") for name in theme_names()
    ]
    if not isinstance(front, TuiFront):
        return await front.pick("Theme", choices)
    return await front.app.coloring.pick(choices)


def known(conversation: "Conversation") -> list[str]:
    return list(theme_names())


COMMANDS = (
    Command(name="theme", summary="switch the colours", usage="[NAME]", run=theme, complete=known),
)
