"""Messages that enter a history besides the prompts, such as commands that the user ran.

They open no run. During a run they are delivered at the next boundary at which it continues anyway.
"""

import logging
from collections.abc import Callable, Sequence

from dirge_py.types.errors import DirgeError
from dirge_py.types.events import MessageEnd, MessageStart, Sink
from dirge_py.types.extensions import PromptCheck
from dirge_py.types.messages import UserMessage

_logger = logging.getLogger(__name__)


class PendingInserts:
    """The inserted messages of one conversation that are not in its history yet.

    They wait during a run, and while `is_unfinished`; then `report` gets their events.
    """

    def __init__(
        self, checks: Sequence[PromptCheck], *, report: Sink, is_unfinished: Callable[[], bool]
    ) -> None:
        self._checks = checks
        self._report = report
        self._is_unfinished = is_unfinished
        self._is_running = False
        self._waiting: list[UserMessage] = []

    @property
    def waiting(self) -> Sequence[UserMessage]:
        """The messages that are not in the history yet."""
        return tuple(self._waiting)

    async def add(self, message: UserMessage) -> None:
        """Add the message to the next request, in the order of these calls.

        Raises DirgeError if a check holds it back, or the session is read-only.
        """
        reason = await objection(self._checks, message)
        if reason is not None:
            raise DirgeError(f"Not sent to the model: {reason}.")
        self._waiting.append(message)
        self._settle()

    def run_begins(self) -> None:
        """Deliver the messages with `due` from now on. Called when open calls are answered."""
        self._settle()
        self._is_running = True

    def run_ended(self) -> None:
        self._is_running = False
        self._settle()

    def due(self, *, continues: bool) -> Sequence[UserMessage]:
        """Return the messages to deliver now; none if the run would continue only for them."""
        if not continues:
            return ()
        due, self._waiting = self._waiting, []
        return due

    def _settle(self) -> None:
        while self._waiting and not self._is_running and not self._is_unfinished():
            message = self._waiting.pop(0)
            self._report(MessageStart(message))
            self._report(MessageEnd(message))


async def objection(checks: Sequence[PromptCheck], message: UserMessage) -> str | None:
    """Return the first reason not to send the message; a check that fails is a reason, too."""
    for check in checks:
        try:
            reason = await check(message)
        except Exception as error:
            _logger.exception("a check of a prompt failed")
            reason = f"it could not be checked ({error!r})"
        if reason is not None:
            return reason
    return None
