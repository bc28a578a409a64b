"""One answer while it is being written: its thinking, and its text cut into finished pieces."""

from typing import TYPE_CHECKING

from dirge_py.types.events import MessageUpdate
from dirge_py.types.messages import AssistantMessage, TextBlock
from dirge_py.types.messages import ThinkingBlock as Thought
from dirge_py.ui.transcript.blocks import Block, ThinkingBlock
from dirge_py.ui.transcript.flow import Flow
from dirge_py.ui.transcript.prose import ProseBlock

if TYPE_CHECKING:
    from dirge_py.ui.transcript.chronicle import Page


class _Text:
    """One text block of the answer. Only its open end is ever drawn twice."""

    def __init__(self, page: "Page") -> None:
        self._page = page
        self._flow = Flow()
        self._open = ProseBlock(self._flow.open_piece, is_finished=False)
        page.add(self._open)
        self._settled = 0
        self.heard: list[str] = []
        self.blocks: list[Block] = [self._open]

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


class Answer:
    """Hears the updates of one assistant message. `settle` draws them, once for many deltas."""

    def __init__(self, page: "Page", *, show_thinking: bool = False) -> None:
        self._page = page
        self._show_thinking = show_thinking
        self._texts: dict[int, _Text] = {}
        self._thoughts: dict[int, ThinkingBlock] = {}

    def hear(self, event: MessageUpdate) -> None:
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

    def _thought(self, index: int) -> ThinkingBlock:
        if index not in self._thoughts:
            self._thoughts[index] = ThinkingBlock(is_shown=self._show_thinking)
            self._page.add(self._thoughts[index])
        return self._thoughts[index]

    def _add_thoughts(self, message: AssistantMessage) -> None:
        for content in message.content:
            if isinstance(content, Thought) and content.text:
                self._page.add(
                    ThinkingBlock(content.text, is_done=True, is_shown=self._show_thinking)
                )
