"""Copies of files that tools are about to replace or remove, if no snapshot can hold them.

Such files are outside of the project, in another repository, or in a project without snapshots. The
user can restore the copies in the state folder by hand.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.files.atomic import atomic_write
from dirge_py.files.resolve import reason_of
from dirge_py.files.versions import sha256_of
from dirge_py.files.workspace import Originals
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean
from dirge_py.session.ids import project_id
from dirge_py.session.segments import APPEND_FLAGS
from dirge_py.session.snapshots.base import MAX_KEPT_BYTES, paths_as_text
from dirge_py.session.snapshots.repository import SnapshotRepository
from dirge_py.session.snapshots.store import DAY_S
from dirge_py.types.errors import FileError

MAX_COPIES_BYTES = 500_000_000
"""The space for the copies of one project; the oldest are removed first."""
COPIES_LIST = "copies.jsonl"
"""The list of copies: one {"at", "path", "copy"} per line."""
_UNUSUAL = late_pattern(r"[^A-Za-z0-9._-]")
_COPY = late_pattern(r"\d{8}-\d{6}-[0-9a-f]{12}-.+")


class FileCopies:
    """The copies of one project, in `folder`, each kept for `days`. Thread-safe."""

    def __init__(
        self,
        folder: Path,
        *,
        days: int,
        max_bytes: int = MAX_COPIES_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._days = days
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept: dict[tuple[str, str], Path] = {}

    def keep(self, real: str, content: bytes) -> Path:
        """Copy the `content` of the file at `real`; returns the copy. Raises FileError."""
        digest = sha256_of(content)
        earlier = self._kept.get((real, digest))
        if earlier is not None and earlier.is_file():
            return earlier
        now = datetime.fromtimestamp(self._clock(), UTC)
        (path,) = paths_as_text([real])
        name = _UNUSUAL.sub("_", os.path.basename(real))[-80:]
        copy = self.folder / f"{now:%Y%m%d-%H%M%S}-{digest[:12]}-{name}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic_write(copy, content, mode=0o600)
            line = {"at": now.isoformat(timespec="seconds"), "path": path, "copy": copy.name}
            listed = os.open(self.folder / COPIES_LIST, APPEND_FLAGS | os.O_CREAT, 0o600)
            with open(listed, "ab") as stream:
                stream.write(f"{json.dumps(line)}\n".encode())
        except (OSError, FileError) as error:
            why = f"{reason_of(error)}." if isinstance(error, OSError) else error.message
            raise FileError(
                f"{real} was not changed: it could not be copied to {self.folder}: {why}",
                hint="Ask the user to free some space there.",
            ) from error
        self._kept[real, digest] = copy
        self._prune(copy)
        return copy

    def _prune(self, newest: Path) -> None:
        """Remove copies that are too old, and the oldest ones if all take too much space."""
        copies = (path for path in self.folder.iterdir() if _COPY.fullmatch(path.name))
        newest_first = sorted(copies, key=lambda path: (path == newest, path.name), reverse=True)
        oldest = datetime.fromtimestamp(self._clock() - self._days * DAY_S, UTC)
        left = self._max_bytes
        for path in newest_first:
            is_old = path.name < f"{oldest:%Y%m%d-%H%M%S}"
            try:
                left -= path.stat().st_size
                if path != newest and (is_old or left < 0):
                    path.unlink(missing_ok=True)
            except OSError:
                continue  # another process removed it, or the next pruning does


NOTHING_KEPT = "this project has no file snapshots, so this cannot be undone"
_NOT_HELD = "it would remove a file that is in no snapshot"


def keep_originals(
    originals: Originals,
    snapshots: SnapshotRepository | None,
    config: Config,
    cwd: Path,
    notice: Callable[[str], None],
) -> None:
    """Keep `originals` that `snapshots` don't hold; without snapshots, nothing is kept."""
    if snapshots is None:
        originals.unkept = lambda real: NOTHING_KEPT
        return
    repository = snapshots
    folder = state_dir(config.origin.environment) / "copies" / project_id(cwd)
    copies = FileCopies(folder, days=config.session.snapshot_days)
    noticed: set[str] = set()

    def unkept(real: str) -> str:
        if repository.holds_file(real):
            return ""
        with contextlib.suppress(OSError):
            if os.stat(real).st_size > MAX_KEPT_BYTES:
                return f"{_NOT_HELD}; it is too large to be kept, so this cannot be undone"
        if repository.unheld([real]):
            return f"{_NOT_HELD}; it is kept first, so that /undo brings it back"
        return f"{_NOT_HELD}; a copy is kept first, in {folder}"

    def keep(real: str, read: Callable[[], bytes]) -> None:
        if repository.holds_file(real):
            return
        copy = copies.keep(real, read())
        # Without any snapshots this is true of every file, so say it once.
        topic = str(folder) if repository.unavailable else real
        if topic not in noticed:
            noticed.add(topic)
            notice(clean(f"{real} is in no snapshot, so dirge first copied it to {copy}."))

    originals.unkept, originals.keep = unkept, keep
