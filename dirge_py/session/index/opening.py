"""The index of the sessions, as wiring knows where they are."""

from dirge_py.config.paths import state_dir
from dirge_py.config.schema import Config
from dirge_py.session.index.index import SessionIndex
from dirge_py.session.store import Store


def open_index(config: Config, store: Store) -> SessionIndex:
    """Lists and searches of what `store` holds, and of all other projects.

    Nothing is opened before it is asked. Asking reads and writes files: call it in a thread where
    a screen is to stay alive.
    """
    return SessionIndex(state_dir(config.origin.environment), store.folder.name)
