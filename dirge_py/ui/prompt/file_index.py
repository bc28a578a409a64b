"""The files of the project for the `@` list, watched for changes. Only ignore files are opened."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
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
        watching = await asyncio.to_thread(
            awatch,
            *(root / folder for folder in folders),
            recursive=False,
            debounce=_SETTLES_MS,
            stop_event=stop,
            watch_filter=None,
        )
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
    from dirge_py.files.walk import ignored_by  # noqa: PLC0415 - at the first `@`

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
        yield ListedFile(shown, shown.lower(), modified, is_hidden)


def _with_ignores(folder: Path, rules: "_Rules") -> "_Rules":
    from dirge_py.files.walk import parse_ignore_file  # noqa: PLC0415 - at the first `@`

    for name in IGNORE_FILES:
        with suppress(OSError):
            rules = (*rules, parse_ignore_file(str(folder), (folder / name).read_bytes()))
    return rules
