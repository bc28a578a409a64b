"""The approval of a plan before anything changes: the interface, and the possible answers."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.plan.document import PlanDocument


@dataclass(frozen=True, slots=True)
class Accept:
    """Run this plan."""

    text: str
    """The plan, which may have been edited."""


@dataclass(frozen=True, slots=True)
class ReplacePlan:
    """Replace the plan, and ask about the new one."""

    text: str
    """The new plan."""


@dataclass(frozen=True, slots=True)
class Revise:
    """Write another plan."""

    comment: str
    """What to change."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Discard the plan."""


@dataclass(frozen=True, slots=True)
class DeferPlan:
    """Keep the plan for a later decision."""


PlanAnswer: TypeAlias = Accept | ReplacePlan | Revise | Reject | DeferPlan


class PlanApprover(Protocol):
    """Decides about plans. It is asked again after `ReplacePlan` and `Revise`."""

    async def decide(self, plan: PlanDocument, grants: Sequence[str]) -> PlanAnswer:
        """Decide about the plan; `grants` are rules that accepting it adds to the session."""


class AutoApprove:
    """Accepts every plan as it is."""

    async def decide(self, plan: PlanDocument, _grants: Sequence[str]) -> PlanAnswer:
        return Accept(plan.text)


class DeferAll:
    """Defers every plan."""

    async def decide(self, _plan: PlanDocument, _grants: Sequence[str]) -> PlanAnswer:
        return DeferPlan()
