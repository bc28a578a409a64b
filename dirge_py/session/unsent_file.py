"""The draft of a session in which nothing was said yet, and one too long for a journal."""

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.disk import APPEND_FLAGS, make_folders, open_regular, write_all
from dirge_py.types.errors import SessionError

_ENDING = ".unsent"
_LARGEST_BYTES = 8_388_608
"""A file that grew beyond is begun anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A draft and those put aside, the last one on top. `session`: "" for one not begun."""

    draft: str = ""
    stash: tuple[str, ...] = ()
    session: str = ""


class UnsentFile:
    """A file of this process: each state is a line, the last whole one counts.

    The kernel holds its lock as long as we live, so that others know when to take over what is in
    it. What cannot be written is not kept. `redact` is applied to every text.
    """

    def __init__(self, folder: Path, redact: Callable[[str], str] = lambda text: text) -> None:
        self._folder = folder
        self._redact = redact
        self._path: Path | None = None
        self._fd = -1
        self._kept = Typed()

    def keep(self, typed: Typed) -> None:
        """Write it down; nothing typed leaves no file."""
        if not (typed.draft or typed.stash):
            self.clear()
        elif typed != self._kept:
            with contextlib.suppress(OSError):
                self._write(typed)
                self._kept = typed

    def clear(self) -> None:
        """Remove the file: what was in it is elsewhere, or nowhere."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self.close()

    def close(self) -> None:
        """Leave the file to whoever comes next."""
        if self._path is not None:
            os.close(self._fd)
        self._path, self._kept = None, Typed()

    def take_over(self, session: str) -> Typed:
        """What processes that are gone have left for this session, which is ours from now on.

        Of several drafts the newest is the draft, the others are put on the stash.
        """
        with contextlib.ExitStack() as held:
            left = {
                path: typed
                for path in self._oldest_first()
                if (typed := _held(path, session, held)) is not None
            }
            drafts = [typed.draft for typed in left.values() if typed.draft]
            stash = [text for typed in left.values() for text in typed.stash]
            found = Typed(
                draft=drafts[-1] if drafts else "", stash=(*drafts[:-1], *stash), session=session
            )
            self.keep(found)
            if self._kept == found or not (found.draft or found.stash):
                # Not before it is written down here.
                for path in left:
                    with contextlib.suppress(OSError):
                        path.unlink()
        return found

    def _oldest_first(self) -> list[Path]:
        with contextlib.suppress(OSError):
            paths = [path for path in self._folder.glob(f"*{_ENDING}") if path != self._path]
            return sorted(paths, key=lambda path: path.lstat().st_mtime)
        return []

    def _write(self, typed: Typed) -> None:
        state = {
            "session": typed.session,
            "draft": _plain(self._redact(typed.draft)),
            "stash": [_plain(self._redact(text)) for text in typed.stash],
        }
        line = b"\n" + json.dumps(state, ensure_ascii=False).encode() + b"\n"
        before = self._path, self._fd
        if self._path is None or os.fstat(self._fd).st_size + len(line) > _LARGEST_BYTES:
            self._begin()
        write_all(self._fd, line)
        if before[0] is not None and before[0] != self._path:
            before[0].unlink()
            os.close(before[1])

    def _begin(self) -> None:
        make_folders(self._folder)
        path = self._folder / f"{secrets.token_hex(8)}{_ENDING}"
        fd = os.open(path, APPEND_FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._path, self._fd = path, fd


def _held(path: Path, session: str, held: contextlib.ExitStack) -> Typed | None:
    """What is in the file of a process that is gone; it is locked for as long as `held` lasts."""
    try:
        fd = open_regular(path, APPEND_FLAGS)
    except SessionError:
        return None
    file = held.enter_context(os.fdopen(fd, "rb"))
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None  # It is alive.
    typed = next(_states(file.read(2 * _LARGEST_BYTES)), Typed())
    return None if typed.session != session and (typed.draft or typed.stash) else typed


def _states(content: bytes) -> Iterator[Typed]:
    """The states that can be read, the newest first."""
    for line in reversed(content.splitlines()):
        try:
            state: Any = json.loads(line)
            texts = [state["draft"], state["session"], *state["stash"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if all(isinstance(text, str) for text in texts):
            yield Typed(draft=texts[0], session=texts[1], stash=tuple(texts[2:]))


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
