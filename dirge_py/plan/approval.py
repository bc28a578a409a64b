"""How a plan is put to somebody for approval before anything is changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass

if TYPE_CHECKING:
    from dirge_py.plan.document import PlanDocument


@dataclass(frozen=True, slots=True)
class Accept:
    """Do it. `text` is the plan as it shall be done: it may have been edited."""

    text: str


@dataclass(frozen=True, slots=True)
class ReplacePlan:
    """The plan is now this, and is to be decided about."""

    text: str


@dataclass(frozen=True, slots=True)
class Revise:
    """Plan once more, minding this."""

    comment: str


@dataclass(frozen=True, slots=True)
class Reject:
    """Nothing comes of it."""


@dataclass(frozen=True, slots=True)
class DeferPlan:
    """Nobody decided; the plan is kept."""


PlanAnswer: TypeAlias = Accept | ReplacePlan | Revise | Reject | DeferPlan


class PlanApprover(Protocol):
    """Decides about plans. It is asked again after each answer that settles nothing."""

    async def decide(self, plan: "PlanDocument", grants: Sequence[str]) -> PlanAnswer:
        """What becomes of the plan. `grants` are rules that accepting it adds to the session."""


class AutoApprove:
    """A desk at which nobody sits: every plan is accepted as it is."""

    async def decide(self, plan: "PlanDocument", _grants: Sequence[str]) -> PlanAnswer:
        return Accept(plan.text)


class DeferAll:
    """A desk at which nobody sits: every plan waits for somebody."""

    async def decide(self, _plan: "PlanDocument", _grants: Sequence[str]) -> PlanAnswer:
        return DeferPlan()
