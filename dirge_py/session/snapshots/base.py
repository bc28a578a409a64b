"""The records that describe snapshots, changes between them, and restores."""

import os
from collections.abc import Iterable
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass

SNAPSHOT_RECORD = "snapshot"
"""The type of the record in a journal: {"run_id", "turn", "at", "tree", "left_out"}.

Before a move of the files it has "toward", the tree to restore next. "held" are paths that no
earlier snapshot held, because a tool was about to change them.
"""

MAX_KEPT_BYTES = 100 << 20
"""The largest file that is kept because a tool is about to change it: the limit of tools, too."""

SnapshotMoment = Literal["before_run", "turn", "before_move"]
"""Before a run; after a turn that changed files; before the user moves within the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The tree at one moment."""

    tree: str
    """The id of the tree."""
    left_out: tuple[str, ...] = ()
    """Changed files that this snapshot or the one before omits as too large, and folders (with a
    `/`) of other repositories."""
    held: tuple[str, ...] = ()
    """The files that it holds on request, by their paths in the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The result of restoring files."""

    done: tuple[str, ...] = ()
    """The restored files."""
    failed: tuple[tuple[str, str], ...] = ()
    """The files that could not be restored, each with the reason."""


def paths_as_text(paths: Iterable[str]) -> list[str]:
    """The paths as text for a journal, because file names can be any bytes."""
    return [os.fsencode(path).decode("utf-8", "replace") for path in paths]
