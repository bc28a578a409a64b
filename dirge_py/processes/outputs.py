"""Where output too big to show is kept, readable only by its owner."""

import dataclasses
import os
import re
from contextlib import suppress
from pathlib import Path

from dirge_py.types.errors import FileError

MAX_FILE_BYTES = 64 * 1024 * 1024

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclasses.dataclass(slots=True)
class OutputFile:
    """A file being filled, up to `MAX_FILE_BYTES`; what comes after that is let go.

    Never raises: when the disk is full or the folder is gone, `error` says so, the file is
    removed, and whoever writes goes on without it.
    """

    path: str
    written: int = 0
    error: str = ""
    _fd: int | None = None

    def write(self, chunk: bytes) -> None:
        if self._fd is None:
            return
        waiting = memoryview(chunk)[: MAX_FILE_BYTES - self.written]
        try:
            while waiting:  # a nearly full disk takes a part without saying so
                count = os.write(self._fd, waiting)
                self.written += count
                waiting = waiting[count:]
        except OSError as error:
            self.error = error.strerror or str(error)
            self.close()
            with suppress(OSError):
                os.unlink(self.path)

    def close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                os.close(fd)


class OutputStore:
    """The folder of kept outputs of one conversation. Made when first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, name: str) -> OutputFile:
        """A new file named after `name`; look at its `error` before you trust it."""
        stem = _UNSAFE.sub("_", name).strip("._")[:80] or "output"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._open(stem)
        except OSError as error:
            return OutputFile(path="", error=error.strerror or str(error))

    def keep(self, call_id: str, output: bytes) -> str:
        """Store `output` whole; returns the path at which it is found.

        Raises:
            FileError: it could not be stored.
        """
        file = self.create(call_id)
        file.write(output)
        file.close()
        if file.error:
            raise FileError(
                f"Output could not be kept in {self.folder}: {file.error}.",
                hint="Ask for less at once.",
            )
        return file.path

    def _open(self, stem: str) -> OutputFile:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        number = 1
        while True:
            path = str(self.folder / (f"{stem}.txt" if number == 1 else f"{stem}-{number}.txt"))
            try:
                return OutputFile(path=path, _fd=os.open(path, flags, 0o600))
            except FileExistsError:
                number += 1
