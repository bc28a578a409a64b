"""The files of the project for the `@` list, watched for changes. Only ignore files are opened."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass

if TYPE_CHECKING:
    from watchfiles import awatch as awatch

    from dirge_py.files.walk import IgnoreRules

    _Rules = tuple[IgnoreRules, ...]
else:
    awatch = late("watchfiles", "awatch")

MOST_WATCHED = 50_000
"""Folders beyond which nothing is watched, and the list is only read again now and then."""
STALE_AFTER_S = 10.0
"""Seconds after which an unwatched list is read again when it is used."""
_SETTLES_MS = 300
_logger = logging.getLogger(__name__)


class FileIndex:
    """The files of one folder at a time, read at the first use."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._root: Path | None = None
        self._task: asyncio.Task[None] | None = None
        self._made_at = 0.0
        self.is_watching = False
        self.files: Sequence[ListedFile] = ()

    def want(self, root: Path) -> None:
        """Start reading the files of this folder, unless they are known."""
        is_over = self._task is None or self._task.done()
        is_old = is_over and time.monotonic() - self._made_at > STALE_AFTER_S
        if root == self._root and not is_old:
            return
        if root != self._root:
            self.files = ()
        self.stop()
        self._root = root
        self._task = asyncio.get_running_loop().create_task(self._keep(root))

    def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
        self._task, self._root, self.is_watching = None, None, False

    async def _keep(self, root: Path) -> None:
        tree = await asyncio.to_thread(FileTree, root)
        await self._list(tree)
        try:
            while may_watch(root, len(tree.folders)):
                async for changed in self._changes(tree):
                    has_other_folders = await asyncio.to_thread(tree.reread, changed)
                    await self._list(tree)
                    if has_other_folders:
                        break
                else:
                    return
        except Exception:
            # The system may allow too few watches; the list is read again now and then.
            _logger.warning("files are not watched", exc_info=True)
        finally:
            self.is_watching = False

    async def _list(self, tree: "FileTree") -> None:
        self.files = await asyncio.to_thread(tree.listed)
        self._made_at = time.monotonic()
        self._on_change()

    async def _changes(self, tree: "FileTree") -> AsyncIterator[Sequence[str]]:
        stop = asyncio.Event()
        folders = [str(tree.root / folder) for folder in tree.folders]
        # In a thread, as the first call imports the library.
        watching = await asyncio.to_thread(
            awatch,
            *folders,
            recursive=False,
            debounce=_SETTLES_MS,
            stop_event=stop,
            watch_filter=None,
        )
        coming = asyncio.ensure_future(anext(watching, None))
        # Its first step starts to watch. Earlier changes aren't reported, so all folders are read
        # again.
        await asyncio.sleep(0)
        try:
            yield [os.path.join(folder, "") for folder in folders]
            self.is_watching = True
            while (changes := await coming) is not None:
                yield [path for _, path in changes]
                coming = asyncio.ensure_future(anext(watching, None))
        finally:
            stop.set()
            coming.cancel()


def may_watch(root: Path, folders: int) -> bool:
    """Whether to watch a folder with so many folders in it; never the home or one above it."""
    home = Path.home()
    return folders <= MOST_WATCHED and root != home and root not in home.parents


MOST_FILES = 100_000
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


class FileTree:
    """The names below a folder, at most `MOST_FILES`, without ignored ones and linked folders.

    It reads the disk: call it in a thread, one call at a time.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, list[ListedFile]] = {}
        self._rules: dict[str, _Rules] = {}
        self._count = 0
        self._walk("", ())

    @property
    def folders(self) -> Sequence[str]:
        """The listed folders, relative and with a `/` at the end; "" for the root."""
        return list(self._folders)

    def listed(self) -> Sequence[ListedFile]:
        """Return all files and folders, those near the root first."""
        near_first = sorted(self._folders, key=lambda folder: folder.count("/"))
        return [file for folder in near_first for file in self._folders[folder]]

    def reread(self, changed: Iterable[str]) -> bool:
        """Read the folders of these absolute paths again; return whether the folders changed."""
        before = set(self._folders)
        for folder in sorted({self._folder_of(path) for path in changed}):
            if folder in self._folders:
                self._read_again(folder)
        for path in changed:
            folder = self._folder_of(path)
            if os.path.basename(path) in IGNORE_FILES and folder in self._folders:
                above = folder[: folder.rstrip("/").rfind("/") + 1]
                rules = self._rules[above] if folder else ()
                self._forget(folder)
                self._walk(folder, rules)
        return set(self._folders) != before

    def _walk(self, top: str, rules: "_Rules") -> None:
        waiting: list[tuple[str, _Rules]] = [(top, rules)]
        for folder, above in waiting:
            if self._count >= MOST_FILES:
                return
            own = _with_ignores(self.root / folder, above)
            self._rules[folder] = own
            self._folders[folder] = listed = list(self._read(folder, own))
            self._count += len(listed)
            waiting += [(file.path, own) for file in listed if file.path.endswith("/")]
            # Let other threads run, such as the screen's.
            time.sleep(0)

    def _read(self, folder: str, rules: "_Rules") -> Iterator[ListedFile]:
        from dirge_py.files.walk import ignored_by  # noqa: PLC0415 - at the first `@`

        try:
            entries = sorted(os.scandir(self.root / folder), key=lambda entry: entry.name)
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
            yield ListedFile(shown, shown.lower(), modified, is_hidden)

    def _read_again(self, folder: str) -> None:
        known = {file.path for file in self._folders[folder]}
        now = list(self._read(folder, self._rules[folder]))
        self._count += len(now) - len(known)
        self._folders[folder] = now
        current = {file.path for file in now}
        for removed in known - current:
            if removed.endswith("/"):
                self._forget(removed)
        for added in sorted(current - known):
            if added.endswith("/"):
                self._walk(added, self._rules[folder])

    def _forget(self, top: str) -> None:
        for folder in [folder for folder in self._folders if folder.startswith(top)]:
            self._count -= len(self._folders.pop(folder))
            del self._rules[folder]

    def _folder_of(self, path: str) -> str:
        folder = os.path.relpath(os.path.dirname(path), self.root)
        return "" if folder == "." else f"{folder}/"


def _with_ignores(folder: Path, rules: "_Rules") -> "_Rules":
    from dirge_py.files.walk import parse_ignore_file  # noqa: PLC0415 - at the first `@`

    for name in IGNORE_FILES:
        with suppress(OSError):
            rules = (*rules, parse_ignore_file(str(folder), (folder / name).read_bytes()))
    return rules
