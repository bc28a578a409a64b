"""The phases of plans as a session keeps them, and their place among the messages."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, get_args

from dirge_py.session.codec import decode_usage
from dirge_py.session.record import Record
from dirge_py.session.tree import branch
from dirge_py.types.events import EvidenceOutcome, EvidenceTaken, PhaseName, PlanPhase

Told: TypeAlias = PlanPhase | EvidenceTaken


def phases_in(records: Sequence[Record]) -> Sequence[tuple[int, Told]]:
    """What is told of plans on the current branch, in order, each behind that many messages.

    An implementation stands before its messages, though it is recorded when it ends: a person
    looks for the heading of a part at its beginning. What is damaged is left out.
    """
    found: list[tuple[int, Told]] = []
    messages = begins = 0
    for record in branch(records):
        data = record.data if isinstance(record.data, Mapping) else {}
        match record.type:
            case "message":
                messages += 1
            case "context":
                kept = data.get("messages")
                messages = begins = len(kept) if isinstance(kept, list) else 0
            case "phase":
                phase = _phase(data)
                if phase is not None:
                    found.append((begins if phase.phase == "implement" else messages, phase))
                    begins = messages
            case "evidence":
                taken = _evidence(data)
                if taken is not None and taken.phase != "implement":
                    found.append((messages, taken))
    return sorted(found, key=lambda each: each[0])


def _phase(data: Mapping[str, Any]) -> PlanPhase | None:
    name, cost = _phase_name(data), data.get("cost_usd")
    if name is None:
        return None
    return PlanPhase(
        phase=name,
        step=max(1, _whole(data, "step")),
        state="ended",
        summary=_text(data, "summary"),
        text=_text(data, "text"),
        shut_in=_text(data, "shut_in"),
        duration_ms=max(0, _whole(data, "duration_ms")),
        usage=decode_usage(data.get("usage")),
        cost_usd=cost if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    )


def _evidence(data: Mapping[str, Any]) -> EvidenceTaken | None:
    name, code = _phase_name(data), data.get("exit_code")
    outcome: EvidenceOutcome | None = data.get("outcome")
    if name is None or outcome is None or outcome not in get_args(EvidenceOutcome):
        return None
    return EvidenceTaken(
        id=_text(data, "id"),
        phase=name,
        step=max(1, _whole(data, "step")),
        command=_text(data, "command"),
        outcome=outcome,
        exit_code=code if isinstance(code, int) else None,
        output_sha256=_text(data, "output_sha256"),
        tree=_text(data, "tree"),
    )


def _phase_name(data: Mapping[str, Any]) -> PhaseName | None:
    name: PhaseName | None = data.get("phase")
    return name if name in get_args(PhaseName) else None


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _whole(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    return value if isinstance(value, int) else 0
