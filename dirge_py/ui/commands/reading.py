"""`/search` and `/reasoning`: looking into the transcript, and at the thinking in it."""

from typing import TYPE_CHECKING

from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.ui.actions.thinking import show_thinking
from dirge_py.ui.front import TuiFront

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_STATES = {"on": True, "off": False}


async def search(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    assert isinstance(front, TuiFront)
    front.app.find_bar.open(front.app.composer, args)


async def reasoning(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    assert isinstance(front, TuiFront)
    if args and args not in _STATES:
        raise UsageError(f"/reasoning does not know {args!r}.", hint="/reasoning [on|off]")
    shown = front.app.opening.looks.show_thinking
    show_thinking(front.app, _STATES.get(args, not shown))


def states(conversation: "Conversation") -> list[str]:
    return list(_STATES)


COMMANDS = (
    Command(
        name="search",
        summary="find words in the transcript",
        usage="[WORDS]",
        run=search,
        aliases=("find",),
    ),
    Command(
        name="reasoning",
        summary="show what the model says to itself, or hide it, from the next answer on",
        usage="[on|off]",
        run=reasoning,
        complete=states,
    ),
)
