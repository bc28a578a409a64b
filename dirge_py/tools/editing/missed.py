"""The error of an edit that finds no place, apart from what looks for one: that is loaded late."""

from dirge_py.types.errors import FileError


class Missed(FileError):
    """The text to be replaced has not the one place it needs; `line` (from 0) is the nearest."""

    def __init__(self, message: str, *, hint: str, view: bytes, line: int | None) -> None:
        super().__init__(message, hint=hint)
        self.view = view
        self.line = line
