"""What the rest of the program knows about snapshots of the working tree."""

import os
from collections.abc import Collection, Iterable, Sequence
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.extensions import Extension
from typing import Literal, Protocol


SNAPSHOT_RECORD = "snapshot"
"""The type of the record in a journal: {"run_id", "turn", "at", "tree", "left_out"},
with "toward", the tree that is put back next, before a move of the files, and "held", paths that no
snapshot before this one held: a tool was about to change them."""

MAX_KEPT_BYTES = 100 << 20
"""The largest file that is kept because a tool is about to change it; tools change no larger."""

SnapshotMoment = Literal["before_run", "turn", "before_move"]
"""Before a run began; after a turn that changed something; before the person went elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The tree at one moment.

    `left_out` are changed files that it, or the one before, does not hold, as too large; and the
    folders (with a `/`) of other repositories. `held` are the files that it was asked to hold, by
    their paths in the project.
    """

    tree: str
    left_out: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChange:
    """One path, relative to the project, that differs from one tree to another.

    `lines` are those added and removed; None for files that are no text.
    """

    path: str
    kind: Literal["added", "changed", "removed"]
    lines: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """What became of the files: `done` are as they were; `failed` says why one is not."""

    done: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


class Snapshots(Protocol):
    """The snapshots of one project."""

    @property
    def root(self) -> str:
        """The physical folder of the project."""

    @property
    def unavailable(self) -> str:
        """Why there are none, for the person; "" while there are."""

    async def take_snapshot(self, also: Sequence[str] = ()) -> Snapshot | None:
        """The working tree as it is now; None where that cannot be had (see `unavailable`).

        The files `also` (absolute, physical paths) are held from now on although git ignores them,
        and in this snapshot although they are large; what cannot be held is passed over.
        """

    def holds_file(self, real: str) -> bool:
        """Whether the newest snapshot holds the file at this physical path."""

    def unheld(self, reals: Sequence[str]) -> Sequence[str]:
        """Those of the files at these physical paths that a snapshot holds only if asked to."""

    async def holds(self, tree: str) -> bool:
        """Whether the tree is there and whole: old ones are pruned, and a store can be damaged."""

    async def changes(self, before: str, after: str) -> Sequence[TreeChange]:
        """What differs between two trees, by path.

        Raises:
            SessionError: one of them is gone.
        """

    async def difference(self, before: str, after: str, path: str = "") -> str:
        """What differs between two trees as a unified diff, below `path` alone where one is given.

        Raises:
            SessionError: one of them is gone.
        """

    async def ignored_then(self, tree: str, paths: Sequence[str]) -> Collection[str]:
        """Of paths that the tree lacks, those that it ignores: they may have been there.

        Raises:
            SessionError: the tree is gone.
        """

    async def restore(self, tree: str, paths: Sequence[str]) -> RestoreResult:
        """Make these paths of the working tree as they are in `tree`: written, or removed.

        Raises:
            SessionError: the tree is gone. Nothing has changed then.
        """

    async def prune(self) -> None:
        """Remove what is too old or too much; does nothing if that was done within a day."""

    async def aclose(self) -> None:
        """Stop what is under way; no snapshot is taken any more."""


def paths_as_text(paths: Iterable[str]) -> list[str]:
    """The paths as a journal has them: names of files need not be text."""
    return [os.fsencode(path).decode("utf-8", "replace") for path in paths]


class ProjectSnapshots(Extension):
    """The extension that offers `Snapshots`; a conversation without it has none."""

    name = "snapshots"
    summary = "restores the project's files with /undo and /rewind"
    stage = "first"
    snapshots: Snapshots
