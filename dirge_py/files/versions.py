"""Versions of files: identities and fingerprints, detection of changes, and files already read."""

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from dirge_py.files.safe_read import read_regular
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """One version of one file. `sha256` is None if the file was too large to hash."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    sha256: str | None

    @classmethod
    def of(cls, status: os.stat_result, sha256: str | None) -> "FileIdentity":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, sha256)

    def same_version(self, other: "FileIdentity") -> bool:
        """Whether both are the same version of the file: by content, if both were hashed."""
        if self.sha256 is not None and other.sha256 is not None:
            return self.sha256 == other.sha256
        return replace(self, sha256=None) == replace(other, sha256=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """The whole content of a file at one moment. `real` is its physical path."""

    real: str
    content: bytes
    identity: FileIdentity


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


MAX_STORED = 50
"""The most files whose version is stored for the next start: the latest ones."""


class ReadLog:
    """The last known version of every file read or written, by physical path."""

    def __init__(self) -> None:
        self._known: dict[str, FileIdentity] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        self._misses: dict[str, int] = {}
        self._refused: dict[str, str] = {}

    def remember(self, real: str, identity: FileIdentity) -> None:
        """Record that `real` was seen in the version `identity`, which replaces an earlier one."""
        self._known.pop(real, None)
        self._known[real] = identity

    def forget(self, real: str) -> None:
        """Record that `real` was removed."""
        self._known.pop(real, None)

    def missed(self, real: str) -> int:
        """Record that a change's text was not found in `real`; return the number in a row."""
        self._misses[real] = self._misses.get(real, 0) + 1
        return self._misses[real]

    def landed(self, real: str) -> None:
        """Record that a change of `real` succeeded."""
        self._misses.pop(real, None)
        self._refused.pop(real, None)

    def insists(self, real: str, sha256: str) -> bool:
        """Whether exactly this content of `real` was refused the last time, too."""
        before = self._refused.get(real)
        self._refused[real] = sha256
        return before == sha256

    def stored(self) -> dict[str, str]:
        """Return the latest files and the sha256 of what was seen, as JSON values."""
        known = dict(self._known).items()
        hashed = [(real, identity.sha256) for real, identity in known if identity.sha256]
        return dict(hashed[-MAX_STORED:])

    def load(self, stored: Any) -> None:
        """Restore what `stored` returned. A file with the same content then counts as read."""
        entries = stored.items() if isinstance(stored, Mapping) else ()
        self._known = {
            real: FileIdentity(0, 0, 0, 0, sha256)
            for real, sha256 in entries
            if isinstance(real, str) and isinstance(sha256, str)
        }

    def knows(self, real: str) -> bool:
        return real in self._known

    def check_fresh(self, shown: str, now: FileContent) -> None:
        """Raise FileError if the file was never read, or was read in another version than `now`."""
        known = self._known.get(now.real)
        if known is None:
            hint = "Use `read` on it first."
            raise FileError(f"{shown} exists and has not been read.", hint=hint)
        if not known.same_version(now.identity):
            raise changed_since_read(shown)

    def lock(self, real: str) -> threading.Lock:
        """Return the lock that a writer of `real` holds from the last check to the rename."""
        with self._guard:
            return self._locks.setdefault(real, threading.Lock())


def changed_since_read(shown: str) -> FileError:
    return FileError(
        f"{shown} has changed since it was read; nothing was written.",
        hint="Use `read` on it again, then repeat the change for its new content.",
    )


T = TypeVar("T")
Stamp: TypeAlias = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, and the times of the last change of content and of attributes."""
SETTLED_NS = 2_000_000_000
"""A change this recent may be followed by another within one tick of the file system's clock."""


def stamp_of(path: str, *, follow: bool = True) -> Stamp:
    """Return a stamp that changes with a file, even if its time is reset. Raises OSError."""
    status = os.stat(path, follow_symlinks=follow)
    identity = status.st_dev, status.st_ino
    return *identity, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_settled(stamp: Stamp) -> bool:
    """Whether another change would certainly give the file another stamp."""
    return time.time_ns() - max(stamp[3:]) > SETTLED_NS


class StampCache(Generic[T]):
    """Caches at most `most` values by path; one is read again once the path's stamp has changed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[str, tuple[Stamp, T]] = {}

    def get(self, path: str, read: Callable[[str], T], *, follow: bool = True) -> T:
        """Return what `read` gives for `path`; without `follow` for a link. May raise OSError."""
        stamp = stamp_of(path, follow=follow)
        known = self._values.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        value = read(path)
        if is_settled(stamp):
            if len(self._values) >= self._most:
                self._values.clear()
            self._values[path] = (stamp, value)
        return value


MAX_HASHED_BYTES = 1024 * 1024
"""A larger file is identified by its inode, size and times instead of its content."""
_LENGTH = 32


def fingerprint(path: str, *, with_content: bool) -> str | None:
    """Return a fingerprint of `path`: its physical path, and `with_content` the file's content.

    None if the file cannot be examined; without content also if the path has no links.
    """
    try:
        real = os.path.realpath(path)
        if not with_content:
            return short_digest(real) if real != path else None
        status = os.stat(real)
        content = "no file"
        if stat.S_ISREG(status.st_mode):
            content = version_text(status)
            with suppress(PermissionError):
                if status.st_size <= MAX_HASHED_BYTES:
                    content = sha256_of(read_regular(Path(real), MAX_HASHED_BYTES + 1))
        return short_digest(real, content)
    except (OSError, ValueError):
        return None


def version_text(status: os.stat_result) -> str:
    """Return a text that identifies a file's version by its status, without reading it."""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def short_digest(*parts: str) -> str:
    """Return one text of fixed length for all of `parts`."""
    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:_LENGTH]
