"""Guardrails and their verdicts: a check of a text passes, warns or trips.

`run_guardrails` runs several over one text and returns the worst of their verdicts.
"""

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternGuardrail:
    """Looks for a regular expression anywhere in the text. `found` is `Warn` or `Trip`."""

    name: str
    pattern: str
    found: Callable[[str], Verdict]

    def check(self, text: str) -> Verdict:
        if re.search(self.pattern, text) is None:
            return Pass()
        return self.found(f"it matches `{self.pattern}`")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretsGuardrail:
    """Looks for keys, tokens and passwords: whatever `redact` would take out of the text."""

    name: str
    redact: Callable[[str], str]
    found: Callable[[str], Verdict]

    def check(self, text: str) -> Verdict:
        if self.redact(text) == text:
            return Pass()
        return self.found("it holds a key, token or password")


_logger = logging.getLogger(__name__)


async def run_guardrails(checks: Sequence[Guardrail], text: str) -> Verdict:
    """Trip if any trips, else Warn if any warns, else Pass; reasons name who said so.

    Asked in order, and no longer after a trip: nothing is worse. One that fails has tripped, for
    then nobody has looked; its error is logged by kind only, since its words may quote the text.
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
    if not isinstance(verdict, Pass | Warn | Trip):
        return Trip(f"the check gave no verdict but {type(verdict).__name__}")
    return verdict
