"""Markdown that is still being written, cut into pieces that will not change any more.

Only the last top-level block can still change, so everything before it is finished and drawn once.
Blocks that grow without end (a long list, a long fence) are cut too, so that the cost of a long
answer stays linear.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

_BLOCKS = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["inline", "text_join"])

_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)$", re.MULTILINE)
_LONGEST_OPEN = 120
"""Lines after which an open block is cut at a place where that does not show, or hardly."""

_LONGEST_UNCUT = 4 * _LONGEST_OPEN
"""Lines after which it is cut wherever a block in it begins, though that may be seen."""

_LONGEST_LINE = 8_000
_LINE_PIECE = 6_000
"""Characters of one line without an end, and how many of them are finished then."""


@dataclass(frozen=True, slots=True)
class MarkdownPiece:
    """A finished stretch. `language` is None for Markdown, else this is bare code.

    `continues`: it belongs to the block before it, so no blank line goes between. `head` has to be
    read before the text: the heading of the table that these are more rows of.
    """

    text: str
    language: str | None = None
    continues: bool = False
    head: str = ""


class MarkdownStream:
    """Takes text as it comes; gives finished pieces and the open end."""

    def __init__(self) -> None:
        self._open = ""
        self._fence: tuple[str, str] | None = None
        self._continues = False
        self._head = ""

    @property
    def open_piece(self) -> MarkdownPiece:
        """What may still change."""
        language = self._fence[1] if self._fence else None
        return MarkdownPiece(
            text=self._open, language=language, continues=self._continues, head=self._head
        )

    def feed(self, text: str) -> list[MarkdownPiece]:
        """Add text; returns what it finished."""
        self._open += text
        finished: list[MarkdownPiece] = []
        while True:
            piece = self._cut_fence() if self._fence else self._cut_blocks()
            if piece is None:
                return finished
            if piece.text:
                finished.append(piece)

    def close(self) -> list[MarkdownPiece]:
        """The text is whole: everything left is finished."""
        left = self.open_piece
        self._open, self._fence, self._head = "", None, ""
        return [left] if left.text.strip() else []

    def _cut_fence(self) -> MarkdownPiece | None:
        """Bare code of a fence that was too long to wait for: whole stretches, or its end."""
        assert self._fence is not None
        mark, language = self._fence
        close = re.search(rf"^ {{0,3}}{re.escape(mark)}{mark[0]}* *$\n", self._open, re.MULTILINE)
        if close:
            return self._cut_piece(
                close.start(), skip=close.end(), language=language, ends_fence=True
            )
        at = _line_start(self._open, _LONGEST_OPEN)
        return self._cut_piece(at, language=language) if at else None

    def _cut_blocks(self) -> MarkdownPiece | None:
        """Everything before the last top-level block; of a long last block, what has settled."""
        whole = self._open[: self._open.rfind("\n") + 1]
        if len(self._open) - len(whole) > _LONGEST_LINE:
            most = len(whole) + _LINE_PIECE
            at = self._open.rfind(" ", len(whole), most) + 1
            return self._cut_piece(at or most, continues=True)
        if not whole:
            return None
        source = self._head + whole
        tokens = _BLOCKS.parse(source)
        starts = [
            token.map[0] for token in tokens if token.map and not token.level and token.nesting >= 0
        ]
        if not starts:
            return None
        if len(starts) > 1:
            return self._cut_piece(_offset(source, starts[-1]) - len(self._head))
        if source.count("\n") < _LONGEST_OPEN:
            return None
        return self._cut_long_block(source, tokens)

    def _cut_long_block(self, source: str, tokens: Sequence[Token]) -> MarkdownPiece | None:
        """A stretch of the one block that is open, if there is a good place to cut it."""
        first = tokens[0]
        inner = [t.map[0] for t in tokens if t.level == 1 and t.nesting >= 0 and t.map]
        match first.type:
            case "fence":
                return self._open_long_fence(source)
            case "paragraph_open":
                return self._cut_piece(_line_start(source, _LONGEST_OPEN - 1), continues=True)
            case "table_open":
                top = first.map[0] if first.map else 0
                head = source[_offset(source, top) : _offset(source, top + 2)]
                at = _line_start(source, _LONGEST_OPEN - 1) - len(self._head)
                piece = self._cut_piece(at, continues=True)
                self._head = head
                return piece
            case "blockquote_open" if len(inner) == 1 and tokens[1].type == "paragraph_open":
                at = source.rfind("\n>", 0, _line_start(source, _LONGEST_OPEN)) + 1
                return self._cut_piece(at, continues=True) if at else None
            case "blockquote_open" | "bullet_list_open" | "ordered_list_open" if len(inner) > 1:
                return self._cut_piece(_offset(source, inner[-1]), continues=True)
        if source.count("\n") < _LONGEST_UNCUT:
            return None
        last = max((t.map[0] for t in tokens if t.map and t.nesting >= 0), default=0)
        return self._cut_piece(_offset(source, last), continues=True) if last else None

    def _open_long_fence(self, whole: str) -> MarkdownPiece | None:
        """From here on the fence's lines are taken as bare code; its opening line is dropped."""
        opening = _FENCE.search(whole)
        if opening is None:
            return None
        words = opening[2].split()
        self._fence = (opening[1], words[0] if words else "")
        self._open = self._open[opening.end() + 1 :]
        return MarkdownPiece(text="")

    def _cut_piece(
        self,
        at: int,
        *,
        skip: int | None = None,
        language: str | None = None,
        continues: bool = False,
        ends_fence: bool = False,
    ) -> MarkdownPiece:
        piece = MarkdownPiece(
            text=self._open[:at], language=language, continues=self._continues, head=self._head
        )
        self._head = ""
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
