"""Hashes of many files; a second pass reads only files that may have changed."""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from dirge_py.files.resolve import FILE, open_beneath, open_folder_handle
from dirge_py.files.versions import SETTLED_NS
from dirge_py.lib.file_lock import closing_descriptor
from dirge_py.lib.lean_dataclass import dataclass

_CHUNK_BYTES = 1 << 20


@dataclass(slots=True)
class _Known:
    """The result of the last check of a file. The stamp identifies the content if `is_settled`."""

    stamp: tuple[int, ...]
    digest: str
    is_settled: bool = False


@dataclass(slots=True)
class TreeDigest:
    """The hashes of many files."""

    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 by relative path."""
    unread: list[str] = field(default_factory=list)
    """Files that exist and cannot be read."""
    rewritten: list[str] = field(default_factory=list)
    """Files that were changed since the last time, and changed back."""

    @property
    def sha256(self) -> str:
        return sha256_of_files(self.files)


class RealFolders:
    """Checks, for one pass over many paths, whether they lead to a folder without links."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known = {"": True}

    def holds(self, folder: str) -> bool:
        """Whether the relative path `folder` is a real folder below the root."""
        if folder not in self._known:
            above, name = os.path.split(folder)
            leads_on = name not in ("", ".", "..") and self.holds(above)
            path = f"{self._root}/{folder}"
            self._known[folder] = leads_on and os.path.isdir(path) and not os.path.islink(path)
        return self._known[folder]


class TreeHash:
    """Hashes files below the folder `root`. For one thread at a time.

    A file's hash covers its content and its executable bit, a link's its target. No link is
    followed, not even of a parent folder, and everything except files and links is skipped.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, _Known] = {}

    def read(
        self, paths: Iterable[str], is_stopped: Callable[[], bool] = lambda: False
    ) -> TreeDigest:
        """Hash those of `paths` (relative, with `/`) that exist. Blocks. Raises OSError."""
        hashed, known = TreeDigest(), {}
        folders = RealFolders(self._root)
        with closing_descriptor(open_folder_handle(self._root)) as anchor:
            for path in sorted(set(paths)):
                if is_stopped():
                    break
                if not folders.holds(os.path.dirname(path)):
                    continue
                try:
                    now = self._digest(anchor, path, is_stopped)
                except OSError:
                    hashed.unread.append(path)
                    continue
                if now is None:
                    continue
                before = self._known.get(path)
                if before and before.digest == now.digest and before.stamp != now.stamp:
                    hashed.rewritten.append(path)
                hashed.files[path] = now.digest
                known[path] = now
        if not is_stopped():
            self._known = known
        return hashed

    def _digest(self, anchor: int, path: str, is_stopped: Callable[[], bool]) -> "_Known | None":
        """Hash one path; None if it is no file or link. Raises OSError if it can't be read."""
        full = f"{self._root}/{path}"
        try:
            status = os.lstat(full)
            if stat.S_ISLNK(status.st_mode):
                target = os.fsencode(os.readlink(full))
                return _Known(_stamp_of(status), hashlib.sha256(b"link\0" + target).hexdigest())
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        known = self._known.get(path)
        if known is not None and known.is_settled and known.stamp == _stamp_of(status):
            return known
        began_ns = time.time_ns()
        descriptor = open_beneath(anchor, path, FILE)
        with open(descriptor, "rb", buffering=0) as stream:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "no regular file any more")
            kind = b"program\0" if status.st_mode & stat.S_IXUSR else b"file\0"
            content = hashlib.sha256(kind)
            while chunk := stream.read(_CHUNK_BYTES):
                if is_stopped():
                    break
                content.update(chunk)
            stamp = _stamp_of(status)
            is_settled = max(status.st_mtime_ns, status.st_ctime_ns) < began_ns - SETTLED_NS
            is_same = stamp == _stamp_of(os.fstat(descriptor))
        return _Known(stamp, content.hexdigest(), is_settled=is_settled and is_same)


def sha256_of_files(files: Mapping[str, str]) -> str:
    """Return one hash of all files, independent of their order."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(os.fsencode(path) + b"\0" + files[path].encode() + b"\n")
    return whole.hexdigest()


def _stamp_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
