"""Guardrails and their verdicts: a check of a text passes, warns or trips."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pass:
    """The text is fine."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Continue, but notify the user. `reason` never quotes the text."""

    reason: str


@dataclass(frozen=True, slots=True)
class Trip:
    """Withhold the text. `reason` never quotes it."""

    reason: str


Verdict: TypeAlias = Pass | Warn | Trip


class Guardrail(Protocol):
    """A check of texts."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    def check(self, text: str) -> Verdict | Awaitable[Verdict]:
        """Judge the text. An exception, or any other result, counts as `Trip`."""


@dataclass(frozen=True, slots=True)
class NamedCheck:
    """A function as a check of texts."""

    name: str
    """Its name, for people."""
    check: Callable[[str], Verdict | Awaitable[Verdict]]
    """Judges the text."""


async def run_guardrails(checks: Sequence[Guardrail], text: str) -> Verdict:
    """Return Trip if any check trips, else Warn if any warns, else Pass; reasons name the check.

    They run in order, up to the first trip. A check that fails counts as `Trip`; only the type of
    its error is logged, because the message may quote the text.
    """
    warnings: list[str] = []
    for check in checks:
        verdict = await _run_one(check, text)
        if isinstance(verdict, Trip):
            return Trip(f"`{check.name}`: {verdict.reason}")
        if isinstance(verdict, Warn):
            warnings.append(f"`{check.name}`: {verdict.reason}")
    return Warn("; ".join(warnings)) if warnings else Pass()


async def _run_one(check: Guardrail, text: str) -> Verdict:
    try:
        verdict = check.check(text)
        if inspect.isawaitable(verdict):
            verdict = await verdict
    except Exception as error:
        kind = type(error).__name__
        _logger.error("guardrail %s failed: %s", check.name, kind)
        return Trip(f"the check failed ({kind})")
    if isinstance(verdict, Pass | Warn | Trip):
        return verdict
    return Trip(f"the check returned {type(verdict).__name__}, not a verdict")
