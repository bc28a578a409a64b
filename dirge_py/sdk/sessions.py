"""Opens the session of a start, and restores the settings, files and drafts of a resumed one."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config, LimitsTable
from dirge_py.config.table import InvalidSettings, read_table, values_of
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.settings import LIMITS
from dirge_py.files.versions import ReadLog
from dirge_py.files.workspace import Workspace
from dirge_py.guards.limits import Limits, LimitsInForce
from dirge_py.lib.text import one_line, plural
from dirge_py.lib.version import __version__
from dirge_py.permission.engine import PermissionEngine
from dirge_py.permission.rules import Mode
from dirge_py.plan.state import NAME as PLAN
from dirge_py.sdk.options import SessionChoice
from dirge_py.session.drafts import decode_queue
from dirge_py.session.history import LoadedSession
from dirge_py.session.ids import project_id, project_root
from dirge_py.session.journal import Journal
from dirge_py.session.record import text_member, texts_in
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import SegmentLimits
from dirge_py.session.store import Store, Trash
from dirge_py.session.tree import typed_text
from dirge_py.tools.todo_list import TodoList
from dirge_py.types.errors import SessionError
from dirge_py.types.events import AgentEnd, LoopEvent, Sink
from dirge_py.types.extensions import PromptCheck
from dirge_py.types.messages import UserMessage

if TYPE_CHECKING:
    from dirge_py.session.recovery import Continuation


_STALE = timedelta(hours=24)


def changes_since(
    loaded: LoadedSession, *, cwd: Path, now: datetime | None = None
) -> Iterator[str]:
    """Yield notices for a person who resumes a session."""
    described = loaded.description
    if described.cwd and described.cwd != str(cwd):
        yield f"this session was started in {described.cwd} and continues in {cwd}."
    if not described.updated:
        return
    age = (now or datetime.now(UTC)) - datetime.fromisoformat(described.updated)
    if age >= _STALE:
        days = "a day" if age.days == 1 else f"{age.days} days"
        yield f"this session was last used {days} ago; files may have changed since."


def open_journal(store: Store, choice: SessionChoice) -> tuple[Journal | None, Sequence[str]]:
    """Open the journal to write; returns it (None: store nothing) and notices for the person.

    A `view` opens none. Raises SessionError: the session does not exist, is busy, or
    can't be opened.
    """
    match choice.kind:
        case "none" | "view":
            return None, ()
        case "new":
            return store.create(), ()
        case "newest":
            newest = store.newest()
            if newest is None:
                return store.create(), ["this project has no sessions yet; a new one starts."]
            return store.open(newest.id, fork=choice.fork), ()
        case "resume" if choice.continuation is not None:
            return _open_to_continue(store, choice.continuation), ()
        case "named" if not choice.fork:
            return store.open_or_create(choice.id), ()
        case "resume" | "named":
            return store.open(choice.id, fork=choice.fork), ()


def refuse_to_send(store: Store, choice: SessionChoice) -> tuple[PromptCheck, ...]:
    """Return the checks that reject prompts in a session that is only viewed."""
    if choice.kind != "view":
        return ()

    async def refuse(_prompt: UserMessage) -> str:
        return store.why_only_to_look(choice.id).removesuffix(".")

    return (refuse,)


def open_store(config: Config, cwd: Path) -> Store:
    """Open the sessions of the project around `cwd`."""
    folder = state_dir(config.origin.environment)
    kept = config.session
    limits = SegmentLimits(records=kept.segment_records, size=kept.segment_mb * 1024 * 1024)
    return Store(folder, project_root(cwd), app_version=__version__, limits=limits)


async def delete_unused(config: Config) -> None:
    """Move the sessions that `keep_days` says are too old into the trash, and empty that."""
    days = config.session.keep_days
    if days is not None:
        trash = Trash(state_dir(config.origin.environment))
        await asyncio.to_thread(trash.add_unused, days)
        await asyncio.to_thread(trash.empty_old)


def typed_dir(config: Config, cwd: Path) -> Path:
    """Return the folder of the project's prompt history and of drafts without a session."""
    return state_dir(config.origin.environment) / "typed" / project_id(project_root(cwd))


def _open_to_continue(store: Store, continuation: "Continuation") -> Journal:
    """Open the session of the continuation for writing. It must be unchanged since."""
    from dirge_py.session.recovery import check_continuation

    session_id = continuation.session_id
    if continuation.project != store.folder.name:
        raise SessionError(
            f"The continuation belongs to another project, in {continuation.cwd!r}.",
            hint="Run dirge there, or pass `-C DIR`.",
        )
    if store.find(session_id) != session_id:
        raise SessionError(
            f"The session {session_id!r} of the continuation does not exist.",
            hint="`dirge -r` lists the sessions of the project.",
        )
    journal = store.open(session_id)
    try:
        check_continuation(continuation, journal.records())
    except BaseException:
        journal.close()
        raise
    return journal


_QUEUE_SHOWN = 3
_PROMPT_CHARS = 60


def queued_again(loaded: LoadedSession) -> Iterator[str]:
    """Yield a notice if undelivered input waits for the next run."""
    waiting = decode_queue(loaded.choices.settings.get("queue"))
    if waiting:
        first = waiting[:_QUEUE_SHOWN]
        shown = "; ".join(one_line(typed_text(message), _PROMPT_CHARS) for _, message in first)
        more = f" and {len(waiting) - _QUEUE_SHOWN} more" if len(waiting) > _QUEUE_SHOWN else ""
        verbs = ("message was", "waits") if len(waiting) == 1 else ("messages were", "wait")
        yield (
            f"{len(waiting)} {verbs[0]} not delivered and {verbs[1]} for the next run: "
            f"{shown}{more}."
        )


def restore(
    conversation: Conversation,
    loaded: LoadedSession,
    *,
    todo: TodoList,
    workspace: Workspace,
    typed_dir: Path,
    redact: Callable[[str], str],
) -> None:
    """Restore what was typed and read, and update both when the session moves.

    The files that were read are recorded at the end of each run. Drafts before the first message
    and the prompts of all sessions are in `typed_dir`.
    """
    ledger, recorder = workspace.ledger, conversation.session.recorder
    timeline = conversation.timeline
    root = project_root(conversation.cwd)
    timeline.follows |= {"todo": todo.load, "files_read": ledger.load}
    timeline.follows[PLAN] = partial(conversation.session.metadata.load, PLAN)

    def forget_read_files(paths: Sequence[str]) -> None:
        for path in paths:
            ledger.forget(os.path.realpath(root / path))

    timeline.on_files.append(forget_read_files)
    if recorder is None:
        return
    settings = loaded.choices.settings
    ledger.load(settings.get("files_read"))
    conversation.subscribe(_record_read_files(ledger, recorder))
    if loaded.description.updated:
        # All of its messages may be on other branches.
        conversation.unsent.on_message()
    conversation.unsent.draft = text_member(settings, "draft")
    conversation.unsent.stash = texts_in(settings.get("stash"))
    conversation.unsent.set_folder(typed_dir, redact)
    conversation.queue_again(decode_queue(settings.get("queue")))


def _record_read_files(ledger: ReadLog, recorder: Recorder) -> Sink:
    """Return a sink that records, at the end of a run, which files were read."""
    recorded = ledger.stored()

    def sink(event: LoopEvent) -> None:
        nonlocal recorded
        if isinstance(event, AgentEnd) and ledger.stored() != recorded:
            recorded = ledger.stored()
            recorder.note_setting("files_read", recorded)

    return sink


STRICTEST_FIRST: Sequence[Mode] = ("plan", "restrictive", "standard", "accept", "yolo")
"""The modes, by what they allow."""


def restore_mode(
    config: Config, gate: PermissionEngine, loaded: LoadedSession, recorder: Recorder
) -> Sequence[str]:
    """Use the session's mode, unless a flag names one; returns notices for the person.

    A mode that allows more than the one of this start is not restored, as grants are not.
    """
    is_flag = config.origin.sources.get("permission.mode") == "--permission-mode"
    mode = next((mode for mode in STRICTEST_FIRST if mode == loaded.choices.mode), None)
    if is_flag or mode is None:
        return ()
    if STRICTEST_FIRST.index(mode) <= STRICTEST_FIRST.index(gate.mode):
        gate.mode = mode
        return ()
    recorder.note_mode(gate.mode)
    return [f"the mode is {gate.mode} again: {loaded.choices.mode} ended when dirge exited."]


def session_limits(config: Config, loaded: LoadedSession) -> LimitsInForce:
    """Return the limits of the settings, with those that `/limits` set for this session.

    A flag of this start counts more than what the session stored.
    """
    limits = LimitsInForce(Limits(**values_of(config.limits)))
    stored = loaded.choices.settings.get(LIMITS)
    for key, most in stored.items() if isinstance(stored, dict) else ():
        if not config.origin.sources.get(f"limits.{key}", "").startswith("-"):
            with suppress(InvalidSettings):
                limits.change({key: getattr(read_table(LimitsTable, {key: most}), key)})
    return limits


def drop_grants(loaded: LoadedSession, recorder: Recorder) -> Sequence[str]:
    """Remove the grants of the earlier process, which held for it alone; returns notices."""
    grants = loaded.grants
    if not grants:
        return ()
    for rule in grants:
        recorder.note_grant_removed(rule)
    rules, verb = plural(len(grants), "rule"), "is" if len(grants) == 1 else "are"
    shown = ", ".join(grants)
    return [f"{rules} you allowed for the session {verb} not carried over: {shown}."]
