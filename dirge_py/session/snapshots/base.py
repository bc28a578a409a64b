"""The records of snapshots: what is taken, what differs, what was restored."""

import os
from collections.abc import Iterable
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass

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
    """The tree at one moment."""

    tree: str
    """The id of the tree."""
    left_out: tuple[str, ...] = ()
    """Changed files that it, or the one before, does not hold, as too large; and the folders (with
    a `/`) of other repositories."""
    held: tuple[str, ...] = ()
    """The files that it was asked to hold, by their paths in the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """What happened to the files that were restored."""

    done: tuple[str, ...] = ()
    """The files that are as they were."""
    failed: tuple[tuple[str, str], ...] = ()
    """The files that are not, each with the reason."""


def paths_as_text(paths: Iterable[str]) -> list[str]:
    """The paths as a journal has them: names of files need not be text."""
    return [os.fsencode(path).decode("utf-8", "replace") for path in paths]
