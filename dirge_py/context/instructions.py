"""The instruction files of a start: those of the system prompt, and those of folders touched."""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

from dirge_py.context.project_files import (
    INSTRUCTION_FILE_NAMES,
    ProjectFiles,
    find_in_folders,
    find_project_files,
    folders_down_to,
    format_project_files,
)
from dirge_py.files.resolve import is_beneath
from dirge_py.files.walk import is_work_of_others
from dirge_py.types.events import ContextReplaced, HistoryMoved, LoopEvent
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.messages import Message, ToolResultMessage, user_text

_MOST_FOLDERS = 16
"""Folders looked at for one path: as many as upwards."""


ReadGuard: TypeAlias = Callable[[Path], AbstractContextManager[Callable[[str], bool]]]
"""Opens, for a repository, the test whether a physical path must not be read without asking."""


class Instructions:
    """The instruction files that the settings let be sent.

    `guard` opens the permission test for the files of a repository: they are imported by whoever
    wrote it, so no mode loosens it.
    """

    def __init__(
        self,
        cwd: Path,
        *,
        config_dir: Path,
        guard: ReadGuard,
        is_on: bool = True,
        max_bytes: int = 32 * 1024,
    ) -> None:
        self.is_on = is_on
        """Whether instruction files are sent at all."""
        self._cwd = cwd
        self._config_dir = config_dir
        self._guard = guard
        self._max_bytes = max_bytes
        self._files: ProjectFiles | None = None

    @property
    def files(self) -> ProjectFiles:
        """Those of the system prompt, read when first asked for and again at each `reread`."""
        if self._files is None:
            self._files = self._read()
        return self._files

    def reread(self) -> None:
        """Read the files of the system prompt again."""
        self._files = self._read()

    def root(self) -> Path:
        """The physical folder that project files must lie beneath."""
        return folders_down_to(self._cwd)[0]

    def in_folders(self, folders: Sequence[Path], sent: ProjectFiles) -> ProjectFiles:
        """What these folders of the repository have besides what was sent."""
        root = self.root()
        with self._guard(root) as withholds:
            return find_in_folders(
                folders, root=root, sent=sent, max_bytes=self._max_bytes, withholds=withholds
            )

    def _read(self) -> ProjectFiles:
        if not self.is_on:
            return ProjectFiles()
        with self._guard(self.root()) as withholds:
            return find_project_files(
                self._cwd,
                config_dir=self._config_dir,
                max_bytes=self._max_bytes,
                withholds=withholds,
            )


class TouchedFolders:
    """Tells the model of instruction files in folders that a call has read or changed.

    One for each conversation. Each file is told once; what was told is forgotten when the model no
    longer has it before its eyes. `workspace` gives the physical folders that the person works in.
    What lies outside of them, and the work of others within them (dependencies, what git ignores,
    other repositories), is read like any file and never told by itself.
    """

    def __init__(
        self,
        instructions: Instructions,
        notify: Callable[[str], None],
        workspace: Callable[[], Sequence[str]],
    ) -> None:
        self._instructions = instructions
        self._notify = notify
        self._workspace = workspace
        self._looked_at: set[Path] = set()
        self._told: ProjectFiles | None = None

    def bundle(self) -> Hooks:
        if not self._instructions.is_on:
            return Hooks(name="instructions")
        return Hooks(name="instructions", get_steering_messages=self._tell)

    def forget(self) -> None:
        """Tell again what was told, when it is touched again."""
        self._looked_at = set()
        self._told = None

    def sink(self, event: LoopEvent) -> None:
        """Hear that another history took the place of the one in which it was told."""
        if isinstance(event, ContextReplaced | HistoryMoved):
            self.forget()

    async def _tell(self, info: TurnInfo) -> Sequence[Message]:
        is_opening = info.message is None
        results = _last_results(info.context.messages) if is_opening else info.tool_results
        paths = _touched_paths(results)
        if not paths or not (is_opening or info.wants_more):
            return ()
        text = await asyncio.to_thread(self._words_about, paths)
        return [user_text(text, "harness")] if text else ()

    def _words_about(self, paths: Sequence[str]) -> str:
        folders = self._new_folders(paths)
        if not folders:
            return ""
        self._looked_at.update(folders)
        sent = self._told or self._instructions.files
        found = self._instructions.in_folders([one for one in folders if self._is_ours(one)], sent)
        self._told = found
        for notice in found.notices:
            self._notify(notice)
        return format_project_files(found.files, heading="folder_files")

    def _is_ours(self, folder: Path) -> bool:
        """Whether its instruction files, if there are any, were written for this project."""
        if not any(os.path.lexists(folder / name) for name in INSTRUCTION_FILE_NAMES):
            return False
        root = str(self._instructions.root())
        bases = [one for one in self._workspace() if is_beneath(str(folder), [one])]
        if not bases:
            return False
        # The innermost: an ignored folder that was added to the workspace was added on purpose.
        base = max(*bases, root, key=len)
        return str(folder) == base or not is_work_of_others(str(folder), base=base, top=root)

    def _new_folders(self, paths: Sequence[str]) -> list[Path]:
        """The folders from the root of the repository down to each path, outermost first."""
        root = self._instructions.root()
        found: dict[Path, None] = {}
        for path in paths:
            real = Path(os.path.realpath(path))
            folder = real if real.is_dir() else real.parent
            if not folder.is_relative_to(root):
                continue
            between = [folder, *folder.parents][: len(folder.parts) - len(root.parts)]
            for each in between[::-1][:_MOST_FOLDERS]:
                if each not in self._looked_at:
                    found.setdefault(each)
        return list(found)


def _last_results(messages: Sequence[Message]) -> Sequence[ToolResultMessage]:
    """The results that a history ends with: nobody has gone on from them yet."""
    results: list[ToolResultMessage] = []
    for message in reversed(messages):
        if not isinstance(message, ToolResultMessage):
            break
        results.append(message)
    return results[::-1]


def _touched_paths(results: Iterable[ToolResultMessage]) -> list[str]:
    """The absolute paths that these calls read or changed, each once."""
    found: dict[str, None] = {}
    for result in results:
        if result.is_error:
            continue
        several = result.details.get("paths")
        named = several if isinstance(several, list | tuple) else ()
        for path in (result.details.get("path"), *named):
            if isinstance(path, str) and os.path.isabs(path) and "\0" not in path:
                found.setdefault(path)
    return list(found)
