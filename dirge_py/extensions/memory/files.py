"""Memory in two Markdown files that a person can read and edit."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from dirge_py.extensions.memory.base import (
    ENTRY_CHARS,
    MemoryUpdate,
    Remembered,
    StoreChanged,
    StoreName,
)
from dirge_py.extensions.memory.entries import matching, near, with_entry, with_replaced, without
from dirge_py.lib.file_lock import hold_lock
from dirge_py.lib.text import clean
from dirge_py.types.errors import DirgeError, FileError
from dirge_py.types.messages import Message

MAX_CHARS = 20_000
FILE_BYTES = 1024 * 1024
"""A file that is larger is neither read nor written: nobody keeps that many notes by hand."""

_PATIENCE_S = 5.0


class FileMemory:
    """A file per store. Each is written whole, one process at a time, from what it says then.

    `read(path, limit)` gives at most so many bytes of a regular file or raises OSError;
    `write(path, content)` replaces one for its owner alone. `redact` takes secrets out of what
    is written and of what is told.
    """

    def __init__(
        self,
        *,
        project_file: Path,
        user_file: Path,
        read: Callable[[Path, int], bytes],
        write: Callable[[Path, bytes], None],
        max_chars: int = MAX_CHARS,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._files: dict[StoreName, Path] = {"memory": project_file, "user": user_file}
        self._read = read
        self._write = write
        self._max_chars = max_chars
        self._redact = redact

    def prefetch(self) -> Remembered:
        notices: list[str] = []
        told: list[str] = []
        for path in self._files.values():
            try:
                text = self._text(path)
            except FileError as error:
                notices.append(f"{error.message} {error.hint}")
                text = ""
            # The patterns of secrets are compiled when they are first needed, which takes its time.
            text = self._redact(clean(text)).strip() if text else ""
            told.append(kept_end(text, self._max_chars))
        return Remembered(project=told[0], user=told[1], notices=tuple(notices))

    async def read(self, store: StoreName) -> str:
        return await asyncio.to_thread(self._text, self._files[store])

    async def update(self, change: MemoryUpdate) -> str:
        # In one thread from the lock to the end: a call that is given up lets nobody in too early.
        return await asyncio.to_thread(self._update, change)

    async def sync(self, messages: Sequence[Message]) -> None:
        """Nothing is left to do: every update was on disk when it returned."""

    def where(self, store: StoreName) -> str:
        return str(self._files[store])

    def _update(self, change: MemoryUpdate) -> str:
        path = self._files[change.store]
        content = self._redact(clean(change.content)).strip()
        _check(change, content)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A lock of its own: the file is replaced.
            with hold_lock(path.with_name(f".{path.name}.lock"), _PATIENCE_S):
                old = self._text(path)
                if change.expected is not None and old != change.expected:
                    raise StoreChanged(
                        f"{path.name} was changed meanwhile; nothing was written.",
                        hint="Look at what it says now.",
                    )
                new = _changed(old, change, content, path.name)
                if new == old:
                    return f"{path.name} says that already."
                if len(encoded := new.encode()) > FILE_BYTES:
                    raise FileError(f"{path.name} is full.", hint="Remove what no longer holds.")
                self._write(path, encoded)
        except OSError as error:
            raise _unusable(path, error, "written") from error
        is_redacted = content != clean(change.content).strip()
        told = _told(change, path.name, len(matching(old, change.match)))
        return told + (" A secret was left out." if is_redacted else "")

    def _text(self, path: Path) -> str:
        """The file as it is, "" if there is none. Raises FileError."""
        try:
            content = self._read(path, FILE_BYTES + 1)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise _unusable(path, error, "read") from error
        if len(content) > FILE_BYTES:
            raise FileError(
                f"{path} was not read: it is larger than {FILE_BYTES // 1024} KiB.",
                hint="Shorten it in an editor.",
            )
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise FileError(
                f"{path} was not read: byte {error.start} is not UTF-8.",
                hint="Save it as UTF-8, or move it away.",
            ) from error


def kept_end(text: str, max_chars: int) -> str:
    """The last `max_chars` of a text, below a line that says how much is missing."""
    missing = len(text) - max_chars
    if missing <= 0:
        return text
    return f"[{missing} characters at the beginning left off]\n{text[missing:]}"


def _check(change: MemoryUpdate, content: str) -> None:
    is_whole = change.action == "replace" and not change.match
    is_blank = not change.match.strip() and not is_whole
    if change.action != "add" and is_blank:
        raise DirgeError("`match` is missing.", hint="Give words of the entry that is meant.")
    if change.action != "remove" and not content and not is_whole:
        raise DirgeError("`content` is missing.", hint="Give what is to be remembered.")
    if change.action != "remove" and not is_whole and len(content) > ENTRY_CHARS:
        raise DirgeError(
            f"An entry has at most {ENTRY_CHARS:,} characters, this one {len(content):,}.",
            hint="Say it in fewer words, or as several entries.",
        )


def _changed(old: str, change: MemoryUpdate, content: str, name: str) -> str:
    if change.action == "add":
        return with_entry(old, content)
    if not change.match:
        return f"{content}\n" if content else ""
    if not matching(old, change.match):
        raise _no_match(old, change.match, name)
    if change.action == "remove":
        return without(old, change.match)
    return with_replaced(old, change.match, content)


def _no_match(text: str, match: str, name: str) -> DirgeError:
    shown = clean(" ".join(match.split()))[:80]
    lines = [f"`{clean(line)}`" for line in near(text, match)]
    hint = f"Nearest: {'; '.join(lines)}." if lines else f"{name} has nothing like it."
    return DirgeError(f"No entry of {name} holds `{shown}`; nothing was changed.", hint=hint)


def _told(change: MemoryUpdate, name: str, count: int) -> str:
    entries = "1 entry" if count == 1 else f"{count} entries"
    match change.action:
        case "add":
            return f"Added to {name}."
        case "remove":
            return f"Removed {entries} from {name}."
        case _:
            return f"Replaced {entries} in {name}." if change.match else f"{name} was rewritten."


def _unusable(path: Path, error: OSError, done: str) -> FileError:
    reason = error.strerror or str(error)
    hint = f"Make {path.parent} yours to read and write, or set `enabled = false` under [memory]."
    return FileError(f"{path} was not {done}: {reason}.", hint=hint)
