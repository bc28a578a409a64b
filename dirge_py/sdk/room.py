"""What one conversation has of its own: its session, folders, gate, todo list and tools."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from dirge_py.config.schema import Config
from dirge_py.context.prompt_source import SystemPrompt, follow_prompt
from dirge_py.conversation.durable.base import DurableContext
from dirge_py.conversation.durable.recording import Engine, open_durable
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redactor import Redactor
from dirge_py.permission.gate import Gate
from dirge_py.permission.rules import Mode
from dirge_py.permission.settings import open_gate
from dirge_py.sdk.machine import Machine
from dirge_py.sdk.options import BuildOptions
from dirge_py.sdk.sessions import open_journal, viewed
from dirge_py.sdk.workshop import Folders, Workshop, temporary_folders
from dirge_py.session.history import Loaded
from dirge_py.session.kept import Kept
from dirge_py.session.originals import keep_originals
from dirge_py.session.recorder import Recorder
from dirge_py.session.snapshots.base import Snapshots
from dirge_py.session.snapshots.hooks import RunSnapshots, make, open_snapshots
from dirge_py.session.store import Store
from dirge_py.tools.planning.todo_list import TodoList
from dirge_py.tools.toolbox import Toolbox

_STRICTEST_FIRST: Sequence[Mode] = ("plan", "restrictive", "standard", "accept", "yolo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a room is opened from. `undo` is for when building fails, `on_close` for the end."""

    config: Config
    cwd: Path
    options: BuildOptions
    machine: Machine
    workshop: Workshop
    prompt: SystemPrompt
    store: Store
    redactor: Redactor
    late_notices: list[str]
    undo: ExitStack
    on_close: list[Callable[[], Awaitable[None]]]
    engine: Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """`notices` are about the session that was opened; without a `recorder` nothing is kept.

    `run_snapshots` take the `snapshots` of each run; none where none are kept.
    """

    recorder: Recorder | None
    loaded: Loaded
    folders: Folders
    gate: Gate
    todo: TodoList
    toolbox: Toolbox
    durable: DurableContext
    snapshots: Snapshots | None
    run_snapshots: Sequence[RunSnapshots]
    kept: Kept
    notices: Sequence[str]


def open_room(site: Site) -> Room:
    """
    Raises:
        SessionError: the session asked for cannot be opened.
        ConfigError: a rule does not hold.
    """
    recorder, notices = _open_recorder(site)
    loaded = recorder.load() if recorder is not None else viewed(site.store, site.options.session)
    folders = _folders(site, recorder)
    gate = _gate(site, folders, loaded, recorder)
    follow_prompt(
        site.prompt.prompts,
        gate,
        stored=loaded.settings.get("prompt"),
        note=partial(recorder.note_setting, "prompt") if recorder else lambda name: None,
    )
    todo = TodoList()
    todo.load(loaded.settings.get("todo"))
    if recorder is not None:
        todo.on_change = lambda items: recorder.note_setting("todo", items)
    snapshots, run_snapshots = _snapshots(site, recorder)
    originals, notice = site.machine.workspace.originals, site.late_notices.append
    keep_originals(originals, snapshots, site.config, site.cwd, notice)
    return Room(
        recorder=recorder,
        loaded=loaded,
        folders=folders,
        gate=gate,
        todo=todo,
        toolbox=site.workshop.toolbox(folders, todo),
        durable=open_durable(site.store, recorder, site.engine),
        snapshots=snapshots,
        run_snapshots=run_snapshots,
        kept=Kept(loaded.settings, recorder.note_setting, recorder.begin) if recorder else Kept(),
        notices=[
            *notices,
            *_mode_again(site.config, gate, loaded, recorder),
            *_grants_left_behind(loaded, recorder),
        ],
    )


def _open_recorder(site: Site) -> tuple[Recorder | None, Sequence[str]]:
    if not site.config.session.save:
        return None, ()
    journal, notices = open_journal(site.store, site.options.session)
    if journal is None:
        return None, notices
    recorder = Recorder(
        journal, redact=site.redactor.redact_known, on_notice=site.late_notices.append
    )
    site.undo.callback(recorder.close)
    return recorder, notices


def _snapshots(
    site: Site, recorder: Recorder | None
) -> tuple[Snapshots | None, Sequence[RunSnapshots]]:
    """Those of the project's files: only a session that is kept can go back to them."""
    if recorder is None:
        return None, ()
    snapshots = open_snapshots(
        site.config,
        site.cwd,
        session=recorder.session_id,
        roots=site.machine.workspace.roots,
        notice=site.late_notices.append,
    )
    if snapshots is None:
        return None, ()
    taking = make(snapshots, note=recorder.note, notice=site.late_notices.append)
    return snapshots, [taking]


def _folders(site: Site, recorder: Recorder | None) -> Folders:
    if recorder is not None:
        return Folders.of_session(site.store.folder, recorder.session_id)
    folders, remove = temporary_folders(site.undo)

    async def remove_at_close() -> None:
        remove()

    site.on_close.append(remove_at_close)
    return folders


def _gate(site: Site, folders: Folders, loaded: Loaded, recorder: Recorder | None) -> Gate:
    gate = open_gate(
        site.config,
        site.options,
        site.machine.workspace,
        folders.output,
        is_sandboxed=bool(site.machine.sandbox),
        project_rules=site.options.project_rules,
    )
    gate.history.redact = site.redactor.redact
    gate.history.restore(loaded.decisions)
    if recorder is not None:
        gate.history.on_record = recorder.note_decision
    return gate


def _mode_again(
    config: Config, gate: Gate, loaded: Loaded, recorder: Recorder | None
) -> Sequence[str]:
    """Go on in the session's mode, unless a flag names one.

    One that lets more pass than this start would ended with the program, as grants do; that is told
    once.
    """
    is_flag = config.provenance.get("permission.mode") == "--permission-mode"
    left = next((mode for mode in _STRICTEST_FIRST if mode == loaded.mode), None)
    if recorder is None or is_flag or left is None:
        return ()
    if _STRICTEST_FIRST.index(left) <= _STRICTEST_FIRST.index(gate.mode):
        gate.mode = left
        return ()
    recorder.note_mode(gate.mode)
    return [f"the mode is {gate.mode} again: {loaded.mode} ended with the program before."]


def _grants_left_behind(loaded: Loaded, recorder: Recorder | None) -> Sequence[str]:
    """Tell, once, what was allowed for a session that ended: that holds for nobody else."""
    if recorder is None or not loaded.grants:
        return ()
    for rule in loaded.grants:
        recorder.note_grant_removed(rule)
    is_one = len(loaded.grants) == 1
    rules = "1 rule" if is_one else f"{len(loaded.grants)} rules"
    verb = "is" if is_one else "are"
    shown = ", ".join(loaded.grants)
    return [f"{rules} you allowed for the session {verb} not carried over: {shown}."]
