"""Copying the files of a project, so that work on them leaves the project as it is."""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dirge_py.files.beneath import FILE, open_beneath, open_folder_handle
from dirge_py.files.resolve import reason_of
from dirge_py.files.tree_hash import RealFolders
from dirge_py.types.errors import FileError

_CHUNK_BYTES = 1 << 20
_SPARE_BYTES = 64 << 20
_FICLONE = 0x40049409  # linux/fs.h
_NO_CLONES = frozenset(
    (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, errno.EINVAL, errno.EPERM)
)


@dataclass(slots=True)
class Copied:
    """`paths` that the copy has; `left_out` are pairs of a path and why it was not copied."""

    paths: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


class WorkingCopy:
    """Fills the empty folder `target` from the folder `source`; both physical."""

    def __init__(self, source: str, target: str) -> None:
        self._source = source
        self._target = target
        self._folders = RealFolders(source)
        self._made: set[str] = {""}
        self._can_clone = hasattr(fcntl, "ioctl")

    def copy(self, paths: Iterable[str], is_stopped: Callable[[], bool] = lambda: False) -> Copied:
        """Copy the files and links at these relative paths, with their modes and times. Blocks.

        Every file is one of its own: bytes are shared only where the file system sees to it that a
        change of the one does not show in the other. Links are copied as they are, never followed.

        Raises:
            FileError: there is no room for it, or the copy cannot be written.
        """
        wanted = sorted(set(paths))
        copied = Copied()
        try:
            self._check_room(wanted)
            anchor = open_folder_handle(self._source)
            try:
                for path in wanted:
                    if is_stopped():
                        break
                    self._copy(anchor, path, copied, is_stopped)
            finally:
                os.close(anchor)
        except OSError as error:
            raise FileError(
                f"The project cannot be copied to {self._target}: {reason_of(error)}.",
                hint="Make room there, or set TMPDIR to a folder that has it.",
            ) from error
        return copied

    def link(self, folders: Sequence[str]) -> None:
        """Have these folders of the source in the copy, as links to them.

        Raises:
            OSError: a link cannot be made.
        """
        for path in folders:
            self._make_folder(os.path.dirname(path))
            # Where some of it was copied there is a folder already.
            with contextlib.suppress(FileExistsError):
                os.symlink(f"{self._source}/{path}", f"{self._target}/{path}")

    def make_folders(self, folders: Iterable[str]) -> None:
        """Have these folders in the copy, empty or not. Raises OSError."""
        for path in folders:
            os.makedirs(os.path.join(self._target, path), exist_ok=True)

    def _check_room(self, paths: Sequence[str]) -> None:
        needed = 0
        for path in paths:
            with contextlib.suppress(OSError, ValueError):
                needed += os.lstat(f"{self._source}/{path}").st_blocks * 512
        if needed + _SPARE_BYTES > shutil.disk_usage(self._target).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _copy(self, anchor: int, path: str, copied: Copied, is_stopped: Callable[[], bool]) -> None:
        folder = os.path.dirname(path)
        if not self._folders.holds(folder):
            return
        source, target = f"{self._source}/{path}", f"{self._target}/{path}"
        try:
            status = os.lstat(source)
            if stat.S_ISLNK(status.st_mode):
                pointed = os.readlink(source)
            elif stat.S_ISREG(status.st_mode):
                descriptor = open_beneath(anchor, path, FILE)
            else:
                if not stat.S_ISDIR(status.st_mode):
                    copied.left_out.append((path, "no regular file"))
                return
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            why = reason_of(error) if isinstance(error, OSError) else str(error)
            copied.left_out.append((path, why))
            return
        self._make_folder(folder)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(pointed, target)
        else:
            with open(descriptor, "rb", buffering=0):
                self._write(descriptor, target, is_stopped)
        copied.paths.append(path)

    def _write(self, source: int, target: str, is_stopped: Callable[[], bool]) -> None:
        status = os.fstat(source)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(target, flags, 0o600), "wb") as copy:
            if not self._is_cloned(source, copy.fileno()):
                for start, end in _written(source, status):
                    copy.seek(start)
                    while start < end and not is_stopped():
                        chunk = os.pread(source, min(_CHUNK_BYTES, end - start), start)
                        copy.write(chunk)
                        start = start + len(chunk) if chunk else end
                copy.truncate(status.st_size)
            copy.flush()
            os.fchmod(copy.fileno(), status.st_mode & 0o777)
            os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))

    def _is_cloned(self, source: int, target: int) -> bool:
        if not self._can_clone:
            return False
        try:
            fcntl.ioctl(target, _FICLONE, source)
        except OSError as error:
            if error.errno not in _NO_CLONES:
                raise
            self._can_clone = False
            return False
        return True

    def _make_folder(self, folder: str) -> None:
        if folder not in self._made:
            self._make_folder(os.path.dirname(folder))
            os.mkdir(f"{self._target}/{folder}")
            self._made.add(folder)


def _written(descriptor: int, status: os.stat_result) -> Iterator[tuple[int, int]]:
    """The parts of a file that take room. The holes between them may be larger than the disk."""
    size, end = status.st_size, 0
    if status.st_blocks * 512 >= size:
        yield 0, size
        return
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # which says that only a hole is left
                yield end, size
            return
        yield start, min(end, size)
