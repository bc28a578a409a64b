"""The states of a tool call, and how it is told in which one a call ended."""

from collections.abc import Mapping
from typing import Any, Literal

State = Literal[
    "running",
    "asking",
    "waiting",
    "ok",
    "failed",
    "again",
    "denied",
    "withheld",
    "aborted",
    "repeated",
    "unrun",
]
"""`again`: the tool asks for another try. `repeated`, `unrun`: answered in the tool's place."""

TOLD: frozenset[State] = frozenset({"denied", "withheld", "repeated", "unrun"})
"""What stands below the call then is a sentence of ours, not output whose columns count."""

UNRUN: frozenset[State] = frozenset({"repeated", "unrun"})

_STATE_BY_OUTCOME: dict[str, State] = {
    "ok": "ok",
    "denied": "denied",
    "aborted": "aborted",
    "suppressed": "unrun",
}


def state_after(outcome: str, details: Mapping[str, Any], *, is_error: bool) -> State:
    """How a call ended, by its outcome and what its details tell."""
    if details.get("storm"):
        return "repeated"
    if details.get("withheld"):
        return "withheld"
    if details.get("retry"):
        return "again"
    if outcome == "failed_command":
        return "failed"
    return _STATE_BY_OUTCOME.get(outcome, "failed" if is_error else "ok")
