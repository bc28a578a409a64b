"""What becomes of the contents that tools replace or remove: snapshots hold them, or a copy."""

import os
from collections.abc import Callable
from pathlib import Path

from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.files.originals import Originals
from dirge_py.lib.clean import clean
from dirge_py.session.names import project_id
from dirge_py.session.snapshots.base import Snapshots
from dirge_py.session.snapshots.candidates import MAX_KEPT_BYTES
from dirge_py.session.snapshots.copies import KeptCopies

NOTHING_KEPT = "no snapshots of the files are kept here, so this cannot be undone"
_NOT_HELD = "it would remove a file that no snapshot holds"


def keep_originals(
    originals: Originals,
    snapshots: Snapshots | None,
    config: Config,
    cwd: Path,
    notice: Callable[[str], None],
) -> None:
    """Have `originals` kept wherever `snapshots` do not hold them.

    Without snapshots, because the person wants none or no session is saved, nothing is kept.
    """
    if snapshots is None:
        originals.unkept = lambda real: NOTHING_KEPT
        return
    folder = state_dir(config.origin.environment) / "copies" / project_id(cwd)
    keeper = _Keeper(snapshots, KeptCopies(folder, days=config.session.snapshot_days), notice)
    originals.unkept, originals.keep = keeper.unkept, keeper.keep


class _Keeper:
    def __init__(
        self, snapshots: Snapshots, copies: KeptCopies, notice: Callable[[str], None]
    ) -> None:
        self._snapshots = snapshots
        self._copies = copies
        self._notice = notice
        self._told: set[str] = set()

    def unkept(self, real: str) -> str:
        if self._snapshots.holds_file(real):
            return ""
        try:
            size = os.stat(real).st_size
        except OSError:
            size = 0
        if size > MAX_KEPT_BYTES:
            return f"{_NOT_HELD}; it is too large to be kept, so this cannot be undone"
        if self._snapshots.unheld([real]):
            return f"{_NOT_HELD}; it is kept first, so that /undo brings it back"
        return f"{_NOT_HELD}; a copy is kept first, in {self._copies.folder}"

    def keep(self, real: str, read: Callable[[], bytes]) -> None:
        if self._snapshots.holds_file(real):
            return
        copy = self._copies.keep(real, read())
        # Without any snapshots this holds for every file, and is said once.
        topic = self._copies.folder if self._snapshots.unavailable else real
        if str(topic) not in self._told:
            self._told.add(str(topic))
            self._notice(clean(f"No snapshot holds {real}, so dirge copied it to {copy} first."))
