"""What a run waits for, as a value for whoever awaits the run; see `session/continuation.py`."""

from collections.abc import Callable, Mapping
from typing import Any

from dirge_py.session.store import Store
from dirge_py.types.outcomes import AwaitingConfirmation


def continuations(
    store: Store, session_id: str
) -> Callable[[AwaitingConfirmation], Mapping[str, Any]]:
    """The continuation of a run that just ended waiting, as the journal of its session tells it.

    What is returned raises SessionError where the journal could not be written.
    """

    def on_waiting(_outcome: AwaitingConfirmation) -> Mapping[str, Any]:
        return store.continuation(session_id).as_json()

    return on_waiting
