"""Moves of the conversation and of the files; each appends a record, and nothing is deleted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dirge_py.git.objects import TreeChange
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.file_states import (
    FileState,
    SessionDiff,
    UncommittedDiff,
    changes_to_state,
    diff_since_beginning,
    file_states,
    files_changed_by_person,
    files_held_later,
    find_hidden_files,
    restore_files,
    state_at,
    state_before,
    unfinished_move,
)
from dirge_py.session.history import replay
from dirge_py.session.record import Record
from dirge_py.session.recorder import Recorder
from dirge_py.session.snapshots.base import SNAPSHOT_RECORD, RestoreResult, Snapshot, paths_as_text
from dirge_py.session.snapshots.repository import SnapshotRepository
from dirge_py.session.tree import (
    MOVE_RECORD,
    RewindPoint,
    SessionTree,
    branch,
    build_tree,
    last_move,
    rewind_points,
    settings_at,
)
from dirge_py.types.errors import DirgeError
from dirge_py.types.events import HistoryMoved, Sink

RewindScope: TypeAlias = Literal["both", "conversation", "files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindTarget:
    """A point in the session to go to."""

    why: str
    """The command: `rewind`, `undo`, `retry`, `fork`, `clone`, `switch` or `redo`."""
    to: str
    """The record after which the conversation continues."""
    state: FileState | None = None
    """The files at that point; None without a snapshot."""
    text: str = ""
    """The text to put into the input afterwards."""
    point: str = ""
    """The record of the message that the user chose."""
    what: RewindScope = "both"
    """What moves by default: the conversation, the files, or both."""


def _target_at(records: Sequence[Record], to: str, *, why: str, point: str) -> RewindTarget:
    seq = next(record.seq for record in records if record.id == to)
    return RewindTarget(why=why, to=to, state=state_at(file_states(records), seq), point=point)


def _find_point(points: Sequence[RewindPoint], name: str) -> RewindPoint:
    if not points:
        raise DirgeError("There is nothing to go back to: this branch has no messages.")
    fitting = [point for point in points if point.id.startswith(name)] if name else []
    if len(fitting) == 1:
        return fitting[0]
    text = f"{name!r} matches {len(fitting)} messages of this branch."
    raise DirgeError(
        text if fitting else f"there is no message {name!r} on this branch.",
        hint="/tree lists the prompts with their ids.",
    )


MAX_POINTS = 20
_SNAPSHOTS_OFF = "this project has no file snapshots ([session] snapshots)"
_NO_SNAPSHOT_THEN = "there is no snapshot of the files from then"
_SNAPSHOT_GONE = "the snapshot of the files from then is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPreview:
    """The effects of going to a target, on the files and the conversation."""

    destination: RewindTarget
    """The target."""
    changes: tuple[TreeChange, ...] = ()
    """The changes to files."""
    yours: tuple[TreeChange, ...] = ()
    """Optional changes to files that the user changed since."""
    left_out: tuple[str, ...] = ()
    """Files that stay unchanged, because no snapshot holds them: too large or ignored."""
    left_behind: int = 0
    """How many messages would no longer be sent."""
    unavailable: str = ""
    """Why the files can't go there; empty if they can."""
    held: Mapping[str, str] = field(default_factory=dict)
    """The later tree of each file that was first held when a tool was about to change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindResult:
    """The result of a move, for the conversation and the files."""

    why: str
    """The command, as in the target."""
    what: RewindScope
    """What moved."""
    text: str = ""
    """The text to put into the input."""
    done: tuple[str, ...] = ()
    """The restored files."""
    failed: tuple[tuple[str, str], ...] = ()
    """Files that could not be restored, each with the reason."""
    kept: tuple[str, ...] = ()
    """Files that the user changed since, which were kept."""
    left_out: tuple[str, ...] = ()
    """Files that no snapshot holds."""
    left_behind: int = 0
    """How many messages are no longer sent."""
    unavailable: str = ""
    """Why the files stayed although they were to move; empty if they moved."""
    notices: tuple[str, ...] = ()
    """Further notices for the user."""


class Rewinder:
    """Moves one session between its points; never during a run.

    `check_idle` raises during a run; `report` receives `HistoryMoved`. Each function in `follows`,
    by the name of a setting, gets its value at the new point; those in `on_files` get the changed
    paths, relative to the project. Without a recorder there are no points.
    """

    def __init__(
        self,
        recorder: Recorder | None,
        snapshots: SnapshotRepository | None = None,
        *,
        report: Sink = lambda event: None,
        check_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._recorder = recorder
        self._snapshots = snapshots
        self._report = report
        self._check_idle = check_idle
        self.follows: dict[str, Callable[[Any], None]] = {}
        self.on_files: list[Callable[[Sequence[str]], None]] = []
        self.is_moving = False
        self.uncommitted: UncommittedDiff | None = None
        """Returns the diff since the last commit, used without snapshots."""

    # -- reading

    @property
    def file(self) -> Path | None:
        """The first file of the session; None if it isn't stored."""
        return self._recorder.path if self._recorder is not None else None

    def records(self) -> Sequence[Record]:
        """All records of the session; empty if it isn't stored."""
        return self._recorder.records() if self._recorder is not None else ()

    async def difference(self, path: str = "") -> SessionDiff:
        """The changes to the files since the session began; see `diff_since_beginning`."""
        return await diff_since_beginning(
            self.records(), self._snapshots, path, uncommitted=self.uncommitted
        )

    def points(self, most: int | None = MAX_POINTS) -> Sequence[RewindPoint]:
        """The newest messages of the current branch that the user can go to, newest first."""
        return rewind_points(self._records())[::-1][:most]

    def prompts(self, most: int | None = MAX_POINTS) -> Sequence[RewindPoint]:
        """The user's prompts among the points, newest first."""
        return [point for point in self.points(None) if point.is_prompt][:most]

    def tree(self) -> SessionTree:
        """Every prompt and move of the session, on all branches."""
        return build_tree(self._records())

    async def changed_since(self, prompts: Sequence[RewindPoint]) -> Mapping[str, int]:
        """The number of files that changed since each prompt, by its id; only where known."""
        now = await self._take_snapshot()
        if now is None or self._snapshots is None:
            return {}
        states = file_states(self._records())
        by_tree = {now.tree: 0}
        before = {prompt.id: state_before(states, prompt) for prompt in prompts}
        for state in filter(None, before.values()):
            if state.tree not in by_tree and await self._snapshots.holds(state.tree):
                held = await files_held_later(self._snapshots, states, state)
                changes = await changes_to_state(self._snapshots, now.tree, state, held)
                by_tree[state.tree] = len(changes)
        return {
            prompt_id: by_tree[state.tree]
            for prompt_id, state in before.items()
            if state is not None and state.tree in by_tree
        }

    async def preview(self, destination: RewindTarget) -> RewindPreview:
        """The effects of going there; changes nothing."""
        return await self._plan(destination, await self._take_snapshot())

    # -- targets

    def before(self, prompt: str = "", *, why: str = "rewind") -> RewindTarget:
        """The target before the prompt with this id prefix, or the last one. Raises DirgeError."""
        records = self._records()
        prompts = [point for point in rewind_points(records) if point.is_prompt]
        point = _find_point(prompts, prompt) if prompt or not prompts else prompts[-1]
        state = state_before(file_states(records), point)
        return RewindTarget(why=why, to=point.before, state=state, text=point.text, point=point.id)

    def behind(self, message: str) -> RewindTarget:
        """The target after the message with this id prefix. Raises DirgeError: none has it."""
        records = self._records()
        point = _find_point(rewind_points(records), message)
        return _target_at(records, point.after, why="clone", point=point.id)

    def node(self, name: str) -> RewindTarget:
        """The target after a node of the tree, on any branch. Raises SessionError: no such node."""
        records = self._records()
        node = build_tree(records).find(name)
        return _target_at(records, node.tip, why="switch", point=node.id)

    def before_last_move(self) -> RewindTarget:
        """The target where the last move started. Raises DirgeError: there is none to redo."""
        records = self._records()
        move = last_move(records)
        left = move.data.get("from") if move is not None else None
        if move is None or not any(record.id == left for record in records):
            raise DirgeError(
                "Nothing to redo: there was no move, or a message followed it.",
                hint="/tree shows every branch.",
            )
        before = move.data.get("tree_before")
        states = [s for s in file_states(records) if s.seq <= move.seq and s.tree == before]
        return RewindTarget(
            why="redo",
            to=str(left),
            state=states[-1] if states else None,
            what="conversation" if move.data.get("what") == "conversation" else "both",
        )

    # -- moving

    async def move_to(
        self,
        destination: RewindTarget,
        what: RewindScope | None = None,
        *,
        also: Sequence[str] = (),
    ) -> RewindResult:
        """Move the conversation, the files, or both; None means the files too, if possible.

        Files that the user changed since are kept, except those in `also`. The conversation moves
        even if a file can't be restored; `RewindResult.failed` lists such files.

        Raises DirgeError: a run is active, or the files can't move although `what` includes them.
        """
        self._check_idle()
        self.is_moving = True
        try:
            before = await self._take_snapshot()
            plan = await self._plan(destination, before)
            is_expected = what is None and destination.what != "conversation"
            what = _resolve_scope(plan, what)
            # Undo what a killed move had begun, together with this one.
            cut = unfinished_move(self._records())
            if before is not None:
                self._note_snapshot(before, destination if what != "conversation" else None)
            tip = self._records()[-1].id
            if not self._kept.is_saving:
                raise DirgeError("the session cannot be saved, so nothing was changed.")
            restored, after = await self._restore(plan, before, what, also)
            is_kept = what != "conversation"
            kept = [c.path for c in plan.yours if c.path not in also] if is_kept else []
            facts = {
                "from": tip,
                "tree_before": (cut or before).tree if before else None,
                "tree_after": after.tree if after else None,
                "kept": paths_as_text(kept),
            }
            notices = self._record(destination, what, facts)
            if touched := [*restored.done, *(path for path, _ in restored.failed)]:
                for listener in self.on_files:
                    listener(touched)
        finally:
            self.is_moving = False
        return RewindResult(
            why=destination.why,
            what=what,
            text=destination.text if what != "files" else "",
            done=restored.done,
            failed=restored.failed,
            kept=tuple(kept),
            left_out=plan.left_out if is_kept else (),
            left_behind=plan.left_behind if what != "files" else 0,
            unavailable=plan.unavailable if is_expected else "",
            notices=notices,
        )

    async def rewind(
        self, prompt: str = "", what: RewindScope | None = None, *, also: Sequence[str] = ()
    ) -> RewindResult:
        """Go back before a prompt, or the last one. Raises as `before` and `move_to`."""
        return await self.move_to(self.before(prompt), what, also=also)

    async def undo(self, *, also: Sequence[str] = ()) -> RewindResult:
        """Go back before the last prompt."""
        return await self.move_to(self.before(why="undo"), also=also)

    async def retry(self, *, also: Sequence[str] = ()) -> RewindResult:
        """Go back before the last prompt, to edit and resend it."""
        return await self.move_to(self.before(why="retry"), also=also)

    async def redo(self, *, also: Sequence[str] = ()) -> RewindResult:
        """Undo the last move: the messages, and the files it changed."""
        return await self.move_to(self.before_last_move(), also=also)

    async def fork(self, prompt: str = "", what: RewindScope = "conversation") -> RewindResult:
        """Begin a branch before a prompt, or the last one; the files stay as they are."""
        return await self.move_to(self.before(prompt, why="fork"), what)

    async def clone(self, message: str, what: RewindScope = "conversation") -> RewindResult:
        """Begin a branch on which this message is the last one; the files stay as they are."""
        return await self.move_to(self.behind(message), what)

    async def switch(
        self, name: str, what: RewindScope | None = "conversation", *, also: Sequence[str] = ()
    ) -> RewindResult:
        """Go to a node of the tree. Raises as `node` and `move_to`."""
        return await self.move_to(self.node(name), what, also=also)

    # -- internals

    @property
    def _kept(self) -> Recorder:
        if self._recorder is None:
            raise DirgeError(
                "this session isn't stored, so you cannot go back in it.",
                hint="Start without --no-session, or open the session with /sessions.",
            )
        return self._recorder

    def _records(self) -> list[Record]:
        return self._kept.records()

    async def _take_snapshot(self) -> Snapshot | None:
        """Take a snapshot that includes all files that this session ever held."""
        if self._snapshots is None:
            return None
        held = {path for known in file_states(self._records()) for path in known.held}
        root = self._snapshots.root
        return await self._snapshots.take_snapshot([f"{root}/{path}" for path in sorted(held)])

    async def _plan(self, destination: RewindTarget, now: Snapshot | None) -> RewindPreview:
        records = self._records()
        there = {record.id for record in branch(records, destination.to)}
        left = [r for r in branch(records) if r.type == "message" and r.id not in there]
        unavailable = await self._unavailable(destination, now)
        if unavailable or now is None or destination.state is None or self._snapshots is None:
            return RewindPreview(
                destination=destination,
                left_behind=len(left),
                unavailable=unavailable or _SNAPSHOTS_OFF,
            )
        state = destination.state
        states = file_states(records)
        later = [known for known in states if known.seq > state.seq]
        held = await files_held_later(self._snapshots, states, state)
        all_changes = await changes_to_state(self._snapshots, now.tree, state, held)
        unheld = [change for change in all_changes if change.path not in held]
        hidden = await find_hidden_files(
            self._snapshots, unheld, state=state, states=states, now=now
        )
        changes = [change for change in all_changes if change.path not in hidden]
        by_user: set[str] | None = set()
        if changes:
            by_user = await files_changed_by_person(self._snapshots, state, later, now)
        yours = {c.path for c in changes if by_user is None or c.path in by_user}
        left_out = hidden.union(state.left_out, now.left_out, *(known.left_out for known in later))
        return RewindPreview(
            destination=destination,
            changes=tuple(change for change in changes if change.path not in yours),
            yours=tuple(change for change in changes if change.path in yours),
            left_out=tuple(sorted(left_out - held.keys())),
            left_behind=len(left),
            held=held,
        )

    async def _unavailable(self, destination: RewindTarget, now: Snapshot | None) -> str:
        if self._snapshots is None:
            return _SNAPSHOTS_OFF
        if now is None:
            return self._snapshots.unavailable or _SNAPSHOTS_OFF
        if destination.state is None:
            return _NO_SNAPSHOT_THEN
        if await self._snapshots.holds(destination.state.tree):
            return ""
        return self._snapshots.unavailable or _SNAPSHOT_GONE

    async def _restore(
        self, plan: RewindPreview, before: Snapshot | None, what: RewindScope, also: Sequence[str]
    ) -> tuple[RestoreResult, Snapshot | None]:
        """Restore the files; returns the result, and a snapshot taken afterwards."""
        state = plan.destination.state
        if what == "conversation" or state is None or self._snapshots is None:
            return RestoreResult(), before
        wanted = [c.path for c in plan.changes] + [c.path for c in plan.yours if c.path in also]
        if not wanted:
            return RestoreResult(), before
        restored = await restore_files(self._snapshots, wanted, state, plan.held)
        return restored, await self._take_snapshot()

    def _note_snapshot(self, snapshot: Snapshot, destination: RewindTarget | None) -> None:
        """Record a snapshot, and with a `destination` the tree that the files go to."""
        facts = {"run_id": "", "turn": 0, "at": "before_move", "tree": snapshot.tree}
        if destination is not None and destination.state is not None:
            facts["toward"] = destination.state.tree
        facts["left_out"] = paths_as_text(snapshot.left_out)
        # Write it to disk before touching any file, so that a killed move can be undone.
        self._kept.note(SNAPSHOT_RECORD, facts, sync=True)

    def _record(
        self, destination: RewindTarget, what: RewindScope, facts: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """Record the move after its target and report it; returns notices for the user."""
        recorder, records = self._kept, self._records()
        data = {"why": destination.why, "to": destination.to, "what": what, **facts}
        if destination.point:
            data["point"] = destination.point
        if what == "files":
            recorder.note(MOVE_RECORD, {**data, "to": facts["from"]}, sync=True)
            return ()
        loaded = recorder.go_on_from(destination.to)
        recorder.note(MOVE_RECORD, data, sync=True)
        if not recorder.is_saving:
            # The disk refused the record, which waits in memory; its effect is known.
            loaded = replay(branch(records, destination.to))
        # Settings of the branch take their values at the target, and later starts find them.
        before, after = settings_at(records), settings_at(records, destination.to)
        for name, load in self.follows.items():
            load(after.get(name))
            if after.get(name) != before.get(name):
                recorder.note_setting(name, after.get(name))
        self._report(
            HistoryMoved(
                messages=loaded.messages, compactions=loaded.compactions, why=destination.why
            )
        )
        return loaded.notices


def _resolve_scope(plan: RewindPreview, scope: RewindScope | None) -> RewindScope:
    """What moves. Raises DirgeError: `scope` includes the files, and they can't move."""
    if scope is None:
        scope = "conversation" if plan.unavailable else plan.destination.what
    if scope != "conversation" and plan.unavailable:
        raise DirgeError(
            f"the files cannot go there: {plan.unavailable}.",
            hint="Nothing has changed. You can move the conversation alone.",
        )
    return scope
