"""`/theme`: the colours."""

from typing import TYPE_CHECKING

from dirge_py.contributions import Command
from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.ui.ink import theme_names

if TYPE_CHECKING:
    from dirge_py.conversation import Conversation


async def theme(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    choices = [Choice(id=name, label=name) for name in theme_names()]
    name = args or await front.pick("Theme", choices)
    if name:
        front.theme(name)


def known(conversation: "Conversation") -> list[str]:
    return list(theme_names())


COMMANDS = (
    Command(name="theme", summary="switch the colours", usage="[NAME]", run=theme, complete=known),
)
