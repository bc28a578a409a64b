"""The text that a terminal shows after a command's output, without colours and progress."""

import re

from dirge_py.lib.lazy import late_pattern

_WIDEST = 200
"""The last column that a movement reaches; text itself may be longer."""
_BODY = r"[^\x07\x1b]{0,4096}+"
_COLOURS = late_pattern(rf"\x1b\[[0-9;:]{{0,64}}+m|\x1b\]{_BODY}(?:\x07|\x1b\\)")
_PIECE = late_pattern(
    rf"""
    \x1b\[ (?P<number>[0-9]{{0,6}}+) (?P<move>[A-GJK])        # movements and erasing
  | \x1b\[ [0-?]{{0,256}}+ [\ -/]{{0,16}}+ [@-~]?             # modes and the rest
  | \x1b[\]PX^_] {_BODY} (?:\x07|\x1b\\)?                     # titles, links and other strings
  | \x1b[\ -/]{{0,16}}+ [0-~]?
  | (?P<control>[\r\n\b])
  | (?P<text>[^\x1b\r\n\b]+)
    """,
    re.VERBOSE,
)


def final_text(text: str) -> str:
    """Return the text that remains on an endless terminal.

    Carriage returns, backspaces, movements of the cursor and erasing take effect; other escape
    sequences are dropped.
    """
    text = text.replace("\r\n", "\n")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    if "\r" not in text and "\x1b" not in text and "\b" not in text:
        return text
    page = _Page()
    for piece in _PIECE.finditer(text):
        if piece["text"]:
            page.write(piece["text"])
        elif piece["control"]:
            page.control(piece["control"])
        elif piece["move"]:
            page.move(piece["move"], int(piece["number"] or 0))
    return "\n".join(map("".join, page.lines))


class _Page:
    """The lines so far, as lists of characters, and the cursor."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = [[]]
        self._row = self._column = 0

    def write(self, text: str) -> None:
        line, end = self.lines[self._row], self._column + len(text)
        line.extend(" " * (self._column - len(line)))
        line[self._column : end] = text
        self._column = end

    def control(self, control: str) -> None:
        if control == "\b":
            self._column = max(0, self._column - 1)
            return
        self._column = 0
        if control == "\n":
            self._row += 1
            if self._row == len(self.lines):
                self.lines.append([])

    def move(self, move: str, number: int) -> None:
        count, line = max(1, number), self.lines[self._row]
        match move:
            case "K" | "J" if number == 0:
                del line[self._column :]
                if move == "J":
                    del self.lines[self._row + 1 :]
            case "K" if number == 1:
                # The character at the cursor is erased, too.
                count = min(len(line), self._column + 1)
                line[:count] = " " * count
            case "K":
                line.clear()
            case "A" | "F":
                self._row = max(0, self._row - count)
            case "B" | "E":
                self._row = min(len(self.lines) - 1, self._row + count)
            case "C":
                self._column = max(self._column, min(_WIDEST, self._column + count))
            case "D":
                self._column = max(0, self._column - count)
            case "G":
                self._column = min(_WIDEST, count - 1)
        if move in "EF":
            self._column = 0
