"""Reaching what is not on the screen: every command, the pager, the terminal's own mouse."""

from typing import TYPE_CHECKING

from dirge_py.types.errors import DirgeError
from dirge_py.ui.palette import pick_and_run
from dirge_py.ui.terminal.editor import read_in_pager
from dirge_py.ui.transcript.positions import whole_text

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


class Reaching:
    """What a key hands over, another key or the end of a program gives back."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app

    async def palette(self) -> None:
        await pick_and_run(self._app)

    async def pager(self) -> None:
        try:
            text = whole_text(self._app.transcript.layout_of_blocks)
            await read_in_pager(self._app, text)
        except DirgeError as error:
            self._app.say(f"{error.message}\n{error.hint}".strip(), tone="error")

    async def release_mouse(self) -> None:
        app = self._app
        app.take_mouse(is_ours=not app.has_mouse)
        key = app.keymap.name_of("screen", "release_mouse")
        whose = "dirge's again" if app.has_mouse else f"the terminal's; {key} takes it back"
        app.hint(f"The mouse is {whose}.")
