"""Who has a conversation to themselves for a while: a plan, which drives it through its phases."""

from typing import Protocol


class Occupant(Protocol):
    """While there is one, nobody else starts runs; what is typed waits, or steers its runs."""

    @property
    def doing(self) -> str:
        """For people, as `the plan is being reviewed`."""

    def interrupt(self, reason: str = "user") -> None:
        """Stop what goes on, and leave: soon, and without doing anything more."""
