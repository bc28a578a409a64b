"""Guards the project against changes by a reviewer.

`ProjectGuard` finds and undoes what a fork changed in the project. `ReviewerWrites` finds the files
that a reviewer wrote by hand in its copy of the project: what a build or a test run makes there is
what the copy is for, but a check that passes because of a file that is not in the project shows
nothing.
"""

import asyncio
import os
import re
import tempfile
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.conversation.deps import TreeState
from dirge_py.files.walk import is_build_artifact
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.types.errors import DirgeError
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.tools import LoopToolResult, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dirge_py.conversation.conversation import Conversation
    from dirge_py.session.snapshots.base import Snapshot


_COMMANDS = "bash"
_MAX_PATHS_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChanges:
    """What differs afterwards: `paths` of files, and `words` for the person about it.

    `tree` is the hash of the files as they are now; "" where they cannot be read. `is_its_own`: a
    command of the fork changed something; `is_left`: not all of that is undone.
    """

    tree: str
    paths: tuple[str, ...] = ()
    words: str = ""
    is_its_own: bool = False
    is_left: bool = False


class ProjectGuard:
    """Looks at the project's files before and after one fork, and around each of its commands.

    What changed while a command ran that nothing confined is undone from a snapshot. Whatever
    changed at another time, or was changed again since, is the work of somebody else, and is left
    alone.
    """

    def __init__(self, conversation: "Conversation") -> None:
        self._conversation = conversation
        self._before: TreeState | None = None
        self._snapshot: Snapshot | None = None
        self._starts: dict[str, TreeState] = {}
        self._own: dict[str, str | None] = {}
        self._is_mixed = False

    async def look(self, *, needs_way_back: bool) -> None:
        """Take the state to compare with; with a snapshot where a sandbox may not shut it in."""
        self._before = await self._read()
        snapshots = self._conversation.snapshots
        if needs_way_back and snapshots is not None:
            self._snapshot = await snapshots.take_snapshot()

    def bundle(self) -> Hooks:
        """For the runs of a fork whose commands nothing confines."""

        async def before(_info: TurnInfo, call: ToolCall) -> None:
            now = await self._read() if call.name == _COMMANDS else None
            if now is not None:
                self._starts[call.id] = now

        async def after(_info: TurnInfo, call: ToolCall, _result: LoopToolResult) -> None:
            start = self._starts.pop(call.id, None)
            now = await self._read() if start is not None else None
            if start is not None and now is not None:
                self._take_in(start, now)

        return Hooks(
            name="untouched", only_watches=True, before_tool_call=before, after_tool_call=after
        )

    async def compare(self) -> ProjectChanges:
        """What became of the files."""
        after = await self._read()
        if self._before is None or after is None:
            return ProjectChanges(tree=after.sha256 if after else "")
        paths = _changed_paths(self._before, after)
        own = tuple(p for p in paths if p in self._own and after.files.get(p) == self._own[p])
        others = tuple(path for path in paths if path not in own)
        words = ""
        if others:
            told = "Files were changed meanwhile, and are left alone"
            words = f"{told}: {_list_paths(others)}."
        if not own:
            return self._not_undone(after, paths, words)
        is_undone, told = await self._undone(own)
        left = await self._read()
        return ProjectChanges(
            tree=left.sha256 if left and is_undone else "",
            paths=paths,
            words=f"{told} {words}".strip(),
            is_its_own=True,
            is_left=self._is_mixed or not is_undone,
        )

    def _not_undone(self, after: TreeState, paths: tuple[str, ...], words: str) -> ProjectChanges:
        if not self._own and not self._is_mixed:
            return ProjectChanges(tree=after.sha256, paths=paths, words=words)
        told = "A command of this phase changed the project, which it must not."
        return ProjectChanges(
            tree=after.sha256,
            paths=paths,
            words=f"{told} {words}".strip(),
            is_its_own=True,
            is_left=bool(paths),
        )

    def _take_in(self, start: TreeState, now: TreeState) -> None:
        """Note what changed while a command ran, where nobody else had changed it before."""
        before = self._before.files if self._before is not None else {}
        for path in _changed_paths(start, now):
            if start.files.get(path) == self._own.get(path, before.get(path)):
                self._own[path] = now.files.get(path)
            else:
                self._is_mixed = True

    async def _undone(self, paths: tuple[str, ...]) -> tuple[bool, str]:
        words = f"This phase must not change the project, and did: {_list_paths(paths)}."
        snapshots, snapshot = self._conversation.snapshots, self._snapshot
        if snapshots is None or snapshot is None:
            return False, f"{words} There is no snapshot to undo it from: look at them yourself."
        try:
            now = (
                await snapshots.take_snapshot()
            )  # What was there may be somebody's work all the same.
            restored = await snapshots.restore(snapshot.tree, paths)
        except DirgeError as error:
            return False, f"{words} It could not be undone: {error.message}"
        failed = [path for path, _why in restored.failed]
        words += f" Undone, except for {_list_paths(failed)}." if failed else " It is undone."
        if now is not None:
            words += f" What stood there is kept in the snapshot {now.tree[:12]}."
        return not failed, words

    async def _read(self) -> TreeState | None:
        read = self._conversation.environment.read_tree
        try:
            return await read() if read is not None else None
        except DirgeError:
            return None


def _changed_paths(before: TreeState, after: TreeState) -> tuple[str, ...]:
    paths = {*before.files, *after.files}
    return tuple(sorted(path for path in paths if before.files.get(path) != after.files.get(path)))


def _list_paths(paths: "Sequence[str]") -> str:
    shown = ", ".join(clean(path) for path in paths[:_MAX_PATHS_SHOWN])
    more = len(paths) - _MAX_PATHS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


_NOT_WRITTEN_BY_HAND = frozenset((".git", "node_modules"))
_INTERPRETERS = r"(?:python[\d.]*|node|deno|bun|perl|ruby|php|lua|bash|sh|dash|zsh)"
_WRITERS = (
    r"(?:tee|cp|mv|ln|touch|mkdir|install|dd|patch|sed|awk|tar|unzip|rsync|truncate|ed|curl|wget"
    r"|git\s+(?:apply|am|checkout|restore|reset|stash|clone|merge|pull|cherry-pick))"
)
_BY_HAND = re.compile(
    rf"""
    (?<![<>]) >>? (?![>&]|\|?\s*/dev/(?:null|stdout|stderr)\b)
  | <<
  | \b{_INTERPRETERS}\b [^;&|\n]* \s -\w*[ceEr]\b
  | (?:\A|[;&|(\n`]|\b(?:do|then|else|exec|xargs|sudo|env)\b) \s* (?:\w+=\S*\s+)* {_WRITERS} \b
  | (?:/tmp|/var/tmp|/dev/shm)/ | \$\{{?TMPDIR
    """,
    re.VERBOSE,
)
_SHARED_TEMP_FOLDERS = frozenset(
    Path(os.path.realpath(p)) for p in (tempfile.gettempdir(), "/tmp", "/var/tmp")
)
"""Where copies lie, among the files of others."""


class ReviewerWrites:
    """Those in the copy around `folder`."""

    def __init__(self, folder: Path) -> None:
        around = takewhile(lambda one: one not in _SHARED_TEMP_FOLDERS, (folder, *folder.parents))
        self._top = str(next((one for one in around if os.path.lexists(one / ".git")), folder))
        self._before: dict[str, frozenset[str]] = {}
        self._made: set[str] = set()

    async def begin(self, call_id: str, command: str) -> None:
        """Call it before each command runs."""
        # The copy itself lies among temporary files, too.
        if _BY_HAND.search(command.replace(self._top, ".")):
            self._before[call_id] = await asyncio.to_thread(_files_below, self._top)

    async def end(self, call_id: str) -> None:
        """Call it when the command is over."""
        before = self._before.pop(call_id, None)
        if before is not None:
            self._made |= await asyncio.to_thread(_files_below, self._top) - before

    @property
    def are_there(self) -> bool:
        """Whether one of them is still there."""
        return any(os.path.lexists(path) for path in self._made)


def _files_below(top: str) -> frozenset[str]:
    return frozenset(_walk_entries(top))


def _walk_entries(top: str) -> Iterator[str]:
    """Everything below `top` but what tools keep for themselves. No link is followed."""
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if _is_made_by_tools(entry.name):
                        continue
                    yield entry.path
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # What cannot be looked into cannot be told apart either.


def _is_made_by_tools(name: str) -> bool:
    is_folder_of_tools = name in _NOT_WRITTEN_BY_HAND or is_build_artifact(f"{name}/")
    return is_folder_of_tools or name.endswith(".pyc")
