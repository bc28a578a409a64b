"""Looking at what is on the screen: scrolling, folding, reading, finding, drawing anew."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp

_READING = (
    ("line_down", "moves"),
    ("select", "selects"),
    ("copy_read", "copies"),
    ("find", "finds"),
    ("next_block", "next block"),
    ("toggle", "opens"),
    ("close", "back"),
)
"""What the hint names, as long as a key does it."""


class Looking:
    """Nothing here changes the conversation."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app

    async def toggle_all(self) -> None:
        self._app.transcript.toggle_all()

    async def page_up(self) -> None:
        self._app.transcript.scroll_lines(-self._app.transcript.page_lines)

    async def page_down(self) -> None:
        self._app.transcript.scroll_lines(self._app.transcript.page_lines)

    async def go_to_start(self) -> None:
        self._app.transcript.go_to_start()

    async def go_to_end(self) -> None:
        self._app.transcript.go_to_end()

    async def read(self) -> None:
        """Give the keyboard to the transcript."""
        # First of all: the hint takes a line, and the view would follow its end.
        self._app.transcript.hold()
        self._app.transcript.focus()
        named = ((self._app.keymap.name_of("reading", action), words) for action, words in _READING)
        self._app.hint(" · ".join(f"{name} {words}" for name, words in named if name))

    async def copy_read(self) -> None:
        """Copy what is selected in the transcript, or the line at its cursor."""
        text = self._app.transcript.reading.take_text()
        self._app.hint(self._app.front.copy(text) if text.strip() else "Nothing to copy here.")

    async def find(self) -> None:
        self._app.find_bar.open(self._app.focused or self._app.composer)

    async def find_next(self) -> None:
        self._app.find_bar.step(1)

    async def find_previous(self) -> None:
        self._app.find_bar.step(-1)

    async def redraw(self) -> None:
        self._app.draw_anew()
