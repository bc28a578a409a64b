"""The writer's lock of a session: at most one process appends to a journal."""

import contextlib
import fcntl
import json
import os
from pathlib import Path

from dirge_py.types.errors import SessionBusy, SessionError

_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class WriterLock:
    """A held `flock` on a file of its own; the kernel frees it when the process ends, however.

    The file's content only tells others who holds it: process id, boot id, start of the process.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd: int | None = fd

    @classmethod
    def acquire(cls, path: Path) -> "WriterLock":
        """Take the lock at once or not at all.

        Raises:
            SessionBusy: another process (or another part of this one) holds it.
            SessionError: the folder cannot be written, or its file system has no locks.
        """
        while True:
            fd = _open_locked(path)
            # A holder removes the file before it lets go. Whoever opened it just before that has
            # now locked a file without a name, and must not be trusted to keep anybody out.
            if _is_still_at(path, fd):
                break
            os.close(fd)
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(_identity(os.getpid())).encode(), 0)
        return cls(path, fd)

    def release(self) -> None:
        """Let the next writer in. A second call changes nothing."""
        if self._fd is None:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._fd)
        self._fd = None


def writer_of(path: Path) -> int | None:
    """The process that holds the lock at `path`, as far as it can be told; nothing is locked."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _holder(fd)
    finally:
        os.close(fd)


def _open_locked(path: Path) -> int:
    try:
        fd = os.open(path, _OPEN_FLAGS, 0o600)
    except OSError as error:
        raise SessionError(
            f"The session's lock {str(path)!r} cannot be opened: {error.strerror}.",
            hint="Make the state folder writable, set DIRGE_STATE_DIR, or use `--no-session`.",
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = _holder(fd)
        os.close(fd)
        who = f"process {holder}" if holder else "another process"
        raise SessionBusy(
            f"Session {path.stem} is busy: it is in use by {who}.",
            session_id=path.stem,
            hint="Use `--fork-session` to branch off, or close the other one first.",
        ) from error
    except OSError as error:
        os.close(fd)
        raise SessionError(
            f"The file system of {str(path.parent)!r} cannot lock files: {error.strerror}.",
            hint="Set DIRGE_STATE_DIR to a folder on a local disk.",
        ) from error
    return fd


def _is_still_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except FileNotFoundError:
        return False


def _holder(fd: int) -> int | None:
    """The process that wrote its name into the lock, if it is the one that still runs."""
    try:
        written = json.loads(os.pread(fd, 4096, 0))
        pid = int(written["pid"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return pid if written == _identity(pid) else None


def _identity(pid: int) -> dict[str, object]:
    """Process ids are used again; together with boot and start time they are unique.

    Where /proc is missing both are empty.
    """
    return {"pid": pid, "boot_id": _boot_id(), "started": _start_ticks(pid)}


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _start_ticks(pid: int) -> str:
    """Field 22 of /proc/PID/stat; the second field may itself hold spaces and brackets."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    return stat.rpartition(b")")[2].split()[19].decode()
