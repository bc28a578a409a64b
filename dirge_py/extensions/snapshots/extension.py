"""Snapshots as an extension: they keep the files that runs change; copies keep the others.

Snapshots are taken before each run, and after each turn that changed something. Copies are made of
files that no snapshot can hold: outside of the project, in another repository, or of a project
without snapshots. They lie in the state folder, for the person to restore by hand.
"""

import asyncio
import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.files.resolve import reason_of
from dirge_py.files.versions import sha256_of
from dirge_py.files.workspace import Originals
from dirge_py.lib.text import clean
from dirge_py.processes.programs import search_path
from dirge_py.session.ids import project_id
from dirge_py.session.snapshots.base import (
    MAX_KEPT_BYTES,
    SNAPSHOT_RECORD,
    Snapshot,
    SnapshotMoment,
    paths_as_text,
)
from dirge_py.session.snapshots.capture import SnapshotLimits
from dirge_py.session.snapshots.repository import ProjectSnapshots, SnapshotRepository
from dirge_py.session.snapshots.store import DAY_S, SnapshotRetention
from dirge_py.types.errors import FileError
from dirge_py.types.events import AgentEnd, LoopEvent
from dirge_py.types.extensions import ExtensionHost, RunContext
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.tools import (
    Claim,
    Interceptor,
    LoopToolResult,
    Proceed,
    ToolCall,
    changes_something,
)

_LOG = logging.getLogger(__name__)

_MIB = 1 << 20
_MB = 1_000_000
LAST_WAIT_S = 0.5
"""How long the end of the program waits for a snapshot that nothing was changed after."""


def open_snapshots(
    config: Config,
    cwd: Path,
    *,
    session: str,
    roots: Sequence[str],
    notice: Callable[[str], None],
) -> SnapshotRepository | None:
    """The snapshots of the project around `cwd`; None where the person wants none.

    `roots` are the folders of the workspace: git is not taken from there.
    """
    wanted = config.session
    if not wanted.snapshots:
        return None
    return SnapshotRepository(
        state_dir(config.origin.environment),
        cwd,
        session=session,
        path=search_path(os.environ.get("PATH", os.defpath), roots),
        limits=SnapshotLimits(file_bytes=wanted.snapshot_file_mb * _MIB),
        retention=SnapshotRetention(
            days=wanted.snapshot_days, max_bytes=wanted.snapshot_max_mb * _MB
        ),
        on_notice=notice,
    )


class RunSnapshots(ProjectSnapshots):
    """Takes the snapshots of one conversation's runs and records them.

    The first of a run is taken in the background: only a call that may change something waits for
    it, and so a run that changes nothing waits for none. A snapshot that cannot be taken is told
    once, and stops nothing. Old ones are pruned once, after the first one. `note` records something
    in the session; `notice` gets lines for the person.
    """

    def __init__(
        self,
        snapshots: SnapshotRepository,
        *,
        note: Callable[[str, Mapping[str, Any]], None],
        notice: Callable[[str], None],
    ) -> None:
        self.snapshots = snapshots
        self._note = note
        self._notice = notice
        self._run_id = ""
        self._turn = 0
        self._tree = ""
        self._noticed: set[str] = set()
        self._has_changed = False
        self._is_needed = False
        self._task: asyncio.Task[None] | None = None
        self._pruning: asyncio.Task[None] | None = None

    def hooks(self, run: RunContext) -> Sequence[Hooks]:
        """Only runs that are recorded have snapshots."""
        hooks = Hooks(
            name="snapshots",
            transform_context=self._begin,
            before_tool_call=self._before_call,
            prepare_next_turn=self._after_turn,
        )
        return [hooks] if run.is_recorded else []

    def around_tool(self, run: RunContext) -> Sequence[Interceptor]:
        return [self.interceptor] if run.is_recorded else []

    async def interceptor(self, call: ToolCall, proceed: Proceed) -> LoopToolResult:
        """Hold a call that may change something until the files before it are kept.

        It stands around all others: neither a time limit nor the record of the start counts the
        wait, and a call that was not allowed never comes here.
        """
        if changes_something(call):
            if self._task is not None:
                await asyncio.wait({self._task})
            await self._hold_edited(call)
            self._has_changed = self._is_needed = True
        return await proceed()

    def on_event(self, event: LoopEvent) -> None:
        """A run that was stopped in the middle of a turn may have changed something, too."""
        if isinstance(event, AgentEnd) and self._has_changed:
            self._take("turn")

    async def before_close(self) -> None:
        """Finish what is needed to go back, cancel the rest, and close the snapshots."""
        if self._task is not None:
            limit_s = None if self._is_needed else LAST_WAIT_S
            await asyncio.wait({self._task}, timeout=limit_s)
        await self.snapshots.aclose()
        left = {task for task in (self._task, self._pruning) if task is not None}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    def for_fork(self, options: Any) -> None:
        """A fork is not recorded, so nothing could go back to its snapshots."""

    async def _before_call(self, info: TurnInfo, call: ToolCall) -> None:
        """Before it is judged whether files may be removed, what is there is in a snapshot."""
        self._begin(info)
        if any(claim.removes for claim in _edits(call)):
            await asyncio.wait({self._take("turn")})

    async def _hold_edited(self, call: ToolCall) -> None:
        """Have snapshots hold the files that a call changes, also those that rules leave out."""
        reals = [os.path.realpath(str(claim.resource)) for claim in _edits(call)]
        unheld = self.snapshots.unheld([real for real in reals if os.path.isfile(real)])
        if unheld:
            await asyncio.wait({self._take("turn", unheld)})

    def _begin(self, info: TurnInfo) -> None:
        if info.run_id != self._run_id:
            self._run_id, self._turn = info.run_id, info.turn
            self._is_needed = False
            self._take("before_run")
        self._turn = info.turn

    async def _after_turn(self, info: TurnInfo) -> None:
        """Waits: what is typed now shall stand behind the state of the files that it met."""
        self._turn = info.turn
        if self._has_changed:
            await asyncio.wait({self._take("turn")})

    def _take(self, at: SnapshotMoment, also: Sequence[str] = ()) -> asyncio.Task[None]:
        self._has_changed = False
        work = self._take_after(self._task, at, self._run_id, self._turn, also)
        self._task = asyncio.get_running_loop().create_task(work)
        return self._task

    async def _take_after(
        self,
        before: asyncio.Task[None] | None,
        at: SnapshotMoment,
        run_id: str,
        turn: int,
        also: Sequence[str],
    ) -> None:
        try:
            if before is not None:
                await asyncio.wait({before})
            snapshot = await self.snapshots.take_snapshot(also)
            if snapshot is None:
                self._notify_once(self.snapshots.unavailable)
                return
            self._record(snapshot, at, run_id, turn)
        except Exception:
            _LOG.exception("a snapshot failed")
            self._notify_once("No snapshot of the files could be taken; the log says why.")
            return
        if self._pruning is None:
            self._pruning = asyncio.get_running_loop().create_task(self._prune())

    def _record(self, snapshot: Snapshot, at: SnapshotMoment, run_id: str, turn: int) -> None:
        is_same = snapshot.tree == self._tree and not (snapshot.left_out or snapshot.held)
        self._tree = snapshot.tree
        if is_same and at != "before_run":
            return
        recorded = {"run_id": run_id, "turn": turn, "at": at, "tree": snapshot.tree}
        held = {"held": paths_as_text(snapshot.held)} if snapshot.held else {}
        left_out = paths_as_text(snapshot.left_out)
        self._note(SNAPSHOT_RECORD, {**recorded, **held, "left_out": left_out})

    def _notify_once(self, text: str) -> None:
        if text and text not in self._noticed:
            self._noticed.add(text)
            self._notice(clean(text))

    async def _prune(self) -> None:
        try:
            await self.snapshots.prune()
        except Exception:
            _LOG.exception("old snapshots could not be pruned")


def _edits(call: ToolCall) -> Sequence[Claim]:
    """What the call would change of files; nothing where it cannot say so."""
    if call.tool is None or call.problem is not None:
        return ()
    try:
        claims = call.tool.claims(call.arguments)
    except Exception:
        return ()
    return [claim for claim in claims if claim.op == "edit"]


def make(host: ExtensionHost) -> RunSnapshots | None:
    """Only a session that is stored can go back to snapshots."""
    recorder, config, workspace = host.recorder, host.settings, host.workspace
    repository = None
    if recorder is not None:
        repository = open_snapshots(
            config,
            host.cwd,
            session=recorder.session_id,
            roots=workspace.roots,
            notice=host.notify,
        )
    keep_originals(workspace.originals, repository, config, host.cwd, host.notify)
    if repository is None:
        return None
    return RunSnapshots(repository, note=recorder.note, notice=host.notify)


MAX_COPIES_BYTES = 500_000_000
"""What the copies of one project may take; the oldest go first."""
COPIES_LIST = "copies.jsonl"
"""What each copy is of: {"at", "path", "copy"} a line."""
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]")
_COPY = re.compile(r"\d{8}-\d{6}-[0-9a-f]{12}-.+")


class FileCopies:
    """The copies of one project, in `folder`, each for `days`. For any thread."""

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
        """Keep what the file at `real` holds; the copy, also where this was kept before.

        Raises:
            FileError: it cannot be kept.
        """
        digest = sha256_of(content)
        earlier = self._kept.get((real, digest))
        if earlier is not None and earlier.is_file():
            return earlier
        now = datetime.fromtimestamp(self._clock(), UTC)
        name = _UNUSUAL.sub("_", os.path.basename(real))[-80:]
        copy = self.folder / f"{now:%Y%m%d-%H%M%S}-{digest[:12]}-{name}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_new(copy, content)
            self._note(real, copy, now)
        except OSError as error:
            raise FileError(
                f"{real} was not changed: it could not be copied to {self.folder}: "
                f"{reason_of(error)}.",
                hint="Ask the user to free some space there.",
            ) from error
        self._kept[real, digest] = copy
        self._prune(copy)
        return copy

    def _note(self, real: str, copy: Path, now: datetime) -> None:
        (path,) = paths_as_text([real])
        line = {"at": now.isoformat(timespec="seconds"), "path": path, "copy": copy.name}
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(self.folder / COPIES_LIST, flags, 0o600), "ab") as stream:
            stream.write(f"{json.dumps(line)}\n".encode())

    def _prune(self, newest: Path) -> None:
        """Remove copies that are too old, and the oldest where all take too much."""
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
                continue  # another writer removed it first, or it stays until the next time


def _write_new(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    with open(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)


NOTHING_KEPT = "no snapshots of the files are kept here, so this cannot be undone"
_NOT_HELD = "it would remove a file that no snapshot holds"


def keep_originals(
    originals: Originals,
    snapshots: SnapshotRepository | None,
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
    keeper = _OriginalsKeeper(
        snapshots, FileCopies(folder, days=config.session.snapshot_days), notice
    )
    originals.unkept, originals.keep = keeper.unkept, keeper.keep


class _OriginalsKeeper:
    def __init__(
        self, snapshots: SnapshotRepository, copies: FileCopies, notice: Callable[[str], None]
    ) -> None:
        self._snapshots = snapshots
        self._copies = copies
        self._notice = notice
        self._noticed: set[str] = set()

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
        if str(topic) not in self._noticed:
            self._noticed.add(str(topic))
            self._notice(clean(f"No snapshot holds {real}, so dirge copied it to {copy} first."))
