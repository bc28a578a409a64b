"""A drawn line that remembers what of it was written, and what painting added."""

from collections.abc import Iterable

from rich.segment import Segment
from textual.strip import Strip


class Painted(Strip):
    """One line of a block.

    `margin`: characters at its beginning that only painting put there. `joint`: what stood between
    the line above and this one before the two were wrapped; None where a line begins that was one
    in the text, too. `size`: characters without the blanks that fill it up to its width.
    """

    __slots__ = ("joint", "margin", "size")

    def __init__(
        self,
        segments: Iterable[Segment],
        *,
        margin: int = 0,
        joint: str | None = None,
        size: int | None = None,
    ) -> None:
        super().__init__(segments)
        self.margin = margin
        self.joint = joint
        self.size = sum(len(segment.text) for segment in self) if size is None else size
