"""`/help` and `/quit`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dirge_py.slash.base import FrontEnd
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


_WIDEST_LEFT = 22


async def show_help(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    rows = [(_typed(command), command.summary) for command in front.commands]
    parts = ["Commands", *_aligned(rows)]
    if own := front.commands.own_names:
        parts += ["", "Own names", *_aligned(own)]
    if front.keys:
        parts += ["", "Keys", *_aligned(front.keys)]
    parts += ["", "@path attaches a file, a folder, a picture or a PDF. A line that begins with //"]
    parts[-1] += " is sent as a prompt that begins with /."
    front.show("\n".join(parts))


async def leave(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    front.quit()


def _typed(command: Command) -> str:
    names = " ".join(f"/{name}" for name in (command.name, *command.aliases))
    return f"{names} {command.usage}".rstrip()


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Two columns; what is too long for the left one gets a line of its own."""
    width = min(_WIDEST_LEFT, max((len(left) for left, _ in rows), default=0))
    lines: list[str] = []
    for left, right in rows:
        if len(left) > width:
            lines.append(f"  {left}")
            left = ""
        lines.append(f"  {left:<{width}}  {right}")
    return lines


COMMANDS = (
    Command(name="help", summary="what can be typed here, and the keys", run=show_help),
    Command(
        name="quit", summary="leave; the session is kept", run=leave, aliases=("exit", "q", ":q")
    ),
)
