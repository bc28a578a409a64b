"""Which session a start works in."""

from collections.abc import Sequence

from dirge_py.session.journal import Journal
from dirge_py.session.store import Store
from dirge_py.wiring.options import SessionChoice


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
