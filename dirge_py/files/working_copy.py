"""Copies of a project's files, so that work on them does not change the project.

They are in folders that only their owner can open, and that are removed at the end. A folder whose
lock no process holds was left by a killed program.
"""

import contextlib
import errno
import fcntl
import itertools
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from dirge_py.files.resolve import FILE, FOLDER, open_beneath, open_folder_handle, reason_of
from dirge_py.files.tree_hash import RealFolders
from dirge_py.lib.file_lock import closing_descriptor
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below_any
from dirge_py.types.errors import FileError

_CHUNK_BYTES = 1 << 20
_SPARE_BYTES = 64 << 20
_FICLONE = 0x40049409  # linux/fs.h

_NO_CLONES = frozenset(
    (errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, errno.EINVAL, errno.EPERM)
)

_PREFIX = "dirge-copy-"
_NAME = late_pattern(_PREFIX + "[a-z0-9_]{8}")
_LOCK = "lock"
_MARK = b"This folder belongs to a running dirge, which removes it at its end.\n"

_YOUNG_S = 60.0
"""The age below which a folder is kept, because its lock may not have been taken yet."""

_MOUNTS = "/proc/self/mountinfo"
_ESCAPE = late_pattern(rb"\\([0-7]{3})")


@dataclass(slots=True)
class CopyResult:
    """The result of a copy."""

    paths: list[str] = field(default_factory=list)
    """The files and links in the copy."""
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a path and the reason why it was not copied."""


class WorkingCopy:
    """Fills the empty folder `target` from the folder `source`; both physical."""

    def __init__(self, source: str, target: str) -> None:
        self._source = source
        self._target = target
        self._folders = RealFolders(source)
        self._made: set[str] = {""}
        self._can_clone = True

    def copy(
        self, paths: Iterable[str], is_stopped: Callable[[], bool] = lambda: False
    ) -> CopyResult:
        """Copy the files and links at these relative paths, with their modes and times. Blocks.

        Every file is independent: bytes are shared only if the file system makes sure that a change
        to one does not affect the other. Links are copied as they are, never followed. Raises
        FileError if there is not enough space, or the copy cannot be written.
        """
        wanted = sorted(set(paths))
        copied = CopyResult()
        try:
            needed = 0
            for path in wanted:
                with contextlib.suppress(OSError, ValueError):
                    needed += os.lstat(f"{self._source}/{path}").st_blocks * 512
            if needed + _SPARE_BYTES > shutil.disk_usage(self._target).free:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with closing_descriptor(open_folder_handle(self._source)) as anchor:
                for path in wanted:
                    if is_stopped():
                        break
                    self._copy(anchor, path, copied, is_stopped)
        except OSError as error:
            raise FileError(
                f"The project cannot be copied to {self._target}: {reason_of(error)}.",
                hint="Free some space there, or set TMPDIR to a folder with more space.",
            ) from error
        return copied

    def link(self, folders: Sequence[str]) -> None:
        """Add these folders of the source to the copy, as links to them. Raises OSError."""
        for path in folders:
            self._make_folder(os.path.dirname(path))
            # If part of the folder was copied, it exists already.
            with contextlib.suppress(FileExistsError):
                os.symlink(f"{self._source}/{path}", f"{self._target}/{path}")

    def make_folders(self, folders: Iterable[str]) -> None:
        """Create these folders in the copy. Raises OSError."""
        for path in folders:
            os.makedirs(os.path.join(self._target, path), exist_ok=True)

    def _copy(
        self, anchor: int, path: str, copied: CopyResult, is_stopped: Callable[[], bool]
    ) -> None:
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
        if self._can_clone:
            try:
                fcntl.ioctl(target, _FICLONE, source)
            except OSError as error:
                if error.errno not in _NO_CLONES:
                    raise
                self._can_clone = False
        return self._can_clone

    def _make_folder(self, folder: str) -> None:
        if folder not in self._made:
            self._make_folder(os.path.dirname(folder))
            os.mkdir(f"{self._target}/{folder}")
            self._made.add(folder)


def _written(descriptor: int, status: os.stat_result) -> Iterator[tuple[int, int]]:
    """Yield the parts of a file that use disk space; its holes may be larger than the disk."""
    size, end = status.st_size, 0
    if status.st_blocks * 512 >= size:
        yield 0, size
        return
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # only a hole is left
                yield end, size
            return
        yield start, min(end, size)


class CopyFolder:
    """A new temporary folder; `top` is the folder in it, of that `name`, for the copy."""

    def __init__(self, place: str, name: str) -> None:
        """Create the folder. Raises OSError if it cannot be created in `place`."""
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        self.top = os.path.join(self.folder, name if name not in ("", _LOCK) else "root")
        self._lock = -1
        try:
            flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_CREAT | os.O_EXCL
            self._lock = os.open(os.path.join(self.folder, _LOCK), flags, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._lock, _MARK)
            os.mkdir(self.top)
        except OSError:
            self.remove()
            raise

    def remove(self) -> bool:
        """Remove everything, whatever its modes are; return False if some of it is left. Blocks."""
        is_gone = remove_tree(self.folder, last=_LOCK)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        return is_gone


def remove_abandoned_copies(place: str) -> None:
    """Remove the copies in the folder `place` whose program has ended."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for name in filter(_NAME.fullmatch, os.listdir(place)):
        folder = os.path.join(place, name)
        with contextlib.suppress(OSError):  # it is in use, or no copy
            status = os.lstat(folder)
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if not is_ours or time.time() - status.st_mtime < _YOUNG_S:
                continue
            try:
                lock = os.open(os.path.join(folder, _LOCK), flags)
            except FileNotFoundError:
                # Its program was killed right here. If it is not a copy, it is not empty and stays.
                os.rmdir(folder)
                continue
            with open(lock, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if file.read(len(_MARK) + 1) == _MARK:
                    remove_tree(folder, last=_LOCK)


def place_for_copies(outside_of: Sequence[str]) -> str:
    """Return a folder for temporary files in none of these physical folders; "" if all are."""
    places = (tempfile.gettempdir(), "/tmp", "/var/tmp")
    real = [os.path.realpath(place) for place in places if os.access(place, os.W_OK)]
    return next((place for place in real if not is_below_any(place, outside_of)), "")


def remove_tree(folder: str, *, last: str = "") -> bool:
    """Remove a folder with everything that commands created in it. No link is followed.

    If anything is mounted in it, all of it stays. The file `last` is removed last, because an
    incomplete removal is recognized by it. Blocks.
    """
    if not _has_mounts(folder):
        # Deeper folders are moved up first, so that neither the length of a path nor the number of
        # open folders is a limit.
        token = secrets.token_hex(8)
        unused = (f".{token}.{number}" for number in itertools.count())
        with contextlib.suppress(OSError):
            with _opened(folder, None) as top:
                waiting = [name for name in os.listdir(top) if name != last]
                while waiting:
                    waiting += _remove(waiting.pop(), top, unused)
                if os.listdir(top) == [last]:
                    os.unlink(last, dir_fd=top)
            os.rmdir(folder)
    return not os.path.lexists(folder)


def _remove(name: str, top: int, unused: Iterator[str]) -> list[str]:
    """Remove `name` from `top`; its subfolders move to new names there, which are returned."""
    moved: list[str] = []
    with contextlib.suppress(OSError):
        if not _is_folder(name, top):
            os.unlink(name, dir_fd=top)
            return moved
        with _opened(name, top) as folder:
            for each in os.listdir(folder):
                with contextlib.suppress(OSError):
                    if _is_folder(each, folder):
                        up = next(unused)
                        # Opening it corrects its mode: only an owner with all rights may move it.
                        with _opened(each, folder):
                            os.rename(each, up, src_dir_fd=folder, dst_dir_fd=top)
                        moved.append(up)
                    else:
                        os.unlink(each, dir_fd=folder)
        os.rmdir(name, dir_fd=top)
    return moved


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


@contextmanager
def _opened(name: str, folder: int | None) -> Iterator[int]:
    """Yield a folder with its owner's rights. Raises OSError for a link, or another user's."""
    with closing_descriptor(open_folder_handle(name, folder)) as handle:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        opened = os.open(".", FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
    with closing_descriptor(opened):
        yield opened


def _has_mounts(folder: str) -> bool:
    """Whether anything is mounted in it; False if that is unknown."""
    try:
        with open(_MOUNTS, "rb") as stream:
            lines = stream.read().split(b"\n")
    except OSError:
        return False
    real = os.fsencode(os.path.realpath(folder)) + b"/"
    escaped = (line.split(b" ")[4] for line in lines if line.count(b" ") > 4)
    places = (_ESCAPE.sub(lambda code: bytes((int(code[1], 8),)), each) for each in escaped)
    return any((place + b"/").startswith(real) for place in places)
