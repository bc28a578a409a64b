"""What a person takes of the changes that a call would make: hunks of files, or texts of theirs."""

from collections.abc import Sequence
from dataclasses import replace

from dirge_py.lib.hunks import Change, diff_hunks
from dirge_py.types.tools import FileChange


class FileSelection:
    """One file: the hunks of its change, and which of them are accepted; at first all are.

    That a file comes to be, goes, or only moves is one hunk. `origin` is what stood at the path it
    moves from; to refuse all of it leaves it there.
    """

    def __init__(self, shown: FileChange, origin: FileChange | None = None) -> None:
        self.shown = shown
        self.before = shown.before if origin is None else origin.before
        self.moved_from = "" if origin is None else origin.path
        self._is_edited = False
        self._take_up(shown.after)

    @property
    def path(self) -> str:
        return self.shown.path

    @property
    def is_new(self) -> bool:
        return self.before is None

    @property
    def is_removal(self) -> bool:
        return self.shown.after is None

    @property
    def text(self) -> str:
        """The file as it would be, with what is accepted."""
        if self.is_new:
            return self._proposed or ""
        return self.change.take(self.accepted)

    def edit(self, text: str) -> None:
        """The person wrote this text for the file: all of it is accepted."""
        self._is_edited = True
        self._take_up(text)

    def take_as_shown(self) -> None:
        """Forget what the person made of it."""
        self._is_edited = False
        self._take_up(self.shown.after)

    @property
    def is_refused(self) -> bool:
        """Nothing of it is left."""
        return not self.accepted

    def outcome(self) -> FileChange | None:
        """What became of the file; None if it was taken as it was shown.

        `after` is None for a file that is left alone.
        """
        if self.is_refused:
            return replace(self.shown, after=None)
        if len(self.accepted) == self.count and not self._is_edited:
            return None
        return replace(self.shown, after=self.text)

    def _take_up(self, after: str | None) -> None:
        self._proposed = after
        self.change: Change = diff_hunks(self.before or "", after or "")
        self.count = len(self.change.hunks)
        if self.is_new or self.is_removal or (self.moved_from and not self.count):
            self.count = 1
        self.accepted = set(range(self.count))


class Selection:
    """All files of a preview, with a cursor that is on one hunk."""

    def __init__(self, changes: Sequence[FileChange]) -> None:
        by_path = {change.path: change for change in changes if change.before is not None}
        sources = {change.moved_from for change in changes if change.moved_from in by_path}
        self.files = [
            FileSelection(change, by_path.get(change.moved_from))
            for change in changes
            # What moves is one file, not one that goes and one that comes.
            if not (change.after is None and change.path in sources)
        ]
        self.at = 0

    @property
    def places(self) -> Sequence[tuple[int, int]]:
        """Every hunk, as the number of its file and its own; in the order shown."""
        return [(f, h) for f, file in enumerate(self.files) for h in range(file.count)]

    @property
    def place(self) -> tuple[int, int] | None:
        places = self.places
        return places[min(self.at, len(places) - 1)] if places else None

    def move(self, step: int) -> None:
        last = max(0, len(self.places) - 1)
        self.at = max(0, min(last, self.at + step))

    def mark(self, *, accepted: bool | None = None) -> None:
        """Accept or refuse the hunk at the cursor; None: the other of the two."""
        if self.place is None:
            return
        number, hunk = self.place
        file = self.files[number]
        if accepted is None:
            accepted = hunk not in file.accepted
        (file.accepted.add if accepted else file.accepted.discard)(hunk)

    def take_all_as_shown(self) -> None:
        """Forget what the person made of the files."""
        self.at = 0
        for file in self.files:
            file.take_as_shown()

    @property
    def accepted(self) -> int:
        return sum(len(file.accepted) for file in self.files)

    def outcome(self) -> tuple[FileChange, ...] | None:
        """The files that a person touched; None if all was taken as it was shown."""
        return tuple(found for file in self.files if (found := file.outcome())) or None
