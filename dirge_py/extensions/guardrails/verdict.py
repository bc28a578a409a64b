"""What a guardrail says of a text, and what a guardrail is."""

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Pass:
    """Nothing to say."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Go on, but tell the person. `reason` never quotes what was found."""

    reason: str


@dataclass(frozen=True, slots=True)
class Trip:
    """Stop what was checked. `reason` never quotes what was found."""

    reason: str


Verdict: TypeAlias = Pass | Warn | Trip


class Guardrail(Protocol):
    """A check. `name` is what people read of it."""

    @property
    def name(self) -> str: ...

    def check(self, text: str) -> Verdict | Awaitable[Verdict]:
        """Judge the text. One that raises, or says anything else, counts as tripped."""
