"""`/pager`, `/edit`, `/redraw`: what keys do, for whoever has none free."""

from typing import TYPE_CHECKING

from dirge_py.slash.base import FrontEnd
from dirge_py.types.extensions import Command
from dirge_py.ui.front import TuiFront
from dirge_py.ui.transcript.plain import whole_text

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


async def pager(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    assert isinstance(front, TuiFront)
    await front.read_on(whole_text(front.app.transcript.layout_of_blocks))


async def edit(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    text = await front.edit_text(args)
    front.set_input(args if text is None else text)


async def redraw(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    assert isinstance(front, TuiFront)
    front.app.draw_anew()


COMMANDS = (
    Command(name="pager", summary="read the transcript in $PAGER", run=pager),
    Command(name="edit", summary="write the next prompt in $EDITOR", usage="[TEXT]", run=edit),
    Command(name="redraw", summary="draw the screen again", run=redraw),
)
