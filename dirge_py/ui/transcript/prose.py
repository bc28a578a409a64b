"""Blocks of the model's answer, and the streaming of an answer into such blocks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token
from textual.strip import Strip

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean
from dirge_py.types.events import MessageUpdate
from dirge_py.types.messages import AssistantMessage, TextBlock, ThinkingBlock
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import BlockPage, ReasoningBlock, TranscriptBlock
from dirge_py.ui.transcript.diff import is_diff_language, paint_fenced
from dirge_py.ui.transcript.lines import fold
from dirge_py.ui.transcript.markdown import paint_markdown
from dirge_py.ui.transcript.syntax import highlight

_BLOCKS = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["inline", "text_join"])

_FENCE = late_pattern(r"^ {0,3}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)$", re.MULTILINE)
_LONGEST_OPEN = 120
"""Lines after which an open block is cut, if there is a place where the cut hardly shows."""

_LONGEST_UNCUT = 4 * _LONGEST_OPEN
"""Lines after which it is cut at any block inside it, even if the cut shows."""

_LONGEST_LINE = 8_000
"""Characters after which an open line is cut."""
_LINE_PIECE = 6_000
"""Characters of such a line that are finished by the cut."""


@dataclass(frozen=True, slots=True)
class MarkdownPiece:
    """A part of a Markdown text, or of the code in a fence."""

    text: str
    language: str | None = None
    """The language of bare code; None for Markdown."""
    continues: bool = False
    """It continues the piece before it, without a blank line between them."""
    head: str = ""
    """The heading of a table whose further rows are in `text`; parsed in front of it."""


class MarkdownStream:
    """Cuts streamed Markdown into finished pieces and an open end, which may still change."""

    def __init__(self) -> None:
        self._open = ""
        self._fence: tuple[str, str] | None = None
        self._continues = False
        self._head = ""

    @property
    def open_piece(self) -> MarkdownPiece:
        language = self._fence[1] if self._fence else None
        return MarkdownPiece(self._open, language, self._continues, self._head)

    def feed(self, text: str) -> list[MarkdownPiece]:
        """Add text, and return the pieces that it finished."""
        self._open += text
        finished: list[MarkdownPiece] = []
        while True:
            piece = self._cut_fence() if self._fence else self._cut_blocks()
            if piece is None:
                return finished
            if piece.text:
                finished.append(piece)

    def close(self) -> list[MarkdownPiece]:
        """Return the open end as the last piece, as the text is complete."""
        left = self.open_piece
        self._open, self._fence, self._head = "", None, ""
        return [left] if left.text.strip() else []

    def _cut_fence(self) -> MarkdownPiece | None:
        assert self._fence is not None
        mark, language = self._fence
        close = re.search(rf"^ {{0,3}}{re.escape(mark)}{mark[0]}* *$\n", self._open, re.MULTILINE)
        if close:
            self._fence = None
            piece = self._cut_piece(close.start(), language=language)
            self._open = self._open.removeprefix(close[0])
            return piece
        at = _line_start(self._open, _LONGEST_OPEN)
        return self._cut_piece(at, language=language, continues=True) if at else None

    def _cut_blocks(self) -> MarkdownPiece | None:
        """Cut everything before the last top-level block, or a part of a long last block."""
        whole = self._open[: self._open.rfind("\n") + 1]
        if len(self._open) - len(whole) > _LONGEST_LINE:
            most = len(whole) + _LINE_PIECE
            at = self._open.rfind(" ", len(whole), most) + 1
            return self._cut_piece(at or most, continues=True)
        if not whole:
            return None
        source = self._head + whole
        tokens = _BLOCKS.parse(source)
        starts = [t.map[0] for t in tokens if t.map and not t.level and t.nesting >= 0]
        if not starts:
            return None
        if len(starts) > 1:
            return self._cut_piece(_line_start(source, starts[-1]) - len(self._head))
        if source.count("\n") < _LONGEST_OPEN:
            return None
        return self._cut_long_block(source, tokens)

    def _cut_long_block(self, source: str, tokens: Sequence[Token]) -> MarkdownPiece | None:
        """Cut a part of the only block, if there is a good place for a cut."""
        first = tokens[0]
        inner = [t.map[0] for t in tokens if t.level == 1 and t.nesting >= 0 and t.map]
        match first.type:
            case "fence":
                return self._open_long_fence(source)
            case "paragraph_open":
                return self._cut_piece(_line_start(source, _LONGEST_OPEN - 1), continues=True)
            case "table_open":
                top = first.map[0] if first.map else 0
                head = source[_line_start(source, top) : _line_start(source, top + 2)]
                at = _line_start(source, _LONGEST_OPEN - 1) - len(self._head)
                piece = self._cut_piece(at, continues=True)
                self._head = head
                return piece
            case "blockquote_open" if len(inner) == 1 and tokens[1].type == "paragraph_open":
                at = source.rfind("\n>", 0, _line_start(source, _LONGEST_OPEN)) + 1
                return self._cut_piece(at, continues=True) if at else None
            case "blockquote_open" | "bullet_list_open" | "ordered_list_open" if len(inner) > 1:
                return self._cut_piece(_line_start(source, inner[-1]), continues=True)
        if source.count("\n") < _LONGEST_UNCUT:
            return None
        last = max((t.map[0] for t in tokens if t.map and t.nesting >= 0), default=0)
        return self._cut_piece(_line_start(source, last), continues=True) if last else None

    def _open_long_fence(self, whole: str) -> MarkdownPiece | None:
        opening = _FENCE.search(whole)
        if opening is None:
            return None
        words = opening[2].split()
        self._fence = (opening[1], words[0] if words else "")
        self._open = self._open[opening.end() + 1 :]
        return MarkdownPiece("")

    def _cut_piece(
        self, at: int, *, language: str | None = None, continues: bool = False
    ) -> MarkdownPiece:
        piece = MarkdownPiece(self._open[:at], language, self._continues, self._head)
        self._head, self._continues = "", continues
        self._open = self._open[at:]
        return piece


def _line_start(text: str, lines: int) -> int:
    """Return the offset behind the first `lines` lines; 0 if there are fewer."""
    at = 0
    for _ in range(lines):
        at = text.find("\n", at) + 1
        if at == 0:
            return 0
    return at


class ProseBlock(TranscriptBlock):
    """One piece of an answer; its code is highlighted once the piece is finished."""

    def __init__(self, piece: MarkdownPiece, *, is_finished: bool = True) -> None:
        super().__init__()
        self._is_finished = is_finished
        self._set(piece)

    def replace(self, piece: MarkdownPiece) -> None:
        if piece != self._piece:
            self._set(piece)
            self.changed()

    def finish(self) -> None:
        self._is_finished = True
        self.changed()

    def _set(self, piece: MarkdownPiece) -> None:
        self._piece = piece
        self._text, self._head = clean(piece.text), clean(piece.head)
        # An empty open end has no lines at all.
        self.gap = bool(self.text.strip()) and not piece.continues

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        if not self.text.strip():
            return []
        if self._piece.language is None:
            source = self._head + self.text
            return paint_markdown(source, width, styles, plain_code=not self._is_finished)
        language, prefix = self._piece.language, [("  ", styles.text)]
        text = self.text.removesuffix("\n")
        if is_diff_language(language):
            return paint_fenced(text, width, styles, indent=prefix)
        code = highlight(text, language if self._is_finished else "", styles)
        return [part for line in code for part in fold(line, width, prefix=prefix)]


class _Text:
    """One text block of the answer. Only its open end is drawn more than once."""

    def __init__(self, page: BlockPage) -> None:
        self._page = page
        self._flow = MarkdownStream()
        self._open = ProseBlock(self._flow.open_piece, is_finished=False)
        page.add(self._open)
        self._settled = 0
        self.deltas: list[str] = []
        self.blocks: list[TranscriptBlock] = [self._open]

    def settle(self) -> None:
        """Draw the text added since the last call."""
        new = "".join(self.deltas[self._settled :])
        if not new:
            return
        self._settled = len(self.deltas)
        for piece in self._flow.feed(new):
            block = ProseBlock(piece)
            self.blocks.insert(-1, block)
            self._page.insert(self._open, block)
        self._open.replace(self._flow.open_piece)
        self._page.touch(self._open)

    def finish(self) -> None:
        self.settle()
        pieces = self._flow.close()
        if pieces:
            self._open.replace(pieces[0])
        self._open.finish()
        self._page.touch(self._open)


class StreamedAnswer:
    """Draws one assistant message while it is streamed; `settle` draws the collected text."""

    def __init__(self, page: BlockPage, *, show_thinking: bool = False) -> None:
        self._page = page
        self._show_thinking = show_thinking
        self._texts: dict[int, _Text] = {}
        self._thoughts: dict[int, ReasoningBlock] = {}

    def on_event(self, event: MessageUpdate) -> None:
        if event.phase == "text_delta":
            if event.index not in self._texts:
                self._texts[event.index] = _Text(self._page)
            self._texts[event.index].deltas.append(event.delta)
        elif event.phase == "thinking_delta":
            if event.index not in self._thoughts:
                self._thoughts[event.index] = ReasoningBlock(is_shown=self._show_thinking)
                self._page.add(self._thoughts[event.index])
            self._thoughts[event.index].append(event.delta)
            self._page.touch(self._thoughts[event.index])
        elif event.phase == "thinking_end" and event.index in self._thoughts:
            self._thoughts[event.index].finish()
            self._page.touch(self._thoughts[event.index])

    def settle(self) -> None:
        for text in self._texts.values():
            text.settle()

    def finish(self, message: AssistantMessage) -> None:
        """Draw the complete message, which may differ from what was streamed."""
        for thought in self._thoughts.values():
            thought.finish()
            self._page.touch(thought)
        for content in message.content if not self._thoughts else ():
            if isinstance(content, ThinkingBlock) and content.text:
                is_shown = self._show_thinking
                self._page.add(ReasoningBlock(content.text, is_done=True, is_shown=is_shown))
        streamed = "\n".join("".join(text.deltas) for text in self._texts.values())
        if streamed != message.text:
            self._remove_texts()
            for index, content in enumerate(message.content):
                if isinstance(content, TextBlock):
                    self._texts[index] = _Text(self._page)
                    self._texts[index].deltas.append(content.text)
        for text in self._texts.values():
            text.finish()

    def withdraw(self) -> None:
        """Remove everything that was streamed."""
        self._remove_texts()
        for thought in self._thoughts.values():
            self._page.remove_block(thought)
        self._thoughts = {}

    def _remove_texts(self) -> None:
        for text in self._texts.values():
            for block in text.blocks:
                self._page.remove_block(block)
        self._texts = {}


_LONG_TEXT = 20_000
"""Characters from which a stored text is cut, so that each drawing is quick."""


def pieces_of(text: str) -> list[MarkdownPiece]:
    """Cut a stored answer or report; an ordinary one is a single piece."""
    if len(text) < _LONG_TEXT:
        return [MarkdownPiece(text)]
    flow = MarkdownStream()
    return [*flow.feed(text), *flow.close()]
