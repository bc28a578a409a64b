"""The list of files behind `@`, kept up to date while the program runs."""

import asyncio
import importlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.ui.prompt.files import FileTree, Found

MOST_WATCHED = 50_000
"""Folders beyond which nothing is watched: the list is made again now and then instead."""

KEPT_S = 10.0
"""After this a list that is not watched is made again when somebody asks for it."""

_SETTLES_MS = 300

_logger = logging.getLogger(__name__)


class FileIndex:
    """The files of one folder at a time, read when they are first wanted. `on_news` is told."""

    def __init__(self, on_news: Callable[[], None]) -> None:
        self._on_news = on_news
        self._root: Path | None = None
        self._task: asyncio.Task[None] | None = None
        self._made_at = 0.0
        self.is_watching = False
        self.files: Sequence[Found] = ()

    def want(self, root: Path) -> None:
        """Have the files of this folder, soon."""
        is_over = self._task is None or self._task.done()
        is_old = is_over and time.monotonic() - self._made_at > KEPT_S
        if root == self._root and not is_old:
            return
        if root != self._root:
            self.files = ()
        self.stop()
        self._root = root
        self._task = asyncio.get_running_loop().create_task(self._keep(root))

    def stop(self) -> None:
        """Watch no more."""
        if self._task is not None:
            self._task.cancel()
        self._task, self._root, self.is_watching = None, None, False

    async def _keep(self, root: Path) -> None:
        # Imported by the first `@`: nothing of it is needed to show an empty input.
        files = await asyncio.to_thread(importlib.import_module, "dirge_py.ui.prompt.files")
        tree: FileTree = await asyncio.to_thread(files.FileTree, root)
        await self._take(tree)
        try:
            while may_watch(root, len(tree.folders)):
                async for changed in self._changes(tree):
                    has_other_folders = await asyncio.to_thread(tree.reread, changed)
                    await self._take(tree)
                    if has_other_folders:
                        break
                else:
                    return
        except Exception:
            # A system may allow few watches; the list is made anew now and then instead.
            _logger.warning("files are not watched", exc_info=True)
        finally:
            self.is_watching = False

    async def _take(self, tree: "FileTree") -> None:
        self.files = await asyncio.to_thread(tree.listed)
        self._made_at = time.monotonic()
        self._on_news()

    async def _changes(self, tree: "FileTree") -> AsyncIterator[Sequence[str]]:
        watchfiles = await asyncio.to_thread(importlib.import_module, "watchfiles")
        stop = asyncio.Event()
        folders = [str(tree.root / folder) for folder in tree.folders]
        watching = watchfiles.awatch(
            *folders, recursive=False, debounce=_SETTLES_MS, stop_event=stop, watch_filter=None
        )
        coming = asyncio.ensure_future(anext(watching, None))
        # Its first step begins to watch. What changed before that, after the list, nobody tells.
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
    """Whether a folder with so many in it is watched: no home, and nothing around one."""
    home = Path.home()
    return folders <= MOST_WATCHED and root != home and root not in home.parents
