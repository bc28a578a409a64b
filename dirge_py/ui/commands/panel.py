"""`/panel` and `/display`: what there is beside the transcript."""

from typing import TYPE_CHECKING, Literal, cast, get_args

from dirge_py.slash.base import FrontEnd, NeedsScreen
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.ui.front import TuiFront
from dirge_py.ui.surroundings import WIDE, Side, Surroundings

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_PANELS = ("on", "off", "auto")
_SIDES = get_args(Side)


async def panel(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    surroundings = _surroundings(front, "/panel")
    if args and args not in _PANELS:
        raise UsageError(f"There is no panel setting {args!r}.", hint="/panel on, off or auto.")
    if args:
        surroundings.show_panels(cast(Literal["on", "off", "auto"], args))
    front.show(_told(surroundings))


async def display(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    surroundings = _surroundings(front, "/display")
    wanted = args.replace("|", " ").replace(",", " ").split()
    if odd := [side for side in wanted if side not in _SIDES]:
        raise UsageError(
            f"There is no {odd[0]!r} to display.",
            hint=f"What there is: {'|'.join(_SIDES)}; `left main` and `left|main` name two.",
        )
    if wanted:
        surroundings.show_sides([side for side in _SIDES if side in wanted])
    front.show(_told(surroundings))


def _surroundings(front: FrontEnd, what: str) -> Surroundings:
    if not isinstance(front, TuiFront):
        raise NeedsScreen(what)
    return front.app.surroundings


def _told(surroundings: Surroundings) -> str:
    words = f"Panels: {surroundings.panel}; displayed: {'|'.join(surroundings.display)}."
    if surroundings.panel == "auto":
        words += f" Panels are there from {WIDE} columns on."
    elif surroundings.panel == "on" and not surroundings.is_shown:
        words += " There is no room for a panel."
    return words


def _known(conversation: "Conversation") -> list[str]:
    return list(_PANELS)


def _sides(conversation: "Conversation") -> list[str]:
    return ["left|main|right", "left|main", "main|right", "main"]


COMMANDS = (
    Command(
        name="panel",
        summary="the panels at the sides: always, never, or where there is room",
        usage="[on|off|auto]",
        run=panel,
        complete=_known,
    ),
    Command(
        name="display",
        summary="which of left, main and right there are",
        usage="[left|main|right]",
        run=display,
        complete=_sides,
    ),
)
