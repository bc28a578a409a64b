"""What of a conversation is no longer sent as it was said, and how a person gets it back."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dirge_py.conversation.deps import SentView
from dirge_py.types.events import ContextCompacted, Sink
from dirge_py.types.messages import Message

if TYPE_CHECKING:
    from dirge_py.context.dropped import Dropped


class Folded:
    """`check_idle` raises while a run goes on; `report` tells sinks and journal of each change."""

    def __init__(
        self,
        view: SentView | None,
        messages: Callable[[], Sequence[Message]],
        *,
        check_idle: Callable[[], None],
        report: Sink,
    ) -> None:
        self._view = view
        self._messages = messages
        self._check_idle = check_idle
        self._report = report

    def dropped(self) -> "Sequence[Dropped]":
        """The messages that are left out or shortened, in order."""
        return self._view.dropped(self._messages()) if self._view is not None else ()

    def show_again(self, number: int) -> ContextCompacted | None:
        """Send this message (counted from 1) whole again; None if it is not left out.

        Raises:
            DirgeError: a run goes on.
        """
        self._check_idle()
        if self._view is None:
            return None
        return self._told(self._view.show_again(self._messages(), number))

    def undo(self) -> ContextCompacted | None:
        """Take the last compaction back; None if there was none.

        Raises:
            DirgeError: a run goes on.
        """
        self._check_idle()
        return self._told(self._view.undo(self._messages())) if self._view is not None else None

    def _told(self, change: ContextCompacted | None) -> ContextCompacted | None:
        if change is not None:
            self._report(change)
        return change
