"""Blocks of the model's own words: Markdown, and code cut out of a very long fence."""

from textual.strip import Strip

from dirge_py.lib.text import clean
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import BlockBase, guess_lines
from dirge_py.ui.transcript.code import highlight
from dirge_py.ui.transcript.flow import Piece
from dirge_py.ui.transcript.lines import fold
from dirge_py.ui.transcript.markdown import paint_markdown


class ProseBlock(BlockBase):
    """One piece of an answer. While it is being written it is drawn without highlighting."""

    def __init__(self, piece: Piece, *, is_finished: bool = True) -> None:
        super().__init__()
        self._is_finished = is_finished
        self._set(piece)

    @property
    def text(self) -> str:
        return self._text

    def replace(self, piece: Piece) -> None:
        """The open end has grown, or begins somewhere else now."""
        if piece != self._piece:
            self._set(piece)
            self.changed()

    def finish(self) -> None:
        """It will not change any more, so it may be drawn with care."""
        self._is_finished = True
        self.changed()

    def _set(self, piece: Piece) -> None:
        self._piece = piece
        self._text, self._head = clean(piece.text), clean(piece.head)
        # An end that is still empty takes no room, not even its blank line.
        self.gap = bool(self._text.strip()) and not piece.continues

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        if not self._text.strip():
            return []
        if self._piece.language is None:
            source = self._head + self._text
            return paint_markdown(source, width, ink, plain_code=not self._is_finished)
        language = self._piece.language if self._is_finished else ""
        code = highlight(self._text.removesuffix("\n"), language, ink)
        return [part for line in code for part in fold(line, width, prefix=[("  ", ink.text)])]

    def guess_height(self, width: int) -> int:
        return guess_lines(self._text.rstrip("\n"), width)
