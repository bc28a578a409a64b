"""Blocks of the model's own words, and an answer that is being streamed into such blocks."""

from textual.strip import Strip

from dirge_py.lib.text import clean
from dirge_py.types.events import MessageUpdate
from dirge_py.types.messages import AssistantMessage, TextBlock
from dirge_py.types.messages import ThinkingBlock as Thought
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import (
    BlockBase,
    BlockPage,
    ReasoningBlock,
    TranscriptBlock,
    guess_lines,
)
from dirge_py.ui.transcript.flow import MarkdownPiece, MarkdownStream
from dirge_py.ui.transcript.lines import fold
from dirge_py.ui.transcript.markdown import highlight, paint_markdown


class ProseBlock(BlockBase):
    """One piece of an answer. While it is being written it is drawn without highlighting."""

    def __init__(self, piece: MarkdownPiece, *, is_finished: bool = True) -> None:
        super().__init__()
        self._is_finished = is_finished
        self._set(piece)

    @property
    def text(self) -> str:
        return self._text

    def replace(self, piece: MarkdownPiece) -> None:
        """The open end has grown, or begins somewhere else now."""
        if piece != self._piece:
            self._set(piece)
            self.changed()

    def finish(self) -> None:
        """It will not change any more, so it may be drawn with care."""
        self._is_finished = True
        self.changed()

    def _set(self, piece: MarkdownPiece) -> None:
        self._piece = piece
        self._text, self._head = clean(piece.text), clean(piece.head)
        # An end that is still empty takes no room, not even its blank line.
        self.gap = bool(self._text.strip()) and not piece.continues

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        if not self._text.strip():
            return []
        if self._piece.language is None:
            source = self._head + self._text
            return paint_markdown(source, width, styles, plain_code=not self._is_finished)
        language = self._piece.language if self._is_finished else ""
        code = highlight(self._text.removesuffix("\n"), language, styles)
        return [part for line in code for part in fold(line, width, prefix=[("  ", styles.text)])]

    def guess_height(self, width: int) -> int:
        return guess_lines(self._text.rstrip("\n"), width)


class _Text:
    """One text block of the answer. Only its open end is ever drawn twice."""

    def __init__(self, page: BlockPage) -> None:
        self._page = page
        self._flow = MarkdownStream()
        self._open = ProseBlock(self._flow.open_piece, is_finished=False)
        page.add(self._open)
        self._settled = 0
        self.heard: list[str] = []
        self.blocks: list[TranscriptBlock] = [self._open]

    def append(self, text: str) -> None:
        self.heard.append(text)

    def settle(self) -> None:
        """Draw what has been heard since the last time."""
        new = "".join(self.heard[self._settled :])
        if not new:
            return
        self._settled = len(self.heard)
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
    """Hears the updates of one assistant message. `settle` draws them, once for many deltas."""

    def __init__(self, page: BlockPage, *, show_thinking: bool = False) -> None:
        self._page = page
        self._show_thinking = show_thinking
        self._texts: dict[int, _Text] = {}
        self._thoughts: dict[int, ReasoningBlock] = {}

    def on_event(self, event: MessageUpdate) -> None:
        if event.phase == "text_delta":
            if event.index not in self._texts:
                self._texts[event.index] = _Text(self._page)
            self._texts[event.index].append(event.delta)
        elif event.phase == "thinking_delta":
            thought = self._thought(event.index)
            thought.append(event.delta)
            self._page.touch(thought)
        elif event.phase == "thinking_end" and event.index in self._thoughts:
            thought = self._thought(event.index)
            thought.finish()
            self._page.touch(thought)

    def settle(self) -> None:
        for text in self._texts.values():
            text.settle()

    def finish(self, message: AssistantMessage) -> None:
        """The message is whole. If it is not what was streamed, it is what counts."""
        for thought in self._thoughts.values():
            thought.finish()
            self._page.touch(thought)
        if not self._thoughts:
            self._add_thoughts(message)
        told = "\n".join("".join(text.heard) for text in self._texts.values())
        if told != message.text:
            for text in self._texts.values():
                for block in text.blocks:
                    self._page.remove_block(block)
            self._texts = {}
            for index, content in enumerate(message.content):
                if isinstance(content, TextBlock):
                    self._texts[index] = _Text(self._page)
                    self._texts[index].append(content.text)
        for text in self._texts.values():
            text.finish()

    def withdraw(self) -> None:
        """Take everything that was streamed off the page again."""
        for text in self._texts.values():
            for block in text.blocks:
                self._page.remove_block(block)
        for thought in self._thoughts.values():
            self._page.remove_block(thought)
        self._texts, self._thoughts = {}, {}

    def _thought(self, index: int) -> ReasoningBlock:
        if index not in self._thoughts:
            self._thoughts[index] = ReasoningBlock(is_shown=self._show_thinking)
            self._page.add(self._thoughts[index])
        return self._thoughts[index]

    def _add_thoughts(self, message: AssistantMessage) -> None:
        for content in message.content:
            if isinstance(content, Thought) and content.text:
                self._page.add(
                    ReasoningBlock(content.text, is_done=True, is_shown=self._show_thinking)
                )


_LONG_TEXT = 20_000
"""Characters from which a text is cut, so that no one drawing takes long."""


def pieces_of(text: str) -> list[MarkdownPiece]:
    """Of a stored answer, or a report; a usual one is one piece, not parsed before it is seen."""
    if len(text) < _LONG_TEXT:
        return [MarkdownPiece(text)]
    flow = MarkdownStream()
    return [*flow.feed(text), *flow.close()]
