"""What the transcript is made of: pieces that can say how they look at a given width.

A block is changed through its methods only; each change raises `version`, by which everything that
was drawn of it before is known to be stale. Text from outside is cleaned here, once, on its way in.
"""

import re
from collections.abc import Sequence
from typing import Protocol

from textual.strip import Strip

from dirge_py.lib.text import clean
from dirge_py.slash.base import Tone
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.lines import Line, Span, clip, wrap


class Block(Protocol):
    """One piece of the transcript.

    `gap`: a blank line stands before it, unless it and the one above are of one kind and both
    `gathers`. `is_open` overrides the transcript's "expand all" once the
    person has clicked on this block; None until then. `group`: the block that it belongs to; it is
    there only while that one is open, and set in. `is_wide`: it is painted with all columns
    there are, not only with those that prose can be read in. `landmarks`: lines of what was painted
    last at which a keyboard may stop, such as where hunks begin; at least the first.
    """

    version: int
    gap: bool
    gathers: bool
    is_wide: bool
    is_open: bool | None
    group: "Block | None"
    landmarks: Sequence[int]

    @property
    def can_expand(self) -> bool:
        """Is there more to see than it shows collapsed?"""

    @property
    def text(self) -> str:
        """What it says, plain and whole, with what is folded away."""

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        """Its lines, each at most `width` cells."""

    def guess_height(self, width: int) -> int:
        """About how many lines `paint` will return; need not be exact, must be quick."""


class BlockBase:
    """What all blocks share."""

    gap = True
    gathers = False
    is_wide = False

    def __init__(self) -> None:
        self.version = 0
        self.is_open: bool | None = None
        self.group: Block | None = None
        self.landmarks: Sequence[int] = (0,)

    @property
    def can_expand(self) -> bool:
        return False

    @property
    def text(self) -> str:
        return ""

    def changed(self) -> None:
        self.version += 1


def guess_lines(text: str, width: int) -> int:
    """Lines that wrapped text takes, guessed from its length."""
    return text.count("\n") + 1 + len(text) // max(1, width * 2)


class UserBlock(BlockBase):
    """What the person said and attached. `label` tells how it got in, if not by Enter."""

    def __init__(self, text: str, *, label: str = "", attached: Sequence[str] = ()) -> None:
        super().__init__()
        self._text = clean(text)
        self._label = label
        self._attached = [clean(name) for name in attached]

    @property
    def text(self) -> str:
        return "\n".join([self._text, *self._attached])

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        mark: Sequence[Span] = [("› ", ink.user)]
        rest: Sequence[Span] = [("  ", ink.text)]
        strips = wrap([(self._text, ink.user)], width, first=mark, rest=rest)
        for name in self._attached:
            strips += wrap([(f"+ {name}", ink.dim)], width, first=rest, rest=rest)
        if self._label:
            strips += wrap([(self._label, ink.dim)], width, first=rest, rest=rest)
        return strips

    def guess_height(self, width: int) -> int:
        return guess_lines(self._text, width) + len(self._attached) + bool(self._label)


_LINES_OF_ASIDE = 3


class AsideBlock(BlockBase):
    """What dirge or a plugin wrote in a conversation: to the model, or in its place.

    Dim and signed, so that nobody takes it for the person's or the model's words. What is long is
    cut until it is asked for.
    """

    def __init__(self, text: str, *, source: str, is_whole: bool = False) -> None:
        super().__init__()
        self._text = clean(text).strip("\n")
        self._source = clean(source)
        self._is_whole = is_whole

    @property
    def text(self) -> str:
        return f"{self._source}\n{self._text}".rstrip()

    @property
    def can_expand(self) -> bool:
        return not self._is_whole

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        head = wrap([(f"» {self._source}", ink.accent)], width)
        rest: Sequence[Span] = [("  ", ink.dim)]
        body = wrap([(self._text, ink.dim)], width, first=rest, rest=rest) if self._text else []
        hidden = 0 if expanded or self._is_whole else len(body) - _LINES_OF_ASIDE
        if hidden > 1:
            more = f"… {hidden} more lines"
            body = body[:_LINES_OF_ASIDE] + wrap([(more, ink.dim)], width, first=rest)
        return head + body

    def guess_height(self, width: int) -> int:
        lines = guess_lines(self._text, width)
        return 1 + (lines if self._is_whole else min(lines, _LINES_OF_ASIDE + 1))


_COLUMN = re.compile(r" *(?:\S+(?: \S+)* {2,}){1,2}|  +")
"""What a line of two or three columns has before the last, or what any line is indented by."""

_MARKS: dict[Tone, str] = {"plain": "· ", "good": "✓ ", "warning": "! ", "error": "✗ "}


class NoticeBlock(BlockBase):
    """A line from the program itself, or several: a list stands apart."""

    def __init__(self, text: str, *, tone: Tone = "plain") -> None:
        super().__init__()
        self._text = clean(text)
        self.gathers = "\n" not in self._text
        self._tone: Tone = tone

    @property
    def text(self) -> str:
        return self._text

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        style = {
            "plain": ink.dim,
            "good": ink.good,
            "warning": ink.warning,
            "error": ink.error,
        }[self._tone]
        strips: list[Strip] = []
        for line in self._text.split("\n"):
            mark = "  " if strips else _MARKS[self._tone]
            column = _COLUMN.match(line)
            hanging = 2 + (len(column[0]) if column and len(column[0]) < width // 2 else 0)
            rest: Line = [(" " * hanging, style)]
            strips += wrap([(line, style)], width, first=[(mark, style)], rest=rest)
        return strips

    def guess_height(self, width: int) -> int:
        return guess_lines(self._text, width)


class DetailBlock(NoticeBlock):
    """A line for who wants to know everything: not there until all is shown."""

    gap = False

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        return super().paint(width, ink, expanded=expanded) if expanded else []


class ThinkingBlock(BlockBase):
    """What the model said to itself: one line, until the person wants to see it."""

    def __init__(self, text: str = "", *, is_done: bool = False, is_shown: bool = False) -> None:
        super().__init__()
        self.is_open = True if is_shown else None
        self._parts = [clean(text)] if text else []
        self._is_done = is_done

    @property
    def can_expand(self) -> bool:
        return bool(self._parts)

    @property
    def text(self) -> str:
        # Not joined for good here: a search reads in another thread while more is appended.
        return "".join(self._parts)

    def append(self, text: str) -> None:
        self._parts.append(clean(text))
        self.changed()

    def finish(self) -> None:
        self._is_done = True
        self._parts = [self.text] if self._parts else []
        self.changed()

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        text = self.text.strip("\n")
        if expanded:
            mark: Sequence[Span] = [("∴ ", ink.dim)]
            return wrap([(text, ink.thinking)], width, first=mark, rest=[("  ", ink.dim)])
        if self._is_done:
            lines = text.count("\n") + 1
            line = f"∴ thought, {lines} line{'s' * (lines != 1)}" if text else "∴ thought"
        else:
            line = f"∴ thinking… {text.rpartition(chr(10))[2]}"
        return wrap([(clip(line, width), ink.dim)], width)

    def guess_height(self, width: int) -> int:
        return 1
