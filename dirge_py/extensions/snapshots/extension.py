"""Snapshots as an extension: taken before each run, and after each turn that changed files."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from dirge_py.config.paths import state_dir
from dirge_py.lib.text import clean
from dirge_py.processes.programs import search_path
from dirge_py.session.snapshots.base import SNAPSHOT_RECORD, Snapshot, SnapshotMoment, paths_as_text
from dirge_py.session.snapshots.capture import SnapshotLimits
from dirge_py.session.snapshots.originals import keep_originals
from dirge_py.session.snapshots.repository import ProjectSnapshots, SnapshotRepository
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
"""How long the end of the program waits for a snapshot after which nothing was changed."""


def _open_repository(host: ExtensionHost) -> SnapshotRepository | None:
    config = host.settings.session
    if not config.snapshots or host.recorder is None:
        return None
    return SnapshotRepository(
        state_dir(host.settings.origin.environment),
        host.cwd,
        session=host.recorder.session_id,
        # A git program in the workspace is not used.
        path=search_path(os.environ.get("PATH", os.defpath), host.workspace.roots),
        limits=SnapshotLimits(
            file_bytes=config.snapshot_file_mb * _MIB,
            days=config.snapshot_days,
            max_bytes=config.snapshot_max_mb * _MB,
        ),
        on_notice=host.notify,
    )


class RunSnapshots(ProjectSnapshots):
    """Takes the snapshots of one conversation's runs and records them.

    The first of a run is taken in the background: only calls that may change something wait for it.
    A failure is one notice, and stops nothing. Old snapshots are pruned after the first one. `note`
    records something in the session; `notice` gets messages for the user.
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
        """Return the hooks of a run that is recorded; others have no snapshots."""
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
        """Delay a call that may change something until a snapshot of the files is taken.

        This is the outermost interceptor: the wait is outside of time limits, and before the record
        of the start.
        """
        if changes_something(call):
            if self._task is not None:
                await asyncio.wait({self._task})
            await self._include_edited(call)
            self._has_changed = self._is_needed = True
        return await proceed()

    def on_event(self, event: LoopEvent) -> None:
        """Take a snapshot at the end of a run that stopped in the middle of a turn."""
        if isinstance(event, AgentEnd) and self._has_changed:
            self._take("turn")

    async def before_close(self) -> None:
        """Finish snapshots that are needed for undo, cancel the rest, and close the repository."""
        if self._task is not None:
            limit_s = None if self._is_needed else LAST_WAIT_S
            await asyncio.wait({self._task}, timeout=limit_s)
        await self.snapshots.aclose()
        tasks = {task for task in (self._task, self._pruning) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def for_fork(self, options: Any) -> None:
        """Return None: a fork is not recorded, so its snapshots could not be used."""

    def _before_call(self, info: TurnInfo, call: ToolCall) -> Awaitable[None] | None:
        """Take a snapshot before permission decides about removing files."""
        self._begin(info)
        is_needed = any(claim.removes for claim in _edits(call))
        return _ended(self._take("turn")) if is_needed else None

    async def _include_edited(self, call: ToolCall) -> None:
        """Take a snapshot of the files that the call changes, if rules leave them out."""
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

    def _after_turn(self, info: TurnInfo) -> Awaitable[None] | None:
        """Wait for the snapshot, so that later input is recorded after the state of the files."""
        self._turn = info.turn
        return _ended(self._take("turn")) if self._has_changed else None

    def _take(self, at: SnapshotMoment, also: Sequence[str] = ()) -> asyncio.Task[None]:
        """Begin a snapshot, which is taken after the one before it."""
        self._has_changed = False
        before, run_id, turn = self._task, self._run_id, self._turn

        async def take() -> None:
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

        self._task = asyncio.get_running_loop().create_task(take())
        return self._task

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


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})


def _edits(call: ToolCall) -> Sequence[Claim]:
    """Return the claims of the call that change files; none if the tool can't name them."""
    claims = call.claims if call.problem is None else None
    return [claim for claim in claims or () if claim.op == "edit"]


def make(host: ExtensionHost) -> RunSnapshots | None:
    """Return the snapshots of a stored session; None if they are switched off."""
    repository = _open_repository(host)
    keep_originals(host.workspace.originals, repository, host.settings, host.cwd, host.notify)
    if repository is None:
        return None
    return RunSnapshots(repository, note=host.recorder.note, notice=host.notify)
