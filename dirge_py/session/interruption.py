"""What a run left behind that was killed in the middle of its calls, and how those are answered."""

import json
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.secret_patterns import REDACTED
from dirge_py.types.messages import TextBlock, ToolCallBlock, ToolResultMessage

CallState = Literal["not_started", "reads", "unknown"]
"""`reads`: it ran, and only reads, so it may run again. `unknown`: it may have done its work."""

Choice = Literal["inspect", "done", "again"]
"""What a person makes of a call in state `unknown`.

`inspect`: the model is told that the outcome is unknown, and looks. `done`: the model is told that
the person saw it done. `again`: it runs once more.
"""

_LEFT: dict[CallState, str] = {
    "not_started": (
        "Not started: dirge ended before this call ran. Call it again if it is still wanted."
    ),
    "reads": (
        "Interrupted: dirge ended while this call ran. It only reads, so nothing was changed; "
        "call it again if it is still wanted."
    ),
    "unknown": (
        "Interrupted: dirge ended while this call ran; its outcome is unknown. "
        "Look before repeating it."
    ),
}
_DONE = (
    "Interrupted: dirge ended while this call ran. The user says that it was done; "
    "its output is lost. Do not repeat it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptedCall:
    """A call of the last answer that has no result, and how far it came.

    `chosen`: what a person made of it already, if it has not run again since.
    """

    call: ToolCallBlock
    state: CallState
    chosen: Choice | None = None

    @property
    def may_run(self) -> bool:
        """Whether it can be run again as it was."""
        return not lacks_words(self.call)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """The run that never ended. `calls` in their order; none if it was cut between calls.

    Calls that finished are not among them: their results are history already. `since` is when the
    last thing of it was recorded (ISO 8601), `pid` the process that was killed, 0 if unknown.
    """

    run_id: str
    since: str
    calls: tuple[InterruptedCall, ...] = ()
    pid: int = 0

    @property
    def unknown(self) -> tuple[InterruptedCall, ...]:
        return tuple(one for one in self.calls if one.state == "unknown")

    @property
    def undecided(self) -> tuple[InterruptedCall, ...]:
        """The calls of unknown outcome that nobody has chosen about."""
        return tuple(one for one in self.unknown if one.chosen is None)


def lacks_words(call: ToolCallBlock) -> bool:
    """Whether a secret was taken out of its arguments: what is left is another call."""
    return REDACTED in json.dumps(call.arguments, ensure_ascii=False, default=str)


def left_open(call: ToolCallBlock, state: CallState) -> ToolResultMessage:
    """The answer to an interrupted call that is not carried on."""
    return _answer(call, _LEFT[state], outcome="aborted")


def said_done(call: ToolCallBlock) -> ToolResultMessage:
    """The answer to an interrupted call that a person saw done."""
    return _answer(call, _DONE, outcome="ok")


def _answer(call: ToolCallBlock, text: str, *, outcome: str) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(TextBlock(text),),
        details={"outcome": outcome, "synthetic": "interrupted"},
        is_error=outcome != "ok",
    )
