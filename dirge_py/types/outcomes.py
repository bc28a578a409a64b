"""How a run can end."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import Message, Usage

LimitName = Literal[
    "input_tokens", "output_tokens", "tokens", "cost", "requests", "tool_calls", "time"
]

_LIMIT_WORDS: Mapping[LimitName, str] = {
    "input_tokens": "input token",
    "output_tokens": "output token",
    "tokens": "total token",
    "cost": "cost",
    "requests": "request",
    "tool_calls": "tool call",
    "time": "time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What a run produced: its last words, every message it added, its tokens and turns.

    `structured` is the value of an answer after a schema; `response` is its JSON then.
    """

    response: str
    messages: tuple[Message, ...] = ()
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    structured: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The agent rests. `stopped_by` names a guard that ended it gracefully, else it is empty."""

    result: AgentResult | None = None
    stopped_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTurns:
    """The model wanted to go on, but the run had its `max` turns."""

    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitExceeded:
    """A limit was passed."""

    name: LimitName
    used: float
    max: float

    @property
    def message(self) -> str:
        """For people, as `output token limit exceeded: 50123 > 50000`."""
        words = _LIMIT_WORDS[self.name]
        return f"{words} limit exceeded: {_figure(self.used)} > {_figure(self.max)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingConfirmation:
    """Calls wait for a decision that nobody here could make; `run_agent_loop_continue` goes on.

    `continuation` is what another process needs to go on, if whoever ran this keeps such things.
    """

    call_ids: tuple[str, ...]
    description: str = ""
    continuation: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Stopped from outside. `reason`: user, interject, SIGINT, SIGTERM, on-ask, …"""

    reason: str = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The model or an input guardrail declined."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTerminated:
    """A hook ended the run at `point`."""

    point: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An error ended the run. `kind` is an `errors.ErrorKind`, `bug`, or `schema`: none fits it."""

    kind: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsMoreTurns:
    """One turn was asked for and is over; the model wants another. Turns count from 1."""

    turn: int
    turn_usage: Usage = field(default_factory=Usage)
    total_usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotVerified:
    """A plan was worked through, and no review found that all of it is done.

    `reason` is a line for people, `report` what was verified and what was not.
    """

    reason: str
    report: str = ""


Outcome: TypeAlias = (
    Done
    | NotVerified
    | NeedsMoreTurns
    | MaxTurns
    | LimitExceeded
    | AwaitingConfirmation
    | Cancelled
    | Refused
    | HookTerminated
    | Failed
)


def _figure(number: float) -> str:
    # `g` alone would write 1234567 as 1.23457e+06.
    return str(int(number)) if number == int(number) else f"{number:.6g}"
