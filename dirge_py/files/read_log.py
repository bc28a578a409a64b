"""What has been read in which version, and how changes went that were tried.

Nobody changes a file whose content they do not know, and the same mistake is not answered the same
for ever.
"""

import threading
from collections.abc import Mapping
from typing import Any

from dirge_py.files.identity import FileIdentity
from dirge_py.types.errors import FileError

MOST_STORED = 50
"""Files whose version is kept for the next start: those seen last."""


class ReadLog:
    """The last known version of every file read or written, by physical path."""

    def __init__(self) -> None:
        self._known: dict[str, FileIdentity] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        self._misses: dict[str, int] = {}
        self._refused: dict[str, str] = {}

    def remember(self, real: str, identity: FileIdentity) -> None:
        """`real` has been seen in the version `identity`. A later version replaces it."""
        self._known.pop(real, None)
        self._known[real] = identity

    def forget(self, real: str) -> None:
        """`real` is gone."""
        self._known.pop(real, None)

    def missed(self, real: str) -> int:
        """A change found no place in `real`: how often that happened in a row, this time too."""
        self._misses[real] = self._misses.get(real, 0) + 1
        return self._misses[real]

    def landed(self, real: str) -> None:
        """A change of `real` was made."""
        self._misses.pop(real, None)
        self._refused.pop(real, None)

    def insists(self, real: str, sha256: str) -> bool:
        """Whether this very content of `real` was refused the last time too."""
        before = self._refused.get(real)
        self._refused[real] = sha256
        return before == sha256

    def stored(self) -> dict[str, str]:
        """The files seen last and the sha256 of what was seen, as JSON values."""
        hashed = [(real, one.sha256) for real, one in dict(self._known).items() if one.sha256]
        return dict(hashed[-MOST_STORED:])

    def load(self, stored: Any) -> None:
        """Know what `stored` gave once, and nothing else.

        A file is as good as read if its bytes are the same; that is looked at when it is used.
        """
        entries = stored.items() if isinstance(stored, Mapping) else ()
        self._known = {
            real: FileIdentity(0, 0, 0, 0, sha256)
            for real, sha256 in entries
            if isinstance(real, str) and isinstance(sha256, str)
        }

    def knows(self, real: str) -> bool:
        return real in self._known

    def check_fresh(self, real: str, now: FileIdentity, *, shown: str) -> None:
        """Return if the version that was read is the one that stands there `now`.

        Raises:
            FileError: it was never read, or has changed since.
        """
        known = self._known.get(real)
        if known is None:
            raise not_read(shown)
        if not known.same_version(now):
            raise changed_since_read(shown)

    def lock(self, real: str) -> threading.Lock:
        """The lock that whoever changes `real` holds from the last check to the rename."""
        with self._guard:
            return self._locks.setdefault(real, threading.Lock())


def not_read(shown: str) -> FileError:
    return FileError(f"{shown} exists and has not been read.", hint="Use `read` on it first.")


def changed_since_read(shown: str) -> FileError:
    return FileError(
        f"{shown} has changed since it was read; nothing was written.",
        hint="Use `read` on it again, then repeat the change against what it says now.",
    )
