"""The settings of plans, and the state of a plan as the session stores it."""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.events import PhaseName
from dirge_py.types.extensions import Extension

if TYPE_CHECKING:
    from dirge_py.config.schema import LimitsTable, PlanTable
    from dirge_py.conversation.conversation import Conversation


class Plan(Extension):
    """Explore, plan, implement and review, in forks; with the settings of that."""

    name = "plan"
    summary = "works through a request in phases: explore, plan, implement, review"

    def __init__(
        self, table: "PlanTable", limits: "LimitsTable", models: Mapping[str, str] | None = None
    ) -> None:
        self.table = table
        """The table `[plan]`."""
        self.limits = limits
        """The table `[limits]`, of which cost, tokens and time hold for a whole plan."""
        self.models = models or {}
        """The model of each phase by its name; the main model for others."""


def terms_of(conversation: "Conversation") -> Plan:
    """Return the settings of plans in this conversation."""
    return conversation.extension(Plan) or default_plan()


def default_plan() -> Plan:
    """Return plans with the default settings."""
    # This module is loaded before the first frame; the schema of settings is not.
    from dirge_py.config.schema import LimitsTable, PlanTable

    return Plan(PlanTable(), LimitsTable())


NAME = "plan"
"""The name of the plan in the session's metadata."""

PlanStatus = Literal["active", "waiting", "stopped", "verified", "not_verified", "dropped"]
"""In progress (or left so by a crash); to be accepted; ended early; reviewed and found done;
reviewed and not found done; discarded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCycle:
    """One cycle of implementing a plan and reviewing the result."""

    step: int = 1
    """The number of the cycle, from 1."""
    cycles_left: int = 0
    """How many cycles may follow this one."""
    has_begun: bool = False
    """Whether the implement turn of this cycle was started."""
    is_implemented: bool = False
    """Whether the implement turn of this cycle finished."""
    feedback: str = ""
    """What the last review reported as missing."""

    def next(self) -> "PlanCycle":
        """Return the next cycle, with the same feedback."""
        return PlanCycle(
            step=self.step + 1, cycles_left=self.cycles_left - 1, feedback=self.feedback
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """A plan and how far it has come, as the session stores it."""

    request: str
    """The user's request."""
    findings: str = ""
    """The findings of the explore phase."""
    plan: str = ""
    """The text of the plan; empty until there is one."""
    comment: str = ""
    """The user's comment on a plan to write again."""
    is_accepted: bool = False
    """Whether the user, or a setting, accepted the plan."""
    phase: PhaseName = "explore"
    """The phase that was entered last."""
    cycle: PlanCycle = PlanCycle()
    """The cycle of implementing and reviewing; stored as members of the plan itself."""
    status: PlanStatus = "active"
    """The status of the plan."""
    why: str = ""
    """One line that explains the status."""
    report: str = ""
    """The report of the last review."""
    base_tree: str = ""
    """The snapshot of the project before anything was changed."""
    evidence: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    """What `EvidenceLedger.stored` returned."""

    @property
    def is_resumable(self) -> bool:
        """Whether `/plan resume` can continue it."""
        return self.status not in ("verified", "dropped")

    def stored(self) -> dict[str, Any]:
        """Return the members as JSON values, together with those of the cycle."""
        stored: dict[str, Any] = {}
        for name, value in _members(self).items():
            stored |= _members(value) if isinstance(value, PlanCycle) else {name: value}
        return {**stored, "evidence": [dict(each) for each in self.evidence]}


def load_state(stored: Any) -> PlanState | None:
    """Return the stored state, with defaults for damaged members; None if it is no plan."""
    if not isinstance(stored, Mapping) or not isinstance(stored.get("request"), str):
        return None
    members = _intact(stored, PlanState(request=stored["request"]))
    cycle = _intact(stored, PlanCycle())
    entries = stored.get("evidence")
    entries = entries if isinstance(entries, list) else []
    members["evidence"] = [entry for entry in entries if isinstance(entry, Mapping)]
    if members.get("status") not in get_args(PlanStatus):
        members["status"] = "stopped"
    if members.get("phase") not in get_args(PhaseName):
        members["phase"] = "explore"
    cycle["step"] = max(1, cycle.get("step", 1))
    # A plan that doesn't exist can't have been accepted or begun.
    if not (members.get("plan", "").strip() and members.get("is_accepted")):
        members["is_accepted"] = False
        cycle |= {"has_begun": False, "is_implemented": False}
    return PlanState(**{**members, "cycle": PlanCycle(**cycle)})


def _members(record: PlanState | PlanCycle) -> dict[str, Any]:
    return {each.name: getattr(record, each.name) for each in fields(record)}


def _intact(stored: Mapping[str, Any], blank: PlanState | PlanCycle) -> dict[str, Any]:
    """Return the stored members whose type is the same as in `blank`."""
    return {
        name: stored[name]
        for name, default in _members(blank).items()
        if name in stored and type(stored[name]) is type(default)
    }


def notice_at_start(stored: Any) -> str:
    """Return the notice about an unfinished plan for the opened session; "" if there is none."""
    state = load_state(stored)
    if state is None:
        return ""
    problems: dict[PlanStatus, str] = {
        "active": f"A plan was cut off in its {state.phase} phase",
        "stopped": f"A plan was stopped in its {state.phase} phase",
        "waiting": "A plan waits to be accepted",
    }
    problem = problems.get(state.status)
    return f"{problem}: /plan resume continues it, /plan drop discards it." if problem else ""


def describe_progress(stored: Any) -> str:
    """Return the plan that is being implemented, for a model after compaction; else ""."""
    state = load_state(stored)
    if state is None or not state.is_accepted or state.status != "active":
        return ""
    return f"The plan that was accepted:\n\n{state.plan}"
