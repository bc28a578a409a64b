"""How far a plan has come, as the session keeps it: enough to go on after a crash."""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import Any, Literal, cast, get_args

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.events import PhaseName

NAME = "plan"
"""What it is called among the things that a session keeps."""

PlanStatus = Literal["active", "waiting", "stopped", "verified", "not_verified", "dropped"]
"""Under way (or left so by a crash); for somebody to accept it; ended early; reviewed and found
done, or not; given up."""

RESUMABLE: frozenset[PlanStatus] = frozenset(("active", "waiting", "stopped", "not_verified"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """`step` counts the cycles of implementing and reviewing from 1.

    `has_begun`: the implement turn of this step was started; `is_implemented`: it came to its end.
    `comment` is what the person said of a plan that is to be made anew. `feedback` is what the last
    review found missing, `why` a line about how it stands. `base_tree` is the snapshot before
    anything was changed, `evidence` what `EvidenceLedger.stored` gave.
    """

    request: str
    findings: str = ""
    plan: str = ""
    comment: str = ""
    is_accepted: bool = False
    phase: PhaseName = "explore"
    step: int = 1
    cycles_left: int = 0
    has_begun: bool = False
    is_implemented: bool = False
    feedback: str = ""
    status: PlanStatus = "active"
    why: str = ""
    report: str = ""
    base_tree: str = ""
    evidence: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    @property
    def is_resumable(self) -> bool:
        return self.status in RESUMABLE

    def stored(self) -> dict[str, Any]:
        """The members as JSON values."""
        members = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**members, "evidence": [dict(each) for each in self.evidence]}


def load_state(stored: Any) -> PlanState | None:
    """What `stored` gave once; None where that is no plan. A damaged member has its default."""
    if not isinstance(stored, Mapping) or not isinstance(stored.get("request"), str):
        return None
    blank = PlanState(request=stored["request"])
    found: dict[str, Any] = {}
    for each in fields(blank):
        value = stored.get(each.name)
        if each.name == "evidence":
            entries = value if isinstance(value, list) else []
            found["evidence"] = [entry for entry in entries if isinstance(entry, Mapping)]
        elif type(value) is type(getattr(blank, each.name)):
            found[each.name] = value
    if found.get("status") not in get_args(PlanStatus):
        found["status"] = "stopped"
    if found.get("phase") not in get_args(PhaseName):
        found["phase"] = "explore"
    found["step"] = max(1, cast(int, found.get("step", 1)))
    # Nobody can have accepted what is not there, and nothing was done before that.
    if not (found.get("plan", "").strip() and found.get("is_accepted")):
        found |= {"is_accepted": False, "has_begun": False, "is_implemented": False}
    return PlanState(**found)


def notice_at_start(stored: Any) -> str:
    """What a person who opens a session should know of its plan; "" where there is nothing."""
    state = load_state(stored)
    if state is None or state.status not in ("active", "waiting", "stopped"):
        return ""
    stands = {
        "waiting": "A plan waits to be accepted",
        "active": f"A plan was cut off in its {state.phase} phase",
    }.get(state.status, f"A plan was stopped in its {state.phase} phase")
    return f"{stands}: /plan resume goes on with it, /plan drop gives it up."


def describe_progress(stored: Any) -> str:
    """The plan that is being carried out, for a model whose context was folded; or "".

    One that was stopped is nothing that other runs need to know: who goes on with it is told anew.
    """
    state = load_state(stored)
    if state is None or not state.is_accepted or state.status != "active":
        return ""
    return f"The plan that was accepted:\n\n{state.plan}"
