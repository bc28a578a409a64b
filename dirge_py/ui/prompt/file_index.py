"""The files for the `@` list: listed, watched, and ranked for a query."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dirge_py.lib.fuzzy import SPREAD, letter_gaps
from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import AssistantMessage, Message, UserMessage

if TYPE_CHECKING:
    from watchfiles import awatch as awatch

    from dirge_py.conversation.conversation import Conversation
    from dirge_py.files.walk import IgnoreRules

    _Rules = tuple[IgnoreRules, ...]
else:
    awatch = late("watchfiles", "awatch")


SHOWN = 50
RECENT_S = 3600.0
"""Seconds in which a modified file counts as recent, and ranks before others."""
_SLICE = 500
Rank: TypeAlias = tuple[int, bool, bool, int, int, str]
"""Kind of match, not touched in the session, not recent, score, length, path."""


class FileMatcher:
    """Matches a query against a list of files: call `work` until it is done, then `best`."""

    def __init__(
        self,
        query: str,
        files: "Sequence[ListedFile]",
        *,
        touched: Collection[str] = (),
        before: "FileMatcher | None" = None,
    ) -> None:
        """`before`: the matcher of a shorter query, whose matches are the only candidates."""
        self.query = query
        self.files = files
        self._wanted = query.lower()
        self._touched = touched
        self._since = time.time() - RECENT_S
        self._shows_hidden = query.startswith(".") or "/." in query
        self._at = 0
        self._ranks: list[Rank] = []
        self._fitting: list[ListedFile] = []
        self._candidates = files
        if (
            before is not None
            and before.is_done
            and before.files is files
            and before._shows_hidden == self._shows_hidden
            and query.startswith(before.query)
        ):
            self._candidates = before._fitting

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._candidates)

    def work(self, limit_s: float | None = None) -> bool:
        """Match files for `limit_s`, or all of them; return whether all are done."""
        until = time.monotonic() + limit_s if limit_s is not None else None
        while not self.is_done:
            for file in self._candidates[self._at : self._at + _SLICE]:
                if file.is_hidden and not self._shows_hidden:
                    continue
                score = _score(self._wanted, file.folded)
                if score is not None and file.path != self.query:
                    self._fitting.append(file)
                    self._ranks.append(self._rank(score, file))
            self._at += _SLICE
            if until is not None and time.monotonic() > until:
                break
        return self.is_done

    def best(self) -> list[str]:
        """Return the best paths so far, the best first."""
        self._ranks.sort()
        del self._ranks[SHOWN:]
        return [rank[-1] for rank in self._ranks]

    def _rank(self, score: int, file: "ListedFile") -> Rank:
        kind = 0 if not self._wanted or score < 100 else 1 if score < 1000 else 2
        if self._wanted.endswith("/") and kind < 2:
            # Files right in the typed folder come before deeper ones.
            kind = min(1, file.folded.count("/", 0, len(file.path) - 1) - self.query.count("/"))
        is_old = file.modified < self._since
        return (kind, file.path not in self._touched, is_old, score, len(file.path), file.path)


def _score(wanted: str, path: str) -> int | None:
    """Return a score, lower is better; None if the letters aren't all there in order."""
    if not wanted:
        return path.count("/", 0, len(path) - 1)
    name_at = path.rfind("/", 0, len(path) - 1) + 1
    if (at := path.find(wanted, name_at)) >= 0:
        return min(at - name_at, 99)
    if (at := path.find(wanted)) >= 0:
        return 100 + min(at, 899)
    gaps = letter_gaps(wanted, path)
    return None if gaps is None else SPREAD + gaps


_NAMES = ("path", "file_path", "file")


class TouchedFiles:
    """The files that a conversation has read, changed or attached, updated at each call."""

    def __init__(self) -> None:
        self._of: Conversation | None = None
        self._read = 0
        self._paths: set[str] = set()

    def paths(self, conversation: "Conversation") -> set[str]:
        """Return their paths relative to the folder of the conversation."""
        messages = conversation.messages
        if conversation is not self._of or len(messages) < self._read:
            self._of, self._read, self._paths = conversation, 0, set()
        for message in messages[self._read :]:
            for named in _named(message):
                path = Path(conversation.cwd, os.path.expanduser(named))
                if path.is_relative_to(conversation.cwd):
                    self._paths.add(str(path.relative_to(conversation.cwd)))
        self._read = len(messages)
        return self._paths


def _named(message: Message) -> list[str]:
    if isinstance(message, UserMessage):
        return list(message.attached)
    if not isinstance(message, AssistantMessage):
        return []
    arguments = [call.arguments for call in message.calls if isinstance(call.arguments, Mapping)]
    values = [call_arguments.get(name) for call_arguments in arguments for name in _NAMES]
    return [value for value in values if isinstance(value, str) and "\0" not in value]


MOST_WATCHED = 50_000
"""Folders beyond which nothing is watched, and the list is only read again now and then."""
STALE_AFTER_S = 10.0
"""Seconds after which an unwatched list is read again when it is used."""
_logger = logging.getLogger(__name__)


class FileIndex:
    """The files of one folder at a time, read at the first use and at the next after a change."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._root: Path | None = None
        self._task: asyncio.Task[None] | None = None
        self._made_at = 0.0
        self._is_stale = False
        self.is_watching = False
        self.files: Sequence[ListedFile] = ()

    def want(self, root: Path) -> None:
        """Start reading the files of this folder, unless they are known."""
        is_over = self._task is None or self._task.done()
        is_old = is_over and time.monotonic() - self._made_at > STALE_AFTER_S
        if root == self._root and not (is_old or self._is_stale):
            return
        if root != self._root:
            self.files = ()
        self.stop()
        self._root, self._is_stale = root, False
        self._task = asyncio.get_running_loop().create_task(self._keep(root))

    def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
        self._task, self._root, self.is_watching = None, None, False

    async def _keep(self, root: Path) -> None:
        folders = await self._list(root)
        if not may_watch(root, len(folders)):
            return
        try:
            await self._wait_for_change(root, folders)
        except Exception:
            # The system may allow too few watches; the list is read again now and then.
            _logger.warning("files are not watched", exc_info=True)
            return
        finally:
            self.is_watching = False
        self._is_stale = True
        self._on_change()

    async def _list(self, root: Path) -> Sequence[str]:
        self.files, folders = await asyncio.to_thread(list_files, root)
        self._made_at = time.monotonic()
        self._on_change()
        return folders

    async def _wait_for_change(self, root: Path, folders: Sequence[str]) -> None:
        stop = asyncio.Event()
        # In a thread, as the first call imports the library.
        watch = partial(awatch, recursive=False, debounce=300, stop_event=stop, watch_filter=None)
        watching = await asyncio.to_thread(watch, *(root / folder for folder in folders))
        change = asyncio.ensure_future(anext(watching, None))
        # Its first step starts to watch. Earlier changes aren't reported, so all is read again.
        await asyncio.sleep(0)
        try:
            self.is_watching = await self._list(root) == folders
            if self.is_watching:
                await change
        finally:
            stop.set()
            change.cancel()


def may_watch(root: Path, folders: int) -> bool:
    """Whether to watch a folder with so many folders in it; never the home or one above it."""
    home = Path.home()
    return folders <= MOST_WATCHED and root != home and root not in home.parents


MOST_FILES = 250_000
"""Files and folders that are listed at most."""
IGNORE_FILES = (".gitignore", ".ignore", ".agentignore")
"""Names of ignore files; in one folder, later ones here win."""
_NEVER = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__", ".mypy_cache"})


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file or folder below the root."""

    path: str
    """The path relative to the root; for a folder it ends with `/`."""
    folded: str
    """The path in lower case."""
    modified: float
    """Seconds since 1970; 0 for a folder."""
    is_hidden: bool
    """A part of its path begins with a dot."""


def list_files(root: Path) -> tuple[Sequence[ListedFile], Sequence[str]]:
    """Return the files and folders below `root`, and the listed folders with "" for the root.

    Those near the root come first, and at most `MOST_FILES` are listed. Ignored ones and linked
    folders are left out. It reads the disk: call it in a thread.
    """
    files: list[ListedFile] = []
    waiting: list[tuple[str, _Rules]] = [("", ())]
    for folder, above in waiting:
        if len(files) >= MOST_FILES:
            break
        rules = _with_ignores(root / folder, above)
        listed = list(_read(root, folder, rules))
        files += listed
        waiting += [(file.path, rules) for file in listed if file.path.endswith("/")]
        # Let other threads run, such as the screen's.
        time.sleep(0)
    return files, [folder for folder, _ in waiting]


def _read(root: Path, folder: str, rules: "_Rules") -> Iterator[ListedFile]:
    from dirge_py.files.walk import ignored_by

    try:
        entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        shown = f"{folder}{entry.name}/" if is_folder else folder + entry.name
        if entry.name in _NEVER or ignored_by(rules, entry.path, is_folder=is_folder):
            continue
        modified = 0.0
        if not is_folder:
            with suppress(OSError):
                modified = entry.stat(follow_symlinks=False).st_mtime
        is_hidden = entry.name.startswith(".") or "/." in f"/{folder}"
        folded = shown.lower()
        # One text for both saves a third of the memory.
        yield ListedFile(shown, shown if folded == shown else folded, modified, is_hidden)


def _with_ignores(folder: Path, rules: "_Rules") -> "_Rules":
    from dirge_py.files.walk import parse_ignore_file

    for name in IGNORE_FILES:
        with suppress(OSError):
            rules = (*rules, parse_ignore_file(str(folder), (folder / name).read_bytes()))
    return rules
