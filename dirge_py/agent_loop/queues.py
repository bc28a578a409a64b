"""Queues for what the user types while the agent is busy: steering and follow-ups."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.hooks import GetFollowupMessages, GetSteeringMessages
from dirge_py.types.messages import UserMessage, user_text

QueueMode = Literal["all", "one-at-a-time"]
InputKind = Literal["steering", "follow_up"]

# One counter for all queues, so that an id names one input wherever it is shown.
_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class QueuedInput:
    """One waiting message."""

    id: int
    """Its number, unique in this process."""
    kind: InputKind
    """The queue it waits in."""
    message: UserMessage
    """The message that the user typed."""


class InputQueue:
    """Waiting inputs of one kind, oldest first; safe to use from any thread.

    `on_delivered` is called with each input that was delivered; the loop records it at once.
    """

    def __init__(
        self,
        kind: InputKind,
        mode: QueueMode = "all",
        *,
        on_delivered: Callable[[QueuedInput], None] | None = None,
    ) -> None:
        self.kind: InputKind = kind
        self.mode: QueueMode = mode
        self._on_delivered = on_delivered
        self._waiting: list[QueuedInput] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, prompt: str | UserMessage) -> QueuedInput:
        """Add an input; its origin becomes the queue's kind."""
        message = user_text(prompt) if isinstance(prompt, str) else prompt
        queued = QueuedInput(next(_ids), self.kind, replace(message, origin=self.kind))
        with self._lock:
            self._waiting.append(queued)
        return queued

    def peek(self) -> tuple[QueuedInput, ...]:
        """Return the waiting inputs, oldest first."""
        with self._lock:
            return tuple(self._waiting)

    def take_back(self, id: int | None = None) -> tuple[QueuedInput, ...]:  # noqa: A002
        """Remove one input, or all, so that they aren't delivered; return what was removed."""
        with self._lock:
            removed = tuple(item for item in self._waiting if id in (None, item.id))
            self._waiting = [item for item in self._waiting if item not in removed]
        return removed

    def drain(self) -> tuple[QueuedInput, ...]:
        """Remove and return what is due now; concurrent callers never get the same input."""
        with self._lock:
            count = len(self._waiting) if self.mode == "all" else 1
            due, self._waiting = tuple(self._waiting[:count]), self._waiting[count:]
        if self._on_delivered is not None:
            for item in due:
                self._on_delivered(item)
        return due


def steering_from_queue(queue: InputQueue) -> GetSteeringMessages:
    """Return a `get_steering_messages` hook that delivers from `queue`."""
    return lambda _info: [item.message for item in queue.drain()]


def followups_from_queue(queue: InputQueue) -> GetFollowupMessages:
    """Return a `get_followup_messages` hook that delivers from `queue`."""
    return lambda _info, _so_far: [item.message for item in queue.drain()]
