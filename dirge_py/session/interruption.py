"""What a run left behind that was killed in the middle of its calls."""

from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.messages import ToolCallBlock

CallState = Literal["not_started", "reads", "unknown"]
"""`reads`: it ran, and only reads, so it may run again. `unknown`: it may have done its work."""

Choice = Literal["inspect", "done", "again"]
"""What a person makes of a call in state `unknown`.

`inspect`: the model is told that the outcome is unknown, and looks. `done`: the model is told that
the person saw it done. `again`: it runs once more.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptedCall:
    """A call of the last answer that has no result, and how far it came."""

    call: ToolCallBlock
    state: CallState


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """The run that never ended. `calls` in their order; none if it was cut between calls.

    Calls that finished are not among them: their results are history already. `since` is when the
    last thing of it was recorded (ISO 8601).
    """

    run_id: str
    since: str
    calls: tuple[InterruptedCall, ...] = ()

    @property
    def unknown(self) -> tuple[InterruptedCall, ...]:
        return tuple(one for one in self.calls if one.state == "unknown")
