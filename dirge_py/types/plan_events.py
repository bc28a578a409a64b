"""What is told while a plan is worked through, besides the events of its runs."""

from dataclasses import field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import Usage

if TYPE_CHECKING:
    from dirge_py.types.events import LoopEvent

PhaseName: TypeAlias = Literal["explore", "plan", "implement", "review"]

EvidenceOutcome: TypeAlias = Literal["passed", "failed", "denied", "timeout", "stopped"]
"""How a verification went: exit code 0; another one; it was not allowed to run; it took too long;
it was stopped by somebody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPhase:
    """A plan has begun or ended one of its phases; `step` counts the cycles through them from 1.

    `summary`: what came of a phase that ended, in a line. `text`: what it hands on, whole: the
    findings, the plan, the verdict with its reasons. `shut_in` says, in words for a person, what
    keeps its commands from changing the project; "" where nothing does. `duration_ms`, `usage` and
    `cost_usd` (None: a price is unknown) are those of this phase, once it ended.
    """

    type: ClassVar[str] = "phase"
    phase: PhaseName
    step: int
    state: Literal["started", "ended"]
    summary: str = ""
    text: str = ""
    shut_in: str = ""
    duration_ms: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0

    @property
    def message(self) -> str:
        """For people, as `Plan, step 2: review ended. Two cases are missing.`"""
        where = f" ({self.shut_in})" if self.shut_in and self.state == "started" else ""
        return f"Plan, step {self.step}: {self.phase} {self.state}{where}. {self.summary}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceTaken:
    """A command was run, or was to be run, while a plan was implemented or reviewed.

    `id` (`E1`, …) is unique in the plan. `exit_code` is None where it never ended by itself.
    `output_sha256` and `tree` (hex SHA-256) are those of what it printed and of the files that it
    was run on.
    """

    type: ClassVar[str] = "evidence"
    id: str
    phase: PhaseName
    step: int
    command: str
    outcome: EvidenceOutcome
    exit_code: int | None
    output_sha256: str
    tree: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkEvent:
    """What happens in the fork that a phase runs in, for whoever shows it. Never history here."""

    type: ClassVar[str] = "fork_event"
    phase: PhaseName
    step: int
    event: "LoopEvent"
