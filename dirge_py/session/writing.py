"""The file of a journal that is written: whole records or nothing."""

import contextlib
import errno
import os
from pathlib import Path

from dirge_py.session.disk import APPEND_FLAGS, make_folder, open_regular, sync_folder, write_all


class SegmentFile:
    """One segment, held open for its writer. It appears on disk with the first append.

    `records` and `size` (bytes) are what it holds.
    """

    def __init__(self, path: Path, *, number: int) -> None:
        self.path = path
        self.number = number
        self.records = 0
        self.size = 0
        self._fd: int | None = None

    def open(self, *, records: int) -> None:
        """Open the file that is there, which holds so many records.

        Raises:
            SessionError: it cannot be opened, or is no regular file.
        """
        self._fd = open_regular(self.path, APPEND_FLAGS)
        self.records = records
        self.size = os.fstat(self._fd).st_size

    def append(self, payload: bytes, *, records: int, sync: bool) -> None:
        """Add `records` whole lines behind the last one, a torn one included.

        Raises:
            OSError: nothing was written.
        """
        fd = self._created() if self._fd is None else self._fd
        before = os.fstat(fd)
        if before.st_nlink == 0:
            raise OSError(errno.ESTALE, "its file was deleted")
        if before.st_size and os.pread(fd, 1, before.st_size - 1) != b"\n":
            payload = b"\n" + payload
        try:
            write_all(fd, payload)
            if sync:
                os.fsync(fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, before.st_size)
            raise
        self.records += records
        self.size = before.st_size + len(payload)

    def sync(self) -> None:
        """Have on the disk what was written. Raises OSError."""
        if self._fd is not None:
            os.fsync(self._fd)

    def cut(self, size: int) -> None:
        """Take off what comes behind the first `size` bytes. Raises OSError."""
        if self._fd is not None:
            os.ftruncate(self._fd, size)
            self.size = size

    def close(self) -> None:
        """Let go of it; an empty one is removed."""
        if self._fd is None:
            return
        with contextlib.suppress(OSError):
            os.fsync(self._fd)
            if os.fstat(self._fd).st_size == 0:
                self.path.unlink()
        os.close(self._fd)
        self._fd = None

    def _created(self) -> int:
        folder = self.path.parent
        if self.number > 1:
            make_folder(folder)
        self._fd = os.open(self.path, APPEND_FLAGS | os.O_CREAT, 0o600)
        sync_folder(folder)
        return self._fd
