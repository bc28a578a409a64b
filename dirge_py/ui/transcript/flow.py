"""Markdown that is still being written, cut into pieces that will not change any more.

Only the last top-level block can still change, so everything before it is finished and drawn once.
Blocks that grow without end (a long list, a long fence) are cut too, so that the cost of a long
answer stays linear.
"""

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt

_BLOCKS = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["inline", "text_join"])

_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)$", re.MULTILINE)
_LONGEST_OPEN = 120
"""Lines after which an open list, paragraph or fence is cut at a place where that does not show."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A finished stretch. `language` is None for Markdown, else this is bare code.

    `continues`: it belongs to the block before it, so no blank line goes between.
    """

    text: str
    language: str | None = None
    continues: bool = False


class Flow:
    """Takes text as it comes; gives finished pieces and the open end."""

    def __init__(self) -> None:
        self._open = ""
        self._fence: tuple[str, str] | None = None
        self._continues = False

    @property
    def open_piece(self) -> Piece:
        """What may still change."""
        language = self._fence[1] if self._fence else None
        return Piece(text=self._open, language=language, continues=self._continues)

    def feed(self, text: str) -> list[Piece]:
        """Add text; returns what it finished."""
        self._open += text
        finished: list[Piece] = []
        while True:
            piece = self._cut_fence() if self._fence else self._cut_blocks()
            if piece is None:
                return finished
            if piece.text:
                finished.append(piece)

    def close(self) -> list[Piece]:
        """The text is whole: everything left is finished."""
        left = self.open_piece
        self._open, self._fence = "", None
        return [left] if left.text.strip() else []

    def _cut_fence(self) -> Piece | None:
        """Bare code of a fence that was too long to wait for: whole stretches, or its end."""
        assert self._fence is not None
        mark, language = self._fence
        close = re.search(rf"^ {{0,3}}{re.escape(mark)}{mark[0]}* *$\n", self._open, re.MULTILINE)
        if close:
            return self._take(close.start(), skip=close.end(), language=language, ends_fence=True)
        at = _line_start(self._open, _LONGEST_OPEN)
        return self._take(at, language=language) if at else None

    def _cut_blocks(self) -> Piece | None:
        """Everything before the last top-level block; of a long last block, what has settled."""
        whole = self._open[: self._open.rfind("\n") + 1]
        if not whole:
            return None
        tokens = _BLOCKS.parse(whole)
        starts = [
            token.map[0] for token in tokens if token.map and not token.level and token.nesting >= 0
        ]
        if not starts:
            return None
        if len(starts) > 1:
            return self._take(_offset(whole, starts[-1]))
        first = tokens[0]
        if whole.count("\n") < _LONGEST_OPEN or first.map is None:
            return None
        if first.type == "fence":
            return self._open_long_fence(whole)
        if first.type == "paragraph_open":
            return self._take(_line_start(whole, _LONGEST_OPEN - 1), continues=True)
        items = [t.map[0] for t in tokens if t.type == "list_item_open" and t.level == 1 and t.map]
        if len(items) > 1:
            return self._take(_offset(whole, items[-1]), continues=True)
        return None

    def _open_long_fence(self, whole: str) -> Piece | None:
        """From here on the fence's lines are taken as bare code; its opening line is dropped."""
        opening = _FENCE.search(whole)
        if opening is None:
            return None
        words = opening[2].split()
        self._fence = (opening[1], words[0] if words else "")
        self._open = self._open[opening.end() + 1 :]
        return Piece(text="")

    def _take(
        self,
        at: int,
        *,
        skip: int | None = None,
        language: str | None = None,
        continues: bool = False,
        ends_fence: bool = False,
    ) -> Piece:
        piece = Piece(text=self._open[:at], language=language, continues=self._continues)
        self._open = self._open[at if skip is None else skip :]
        self._continues = continues or (language is not None and not ends_fence)
        if ends_fence:
            self._fence = None
        return piece


def _line_start(text: str, lines: int) -> int:
    """Offset just after the first `lines` lines; 0 if there are not that many."""
    at = 0
    for _ in range(lines):
        at = text.find("\n", at) + 1
        if at == 0:
            return 0
    return at


def _offset(text: str, line: int) -> int:
    return _line_start(text, line) if line else 0
