"""What files held before tools changed them: whether it can be brought back, and keeping it."""

from collections.abc import Callable

Unkept = Callable[[str], str]
Keep = Callable[[str, Callable[[], bytes]], None]


class Originals:
    """The contents that tools replace or remove, for whoever keeps them.

    Whoever keeps snapshots sets both functions; without them nothing is kept and nothing is said.
    """

    def __init__(self) -> None:
        self.unkept: Unkept = lambda real: ""
        """Why removing the file at this physical path needs a person's word, as no snapshot holds
        it; "" where one does."""
        self.keep: Keep = lambda real, read: None
        """Called with a physical path and what reads it, before a tool replaces or removes it.

        Raises FileError where that could not be kept: then nothing is changed."""
