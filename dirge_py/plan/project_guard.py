"""Guards the project against changes by a reviewer.

`ProjectGuard` finds and undoes changes of a fork in the project. `ReviewerWrites` finds the files
that a reviewer wrote by hand in its copy: a check that passes because of a file that isn't in the
project proves nothing. Builds and test runs may write there.
"""

import asyncio
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path

from dirge_py.conversation.conversation import Conversation
from dirge_py.files.tree_hash import TreeDigest
from dirge_py.files.walk import is_build_artifact
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.session.snapshots.base import Snapshot
from dirge_py.types.errors import DirgeError
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.tools import LoopToolResult, ToolCall

_COMMANDS = "bash"
_MAX_PATHS_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChanges:
    """The changes in the project while a fork ran."""

    tree: str
    """The hash of the files as they are now; "" if they can't be read."""
    paths: tuple[str, ...] = ()
    """The paths of the changed files."""
    words: str = ""
    """What happened, for the user."""
    is_its_own: bool = False
    """Whether a command of the fork changed something."""
    is_left: bool = False
    """Whether some of those changes couldn't be undone."""


async def read_tree(conversation: Conversation) -> TreeDigest | None:
    """Return the files that the conversation works on; None if they can't be read."""
    read = conversation.environment.read_tree
    try:
        return await read() if read is not None else None
    except DirgeError:
        return None


class ProjectGuard:
    """Compares the project's files before and after one fork, and around each of its commands.

    Changes made while an unconfined command ran are undone from a snapshot. Others are the user's,
    or another program's, and stay.
    """

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._before: TreeDigest | None = None
        self._snapshot: Snapshot | None = None
        self._starts: dict[str, TreeDigest] = {}
        self._own: dict[str, str | None] = {}
        self._is_mixed = False

    async def begin(self, *, needs_snapshot: bool) -> None:
        """Read the files to compare with; also take a snapshot if the fork may be unconfined."""
        self._before = await read_tree(self._conversation)
        snapshots = self._conversation.snapshots
        if needs_snapshot and snapshots is not None:
            self._snapshot = await snapshots.take_snapshot()

    def bundle(self) -> Hooks:
        """Return the hooks for the runs of a fork without a sandbox."""

        async def before(_info: TurnInfo, call: ToolCall) -> None:
            if call.name == _COMMANDS and (now := await read_tree(self._conversation)):
                self._starts[call.id] = now

        async def after(_info: TurnInfo, call: ToolCall, _result: LoopToolResult) -> None:
            start = self._starts.pop(call.id, None)
            if start and (now := await read_tree(self._conversation)):
                self._note_changes(start, now)

        return Hooks(
            name="untouched", only_watches=True, before_tool_call=before, after_tool_call=after
        )

    async def compare(self) -> ProjectChanges:
        """Return the changes since `begin`, after the fork's own are undone."""
        after = await read_tree(self._conversation)
        if self._before is None or after is None:
            return ProjectChanges(tree=after.sha256 if after else "")
        paths = _changed_paths(self._before, after)
        own = tuple(p for p in paths if p in self._own and after.files.get(p) == self._own[p])
        others = tuple(path for path in paths if path not in own)
        tree, is_left, words = after.sha256, bool(paths), ""
        if own:
            is_undone, words = await self._undo(own)
            left = await read_tree(self._conversation)
            tree = left.sha256 if left and is_undone else ""
            is_left = self._is_mixed or not is_undone
        elif self._own or self._is_mixed:
            words = "A command of this phase changed the project, which is not allowed."
        if others:
            words += f" Others changed files meanwhile, which stay: {_list_paths(others)}."
        is_its_own = bool(self._own) or self._is_mixed
        return ProjectChanges(
            tree=tree,
            paths=paths,
            words=words.strip(),
            is_its_own=is_its_own,
            is_left=is_left and is_its_own,
        )

    def _note_changes(self, start: TreeDigest, now: TreeDigest) -> None:
        """Note the files that changed while a command ran, unless others changed them before."""
        before = self._before.files if self._before is not None else {}
        for path in _changed_paths(start, now):
            if start.files.get(path) == self._own.get(path, before.get(path)):
                self._own[path] = now.files.get(path)
            else:
                self._is_mixed = True

    async def _undo(self, paths: tuple[str, ...]) -> tuple[bool, str]:
        """Restore the files; return whether all were restored, and a text for the user."""
        words = f"This phase must not change the project, but did: {_list_paths(paths)}."
        snapshots, snapshot = self._conversation.snapshots, self._snapshot
        if snapshots is None or snapshot is None:
            return False, f"{words} There is no snapshot to undo it from: check them yourself."
        try:
            now = await snapshots.take_snapshot()  # The changes may still be somebody's work.
            restored = await snapshots.restore(snapshot.tree, paths)
        except DirgeError as error:
            return False, f"{words} It could not be undone: {error.message}"
        failed = [path for path, _why in restored.failed]
        words += f" Undone, except for {_list_paths(failed)}." if failed else " It is undone."
        if now is not None:
            words += f" The changed files are in the snapshot {now.tree[:12]}."
        return not failed, words


def _changed_paths(before: TreeDigest, after: TreeDigest) -> tuple[str, ...]:
    paths = {*before.files, *after.files}
    return tuple(sorted(path for path in paths if before.files.get(path) != after.files.get(path)))


def _list_paths(paths: Sequence[str]) -> str:
    shown = ", ".join(clean(path) for path in paths[:_MAX_PATHS_SHOWN])
    more = len(paths) - _MAX_PATHS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


_NOT_WRITTEN_BY_HAND = frozenset((".git", "node_modules"))
_INTERPRETERS = r"(?:python[\d.]*|node|deno|bun|perl|ruby|php|lua|bash|sh|dash|zsh)"
_WRITERS = (
    r"(?:tee|cp|mv|ln|touch|mkdir|install|dd|patch|sed|awk|tar|unzip|rsync|truncate|ed|curl|wget"
    r"|git\s+(?:apply|am|checkout|restore|reset|stash|clone|merge|pull|cherry-pick))"
)
_BY_HAND = late_pattern(
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
"""Folders that hold copies of projects among other people's files."""


class ReviewerWrites:
    """The files that a reviewer writes by hand in the copy around `folder`."""

    def __init__(self, folder: Path) -> None:
        around = takewhile(lambda up: up not in _SHARED_TEMP_FOLDERS, (folder, *folder.parents))
        self._top = str(next((up for up in around if os.path.lexists(up / ".git")), folder))
        self._before: dict[str, frozenset[str]] = {}
        self._made: set[str] = set()

    async def begin(self, call_id: str, command: str) -> None:
        """Prepare for a command that is about to run."""
        # The copy itself is a temporary folder, too.
        if _BY_HAND.search(command.replace(self._top, ".")):
            self._before[call_id] = await self._files()

    async def end(self, call_id: str) -> None:
        """Record the files that the command wrote."""
        before = self._before.pop(call_id, None)
        if before is not None:
            self._made |= await self._files() - before

    async def _files(self) -> frozenset[str]:
        return await asyncio.to_thread(lambda: frozenset(_walk_entries(self._top)))

    @property
    def are_there(self) -> bool:
        """Whether one of the files still exists."""
        return any(os.path.lexists(path) for path in self._made)


def _walk_entries(top: str) -> Iterator[str]:
    """Yield everything below `top` except for files of version control, builds and caches."""
    waiting = [top]
    while waiting:
        # One level at a time, because `os.walk` recurses. An unreadable folder is left out.
        for folder, folders, files in islice(os.walk(waiting.pop()), 1):
            below = [f"{folder}/{name}" for name in filter(_may_be_by_hand, folders)]
            yield from below
            yield from (f"{folder}/{name}" for name in filter(_may_be_by_hand, files))
            waiting += [path for path in below if not os.path.islink(path)]


def _may_be_by_hand(name: str) -> bool:
    is_generated = name.endswith(".pyc") or is_build_artifact(f"{name}/")
    return not (is_generated or name in _NOT_WRITTEN_BY_HAND)
