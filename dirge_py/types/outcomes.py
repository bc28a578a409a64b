"""How a run can end."""

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import Message, Usage

LimitName = (
    Literal["input_tokens", "output_tokens", "tokens", "cost", "requests", "tool_calls", "time"]
    | Literal["session_tokens", "session_cost"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What a run produced."""

    response: str
    """The last text of the model; the JSON of `structured` if the answer follows a schema."""
    messages: tuple[Message, ...] = ()
    """Every message the run added."""
    usage: Usage = field(default_factory=Usage)
    """The tokens of the run."""
    turns: int = 0
    """How many turns the run had."""
    structured: Any = None
    """The value of an answer that follows a schema; else None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The agent finished."""

    result: AgentResult | None = None
    """What the run produced."""
    stopped_by: str = ""
    """The guard that ended the run gracefully; empty if none did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxTurns:
    """The model wanted another turn, but the run had used them all."""

    max: int
    """How many turns the run may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitExceeded:
    """A limit was exceeded."""

    name: LimitName
    """The limit."""
    used: float
    """How much was used."""
    max: float
    """How much was allowed."""

    @property
    def message(self) -> str:
        """A message for people, such as `output token limit exceeded: 50123 > 50000`."""
        name = re.sub(r"(^|session_)tokens$", r"\1total_tokens", self.name)
        words = name.removesuffix("s").replace("_", " ")
        return f"{words} limit exceeded: {_figure(self.used)} > {_figure(self.max)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitingConfirmation:
    """Calls wait for a decision; `run_agent_loop_continue` continues the run."""

    call_ids: tuple[str, ...]
    """The ids of the waiting calls."""
    description: str = ""
    """What has to be decided, as text."""
    continuation: Mapping[str, Any] | None = None
    """What another process needs to continue; None if it isn't stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The run was stopped from outside."""

    reason: str = "user"
    """What stopped it: user, interject, SIGINT, SIGTERM, on-ask, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The model or an input guardrail declined."""

    reason: str
    """The reason, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTerminated:
    """A hook ended the run."""

    point: str
    """The hook point."""
    reason: str
    """The hook's reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An error ended the run."""

    kind: str
    """An `errors.ErrorKind`, `bug`, `schema` (no answer fits the schema), `text_call` (calls were
    written as text only), `empty_answer`, or `tool` (one of its errors is in `fatal_errors`)."""
    message: str
    """What went wrong."""
    hint: str = ""
    """What to do about it; empty if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsMoreTurns:
    """One turn was asked for and is over; the model wants another."""

    turn: int
    """The number of the turn, from 1."""
    turn_usage: Usage = field(default_factory=Usage)
    """The tokens of this turn."""
    total_usage: Usage = field(default_factory=Usage)
    """The tokens of all turns so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotVerified:
    """All steps of a plan ran, but no review confirmed that everything is done."""

    reason: str
    """The reason, in one line for people."""
    report: str = ""
    """What was verified and what was not."""


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
