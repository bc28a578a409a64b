"""Which session a start works in."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.conversation.deps import PromptCheck
from dirge_py.lib.version import __version__
from dirge_py.sdk.options import SessionChoice
from dirge_py.session.continuation import Continuation, check_continuation
from dirge_py.session.history import Loaded
from dirge_py.session.journal import Journal
from dirge_py.session.names import project_id, project_root
from dirge_py.session.segments import Limits
from dirge_py.session.store import Store
from dirge_py.types.errors import SessionError
from dirge_py.types.messages import UserMessage

_STALE = timedelta(hours=24)


def changes_since(loaded: Loaded, *, cwd: Path, now: datetime | None = None) -> Iterator[str]:
    """What a person who resumes a session should know before going on."""
    if loaded.cwd and loaded.cwd != str(cwd):
        yield f"this session was begun in {loaded.cwd}; it goes on in {cwd}."
    if not loaded.updated:
        return
    age = (now or datetime.now(UTC)) - datetime.fromisoformat(loaded.updated)
    if age >= _STALE:
        yield f"this session rested for {_days(age.days)}; files may have changed since."


def open_journal(store: Store, choice: SessionChoice) -> tuple[Journal | None, Sequence[str]]:
    """The journal to write, None to keep nothing, and notices for the person.

    For a `view` nothing is opened: see `viewed`.

    Raises:
        SessionError: the session asked for is not there, busy, or cannot be opened.
    """
    match choice.kind:
        case "none" | "view":
            return None, ()
        case "new":
            return store.create(), ()
        case "newest":
            newest = store.newest()
            if newest is None:
                return store.create(), [
                    "there is no session of this project yet; a new one begins."
                ]
            return store.open(newest.id, fork=choice.fork), ()
        case "resume" if choice.continuation is not None:
            return _open_to_continue(store, choice.continuation), ()
        case "resume":
            return store.open(choice.id, fork=choice.fork), ()
        case "named":
            if choice.fork:
                return store.open(choice.id, fork=True), ()
            return store.open_or_create(choice.id), ()


def viewed(store: Store, choice: SessionChoice) -> Loaded:
    """What a start that keeps nothing shows: the session of a `view`, else nothing.

    Raises:
        SessionError: the session to view is not there, or cannot be read.
    """
    return store.view(choice.id) if choice.kind == "view" else Loaded()


def refuse_to_send(store: Store, choice: SessionChoice) -> tuple[PromptCheck, ...]:
    """The checks that keep prompts out of a session that is only viewed."""
    if choice.kind != "view":
        return ()

    async def refuse(_prompt: UserMessage) -> str:
        return store.why_only_to_look(choice.id).removesuffix(".")

    return (refuse,)


def open_store(config: Config, cwd: Path) -> Store:
    """The sessions of the project around `cwd`."""
    folder = state_dir(config.origin.environment)
    kept = config.session
    limits = Limits(records=kept.segment_records, size=kept.segment_mb * 1024 * 1024)
    return Store(folder, project_root(cwd), app_version=__version__, limits=limits)


def typed_dir(config: Config, cwd: Path) -> Path:
    """Where the prompts of the project around `cwd` are kept, and drafts of no session yet."""
    return state_dir(config.origin.environment) / "typed" / project_id(project_root(cwd))


def _open_to_continue(store: Store, continuation: Continuation) -> Journal:
    """The session of the continuation, held for writing, just as the continuation left it."""
    session_id = continuation.session_id
    if continuation.project != store.folder.name:
        raise SessionError(
            f"The continuation belongs to another project, begun in {continuation.cwd!r}.",
            hint="Go there, or name it with `-C DIR`.",
        )
    if store.find(session_id) != session_id:
        raise SessionError(
            f"The session {session_id!r} of the continuation is gone.",
            hint="`dirge -r` lists those there are.",
        )
    journal = store.open(session_id)
    try:
        check_continuation(continuation, journal.records())
    except BaseException:
        journal.close()
        raise
    return journal


def _days(count: int) -> str:
    return "a day" if count == 1 else f"{count} days"
