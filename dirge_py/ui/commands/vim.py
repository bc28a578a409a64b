"""`/vim`: Vim's modes in the input, on or off."""

from typing import TYPE_CHECKING

from dirge_py.slash.base import FrontEnd
from dirge_py.types.extensions import Command
from dirge_py.ui.front import TuiFront

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


async def vim(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if not isinstance(front, TuiFront):
        return
    composer = front.app.composer
    composer.use_vim(is_on=not composer.has_vim)
    if composer.has_vim:
        front.show('Vim\'s keys are on; Esc leaves writing. `[ui] keymap = "vim"` keeps them.')
    else:
        front.show("Vim's keys are off.")


COMMANDS = (Command(name="vim", summary="Vim's keys in the input, on or off", run=vim),)
