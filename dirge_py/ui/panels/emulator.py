"""A terminal emulator, which turns the bytes of a program into styled lines."""

import re
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyte
from pyte.screens import Char
from rich.color import Color, ColorParseError
from rich.style import Style

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean
from dirge_py.ui.transcript.lines import Line

SCROLLBACK_LINES = 200
"""Lines kept that have scrolled out."""

_MOST_BACKLOG = 16 * 1024
"""Bytes that may wait to be drawn; of a longer backlog only the end is drawn."""

_LEFT_OF_FLOOD = 4 * 1024
_SLICE = 256
_APPLICATION_KEYS = 1 << 5  # DECCKM, as pyte numbers private modes
_BRACKETED_PASTE = 2004 << 5
_OWN_SCREENS = frozenset({1049 << 5, 1047 << 5, 47 << 5})

# The emulator would draw these as text.
_NOT_UNDERSTOOD = late_pattern(
    rb"\x1b\[[<=>][0-9;]*[ -/]*[@-~]|\x1b[P_^X][^\x1b\x07]{0,4096}(?:\x1b\\|\x07)"
)


class _Page(pyte.Screen):
    """A screen that keeps the lines that scroll out at its top."""

    def __init__(self, columns: int, rows: int, answer: Callable[[bytes], None]) -> None:
        self.scrolled: deque[Any] = deque(maxlen=SCROLLBACK_LINES)
        self._answer = answer
        super().__init__(columns, rows)

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and top == 0:
            self.scrolled.append(self.buffer[0])
        super().index()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Drop lines below the cursor first, and lines at the top only to keep the cursor."""
        if lines is not None and lines < self.lines:
            for _ in range(self.cursor.y - lines + 1):
                self.scrolled.append(self.buffer[0])
                self.buffer.update({y: self.buffer[y + 1] for y in range(self.lines - 1)})
                self.buffer.pop(self.lines - 1, None)
                self.cursor.y -= 1
            for y in range(lines, self.lines):
                self.buffer.pop(y, None)
            self.lines = lines
            self.set_margins()
        super().resize(lines, columns)

    def write_process_input(self, data: str) -> None:
        self._answer(data.encode())


class Emulator:
    """A terminal of `rows` by `columns`. `answer` sends the replies to a program's queries."""

    def __init__(self, *, rows: int, columns: int, answer: Callable[[bytes], None]) -> None:
        self._page = _Page(columns, rows, answer)
        self._stream = pyte.ByteStream(self._page)
        self._backlog = bytearray()

    @property
    def rows(self) -> int:
        return int(self._page.lines)

    @property
    def scrolled(self) -> int:
        """Lines that have scrolled out and are kept."""
        return len(self._page.scrolled)

    @property
    def has_own_screen(self) -> bool:
        """Whether a full-screen program runs, such as an editor or a pager."""
        return not _OWN_SCREENS.isdisjoint(self._page.mode)

    @property
    def has_application_keys(self) -> bool:
        return _APPLICATION_KEYS in self._page.mode

    @property
    def brackets_pastes(self) -> bool:
        return _BRACKETED_PASTE in self._page.mode

    def feed(self, chunk: bytes) -> None:
        """Add the output of the program, which `work` draws."""
        self._backlog += chunk
        if len(self._backlog) > _MOST_BACKLOG:
            end = bytes(self._backlog[-_LEFT_OF_FLOOD:])
            self._backlog[:] = end[end.find(b"\n") + 1 :]

    def work(self, limit_s: float) -> bool:
        """Draw what was fed for `limit_s`; return whether something is left."""
        if len(self._backlog) < _MOST_BACKLOG:
            self._backlog[:] = _NOT_UNDERSTOOD.sub(b"", bytes(self._backlog))
        until = time.monotonic() + limit_s
        while self._backlog and time.monotonic() < until:
            piece = bytes(self._backlog[:_SLICE])
            del self._backlog[:_SLICE]
            try:
                self._stream.feed(piece)
            except Exception:
                # The emulator failed on a sequence, which is dropped with the rest of the piece.
                self._stream = pyte.ByteStream(self._page)
        return bool(self._backlog)

    def resize(self, *, rows: int, columns: int) -> None:
        self._page.resize(rows, columns)

    def line(self, row: int, text: Style, *, back: int = 0, shows_cursor: bool = False) -> Line:
        """Return a row of the screen, scrolled `back` some lines; `text` is the plain style."""
        page = self._page
        at = row - back
        cells = page.buffer[at] if at >= 0 else page.scrolled[at]
        cursor = page.cursor
        cursor_at = -1
        if shows_cursor and not back and cursor.y == row and not cursor.hidden:
            cursor_at = min(cursor.x, page.columns - 1)
        spans: Line = []
        looks: object = None
        for column in range(page.columns):
            char: Char = cells[column]
            if char[1:] == looks and column != cursor_at:
                spans[-1] = (spans[-1][0] + char.data, spans[-1][1])
                continue
            looks = char[1:] if column != cursor_at else None
            style = _style(char._replace(data=""), text)
            spans.append((char.data, style if looks else style + Style(reverse=True)))
        return [(clean(words), style) for words, style in spans]


@lru_cache(maxsize=512)
def _style(char: Char, text: Style) -> Style:
    return text + Style(
        color=_color(char.fg),
        bgcolor=_color(char.bg),
        bold=char.bold or None,
        italic=char.italics or None,
        underline=char.underscore or None,
        strike=char.strikethrough or None,
        reverse=char.reverse or None,
    )


_OTHER_NAMES = {"brown": "yellow", "brightbrown": "bright_yellow"}


def _color(name: str) -> Color | None:
    """Return the colour for a name such as `red`, `brightred`, `ff8700` or `default`."""
    if name == "default":
        return None
    name = _OTHER_NAMES.get(name, name).replace("bright", "bright_").replace("__", "_")
    try:
        is_hex = re.fullmatch(r"[0-9a-f]{6}", name) is not None
        return Color.parse(f"#{name}" if is_hex else name)
    except ColorParseError:
        return None
