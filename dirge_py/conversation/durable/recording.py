"""Which engine keeps the side effects of a conversation: this process, or one that was brought."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from dirge_py.conversation.durable.base import DurableContext
from dirge_py.conversation.durable.local import LocalDurable
from dirge_py.conversation.durable.signals import SignalBox
from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store

Engine: TypeAlias = Callable[[DurableContext], DurableContext]
"""Makes another engine around the local one, which writes ahead and takes signals."""


def open_durable(store: Store, recorder: Recorder | None, engine: Engine | None) -> DurableContext:
    """The engine of one conversation; without a `recorder` nothing of it outlives the process."""
    if recorder is None:
        local = LocalDurable()
    else:
        local = LocalDurable(
            log=recorder,
            signals=SignalBox(store.folder / recorder.session_id / "signals"),
            taken=lambda: _taken(recorder),
            write_ahead=recorder.interceptor,
        )
    return engine(local) if engine is not None else local


def _taken(recorder: Recorder) -> Iterator[str]:
    for record in recorder.records():
        if record.type == "signal" and isinstance(record.data, dict):
            yield str(record.data.get("id"))
