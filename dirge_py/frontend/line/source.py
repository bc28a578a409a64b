"""Where lines come from: the Protocol of whoever reads them, and what ends a wait."""

from collections.abc import Iterable
from typing import Protocol


class Interrupted(Exception):
    """Ctrl+C while a question was open."""


class LineSource(Protocol):
    """Reads what a person types, or what a script holds.

    `is_script`: nobody sits there. Its lines are read one after the other, each once what the one
    before asked for is done, and a question reads the next one.
    """

    is_script: bool

    @property
    def is_gone(self) -> bool:
        """Whether there is nobody at the other end any more."""

    @property
    def has_set_aside(self) -> bool:
        """Whether something was being typed when the last answer was asked for."""

    async def line(self) -> str | None:
        """The next line that is sent; None at the end of the input."""

    async def answer(self, label: str) -> str | None:
        """The next line, typed after `label` was shown; None at the end of the input.

        What was being typed is set aside meanwhile, and given back after.

        Raises:
            Interrupted: Ctrl+C instead of an answer.
        """

    def remember(self, prompts: Iterable[str]) -> None:
        """Earlier prompts, oldest first, to be taken again where lines are edited."""

    def put_back(self, line: str) -> None:
        """Let this be the next line: it was read, and was meant for somebody else."""

    def put(self, text: str) -> None:
        """Put `text` in front of what is being typed."""

    @property
    def draft(self) -> str:
        """What stands in the input now."""

    def refresh(self) -> None:
        """The label of the line may be another one now."""

    def stop(self) -> None:
        """Read no more: `line` and `answer` come back, with None."""
