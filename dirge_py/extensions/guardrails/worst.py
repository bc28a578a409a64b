"""Several guardrails asked about one text: the worst that any of them says."""

import inspect
import logging
from collections.abc import Sequence

from dirge_py.extensions.guardrails.verdict import Guardrail, Pass, Trip, Verdict, Warn

_logger = logging.getLogger(__name__)


async def worst(checks: Sequence[Guardrail], text: str) -> Verdict:
    """Trip if any trips, else Warn if any warns, else Pass; reasons name who said so.

    Asked in order, and no longer after a trip: nothing is worse. One that fails has tripped, for
    then nobody has looked; its error is logged by kind only, since its words may quote the text.
    """
    warnings: list[str] = []
    for check in checks:
        verdict = await _verdict(check, text)
        if isinstance(verdict, Trip):
            return Trip(f"`{check.name}`: {verdict.reason}")
        if isinstance(verdict, Warn):
            warnings.append(f"`{check.name}`: {verdict.reason}")
    return Warn("; ".join(warnings)) if warnings else Pass()


async def _verdict(check: Guardrail, text: str) -> Verdict:
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
