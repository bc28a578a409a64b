"""Memory in two Markdown files that users can read and edit.

A file is a list of entries: an item with the indented lines below it, or any other line.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from dirge_py.config.paths import config_dir, state_dir
from dirge_py.config.schema import Config
from dirge_py.files.atomic import atomic_write
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.file_lock import hold_lock
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean
from dirge_py.session.ids import project_id, project_root
from dirge_py.types.errors import DirgeError, FileError
from dirge_py.types.memory import (
    ENTRY_CHARS,
    MemoryConflict,
    MemoryProvider,
    MemoryUpdate,
    RecalledMemory,
    StoreName,
)
from dirge_py.types.messages import Message

MAX_CHARS = 20_000
FILE_BYTES = 1024 * 1024
"""A larger file is neither read nor written."""
_LOCK_TIMEOUT_S = 5.0
_LINES = late_pattern(r"[^\n]*\n|[^\n]+")
_ITEM = late_pattern(r"[-*+] ")
_OPENING = late_pattern(r"[-*+] |#")
_MAX_NEAREST = 3
_COMPARED_ENTRIES = 500
_NEAR_CHARS = 120


class FileMemory:
    """A file for each store; `redact` removes secrets from what is written and what a run gets."""

    def __init__(
        self,
        *,
        project_file: Path,
        user_file: Path,
        max_chars: int = MAX_CHARS,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._shared = project_file
        self._files: dict[StoreName, Path] = {"memory": project_file, "user": user_file}
        self._max_chars = max_chars
        self._redact = redact

    def prefetch(self) -> RecalledMemory:
        notices: list[str] = []
        texts: list[str] = []
        for path in self._files.values():
            try:
                text = self._text(path)
            except FileError as error:
                notices.append(error.in_one_line())
                text = ""
            # Redacting for the first time compiles the patterns of secrets, which takes time.
            text = self._redact(clean(text)).strip() if text else ""
            if (missing := len(text) - self._max_chars) > 0:
                text = f"[{missing} characters at the beginning left off]\n{text[missing:]}"
            texts.append(text)
        return RecalledMemory(project=texts[0], user=texts[1], notices=tuple(notices))

    async def read(self, store: StoreName) -> str:
        return await asyncio.to_thread(self._text, self._files[store])

    async def update(self, change: MemoryUpdate) -> str:
        # All in one thread, so that a cancelled call does not release the lock too early.
        return await asyncio.to_thread(self._update, change)

    async def sync(self, messages: Sequence[Message]) -> None:
        """Do nothing: every update was on disk when it returned."""

    def use_scope(self, scope: str) -> None:
        """Use the file of `scope` (`MEMORY.<scope>.md`) for the project; "": the shared one."""
        name = f"{self._shared.stem}.{scope}{self._shared.suffix}" if scope else self._shared.name
        self._files["memory"] = self._shared.with_name(name)

    def where(self, store: StoreName) -> str:
        return str(self._files[store])

    def _update(self, change: MemoryUpdate) -> str:
        path = self._files[change.store]
        content = self._redact(clean(change.content)).strip()
        _check_change(change, content)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Not the file's own lock, because the file is replaced.
            with hold_lock(path.with_name(f".{path.name}.lock"), _LOCK_TIMEOUT_S):
                old = self._text(path)
                if change.expected is not None and old != change.expected:
                    text = f"{path.name} has changed since it was read; nothing was written."
                    raise MemoryConflict(text, hint="Read it again.")
                new, words = _apply_change(old, change, content, path.name)
                if new == old:
                    return f"{path.name} contains that already."
                if len(encoded := new.encode()) > FILE_BYTES:
                    raise FileError(f"{path.name} is full.", hint="Remove outdated entries.")
                atomic_write(path, encoded, mode=0o600)
        except OSError as error:
            raise _unusable(path, error, "written") from error
        is_redacted = content != clean(change.content).strip()
        return words + (" A secret was left out." if is_redacted else "")

    def _text(self, path: Path) -> str:
        """Return the content of the file, "" if there is none. Raises FileError."""
        try:
            content = read_regular(path, FILE_BYTES + 1)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise _unusable(path, error, "read") from error
        if len(content) > FILE_BYTES:
            text = f"{path} was not read: it is larger than {FILE_BYTES // 1024} KiB."
            raise FileError(text, hint="Shorten it in an editor.")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            text = f"{path} was not read: byte {error.start} is not UTF-8."
            raise FileError(text, hint="Save it as UTF-8, or move it away.") from error


def _check_change(change: MemoryUpdate, content: str) -> None:
    is_whole = change.action == "replace" and not change.match
    is_blank = not change.match.strip() and not is_whole
    if change.action != "add" and is_blank:
        raise DirgeError("`match` is missing.", hint="Give words of the entry that you mean.")
    if change.action != "remove" and not content and not is_whole:
        raise DirgeError("`content` is missing.", hint="Give the text to remember.")
    if change.action != "remove" and not is_whole and len(content) > ENTRY_CHARS:
        raise DirgeError(
            f"An entry has at most {ENTRY_CHARS:,} characters, this one {len(content):,}.",
            hint="Use fewer words, or several entries.",
        )


def _apply_change(old: str, change: MemoryUpdate, content: str, name: str) -> tuple[str, str]:
    """Return the new text, and a description of the change."""
    if change.action == "add":
        return add_entry(old, content), f"Added to {name}."
    if not change.match:
        return f"{content}\n" if content else "", f"{name} was rewritten."
    count = len(matching_entries(old, change.match))
    if not count:
        shown = clean(" ".join(change.match.split()))[:80]
        nearest = [f"`{clean(line)}`" for line in nearest_entries(old, change.match)]
        raise DirgeError(
            f"No entry of {name} contains `{shown}`; nothing was changed.",
            hint=f"Nearest: {'; '.join(nearest)}." if nearest else f"{name} has nothing like it.",
        )
    entries = "1 entry" if count == 1 else f"{count} entries"
    if change.action == "remove":
        return remove_entries(old, change.match), f"Removed {entries} from {name}."
    return replace_entries(old, change.match, content), f"Replaced {entries} in {name}."


def _unusable(path: Path, error: OSError, done: str) -> FileError:
    reason = error.strerror or str(error)
    hint = f"Make {path.parent} yours to read and write, or set `enabled = false` under [memory]."
    return FileError(f"{path} was not {done}: {reason}.", hint=hint)


def split_entries(text: str) -> list[str]:
    """Return the entries in order, line ends included; joined they are `text` again."""
    entries: list[str] = []
    for line in _LINES.findall(text):
        is_deeper = line[0] in " \t" and not line.isspace()
        if is_deeper and entries and _ITEM.match(entries[-1]):
            entries[-1] += line
        else:
            entries.append(line)
    return entries


def as_entry(content: str) -> str:
    """Return `content` as an item of a list, unless it is a heading or an item already."""
    lines = [line.rstrip() for line in content.strip().split("\n") if line.strip()]
    if not lines or _OPENING.match(lines[0]):
        return "\n".join(lines)
    return "\n  ".join([f"- {lines[0]}", *lines[1:]])


def add_entry(text: str, content: str) -> str:
    """Return `text` with another entry at its end, if it does not have that entry already."""
    entry = as_entry(content)
    if entry in (old.rstrip() for old in split_entries(text)):
        return text
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{entry}\n"


def matching_entries(text: str, match: str) -> list[int]:
    """Return the positions of the entries that contain `match`."""
    return [at for at, entry in enumerate(split_entries(text)) if match in entry]


def replace_entries(text: str, match: str, content: str) -> str:
    """Return `text` with `content` instead of the entries that contain `match`."""
    entries = split_entries(text)
    first, *others = matching_entries(text, match)
    entries[first] = f"{as_entry(content)}\n"
    return "".join(entry for at, entry in enumerate(entries) if at not in others)


def remove_entries(text: str, match: str) -> str:
    """Return `text` without the entries that contain `match`."""
    return "".join(entry for entry in split_entries(text) if match not in entry)


def nearest_entries(text: str, match: str) -> Sequence[str]:
    """Return up to three entries that are most similar to `match`, shortened, nearest first."""
    entries = split_entries(text)[-_COMPARED_ENTRIES:]
    lines = [" ".join(entry.split())[:_NEAR_CHARS] for entry in entries]
    rated = [(-_similarity(match.lower(), line.lower()), line) for line in lines]
    return [line for rating, line in sorted(rated)[:_MAX_NEAREST] if rating < 0]


def _similarity(wanted: str, line: str) -> float:
    """Return the share of the words of `wanted` in the line, or its similarity to the line."""
    words = set(re.findall(r"\w+", wanted))
    shared = len(words & set(re.findall(r"\w+", line))) / len(words) if words else 0.0
    whole = SequenceMatcher(None, wanted[:_NEAR_CHARS], line).ratio()
    return max(shared, whole if whole >= 0.5 else 0.0)


def open_memory(
    config: Config, cwd: Path, redact: Callable[[str], str] = lambda text: text
) -> MemoryProvider | None:
    """Return the memory of the project around `cwd` and of the user; None if it is turned off.

    The project's memory is stored in dirge's state folder, so that no repository can contain it.
    """
    if not config.memory.enabled:
        return None
    environment = config.origin.environment
    own = state_dir(environment) / "memory" / project_id(project_root(cwd))
    return FileMemory(
        project_file=own / "MEMORY.md",
        user_file=config_dir(environment) / "USER.md",
        max_chars=config.memory.max_chars,
        redact=redact,
    )
