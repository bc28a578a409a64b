"""Guardrails that an embedder brings: functions that judge a text."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from dirge_py.extensions.guardrails.hooks import Guardrails
from dirge_py.extensions.guardrails.verdict import Guardrail, Verdict
from dirge_py.lib.lean_dataclass import dataclass

Place = Literal["input", "output", "tool_result"]
Check: TypeAlias = Guardrail | Callable[[str], Verdict | Awaitable[Verdict]]
Checks: TypeAlias = Sequence[Check] | Mapping[Place, Sequence[Check]]
"""A sequence looks at all three places: prompts, answers, results of tools."""


class OwnGuardrails(Guardrails):
    """The checks of one agent at work, as those of the settings are."""

    def __init__(self, checks: Checks, notice: Callable[[str], None]) -> None:
        super().__init__((), redact=lambda text: text, notice=notice)
        by_place = checks if isinstance(checks, Mapping) else dict.fromkeys(get_args(Place), checks)
        self._checks = {
            place: [_as_guardrail(check) for check in by_place.get(place, ())]
            for place in get_args(Place)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    name: str
    check: Callable[[str], Verdict | Awaitable[Verdict]]


def _as_guardrail(check: Check) -> Guardrail:
    if callable(check):
        return _Function(name=getattr(check, "__name__", "check"), check=check)
    return check
