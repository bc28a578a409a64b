"""A sink that keeps what it hears."""

from typing import TypeVar

from dirge_py.types.events import AgentEnd, LoopEvent
from dirge_py.types.outcomes import Outcome

E = TypeVar("E", bound=LoopEvent)


class EventRecorder:
    """Give it as `emit`, or subscribe it; then look at `events`."""

    def __init__(self) -> None:
        self.events: list[LoopEvent] = []

    def __call__(self, event: LoopEvent) -> None:
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def outcome(self) -> Outcome:
        """How the run ended."""
        return self.of(AgentEnd)[-1].outcome
