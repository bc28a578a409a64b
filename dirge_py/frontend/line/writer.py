"""Where line mode writes: text from top to bottom, nothing ever drawn over."""

import sys
from collections.abc import Callable

from dirge_py.lib.text import clean
from dirge_py.lib.text_width import cell_width, wrap


class LineWriter:
    """Writes lines, and answers as they grow. What cannot be shown safely is spelled out.

    `columns` is the room of a line while something stands below the text that is drawn anew (the
    input line): what grows is then written by whole lines. None: each piece is written at once.
    """

    def __init__(
        self,
        write: Callable[[str], object] | None = None,
        *,
        columns: Callable[[], int] | None = None,
    ) -> None:
        self._write_text = write or _to_stdout
        self._columns = columns
        self._growing = ""
        self._is_in_line = False
        self.problem: OSError | ValueError | None = None
        """Why nothing can be written any more: nobody reads it, or the disk is full."""

    def line(self, text: str = "") -> None:
        """One or more whole lines."""
        self.end_line()
        self._write(clean(text) + "\n")

    def grow(self, text: str) -> None:
        """More of a text that comes piece by piece."""
        if self._columns is None:
            self._write(clean(text))
            self._is_in_line = not text.endswith("\n") if text else self._is_in_line
            return
        self._growing += text
        *whole, self._growing = self._growing.split("\n")
        for line in whole:
            self._write(clean(line) + "\n")
        width = max(20, self._columns() - 1)
        if cell_width(self._growing) > width:
            *full, self._growing = wrap(self._growing, width)
            for line in full:
                self._write(clean(line) + "\n")

    def end_line(self) -> None:
        """Whatever comes next begins a line."""
        if self._growing:
            self._write(clean(self._growing) + "\n")
            self._growing = ""
        elif self._is_in_line:
            self._write("\n")
        self._is_in_line = False

    def label(self, text: str) -> None:
        """A few words in front of what is typed next, on the same line."""
        self.end_line()
        self._write(clean(text))
        self._is_in_line = bool(text)

    def typed(self) -> None:
        """The terminal itself has gone to the next line: somebody pressed Enter."""
        self._is_in_line = False

    def _write(self, text: str) -> None:
        if self.problem is not None:
            return
        try:
            self._write_text(text)
        except (OSError, ValueError) as problem:
            self.problem = problem


def _to_stdout(text: str) -> None:
    # Looked up each time: while a line is edited, another stream stands in its place.
    sys.stdout.write(text)
    sys.stdout.flush()
