"""Looking at what is on the screen: scrolling, folding, drawing anew."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


class Looking:
    """Nothing here changes the conversation."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app

    async def toggle_all(self) -> None:
        self._app.transcript.toggle_all()

    async def page_up(self) -> None:
        self._app.transcript.page(-1)

    async def page_down(self) -> None:
        self._app.transcript.page(1)

    async def go_to_start(self) -> None:
        self._app.transcript.go_to_start()

    async def go_to_end(self) -> None:
        self._app.transcript.go_to_end()

    async def redraw(self) -> None:
        self._app.draw_anew()
