"""Which session a start works in."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dirge_py.session.history import Loaded
from dirge_py.session.journal import Journal
from dirge_py.session.store import Store
from dirge_py.wiring.options import SessionChoice

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

    Raises:
        SessionError: the session asked for is not there, busy, or cannot be opened.
    """
    match choice.kind:
        case "none":
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
        case "resume":
            return store.open(choice.id, fork=choice.fork), ()
        case "named":
            if choice.fork:
                return store.open(choice.id, fork=True), ()
            return store.open_or_create(choice.id), ()


def _days(count: int) -> str:
    return "a day" if count == 1 else f"{count} days"
