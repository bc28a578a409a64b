"""Tells an agent whose calls keep failing, or keep being denied, to look before it goes on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dirge_py.guards.gate import excerpt, nudge
from dirge_py.types.hooks import Bundle, TurnInfo
from dirge_py.types.messages import Message, ToolResultMessage

QUOTES = 5
QUOTE_CHARS = 160

_POINTS = {"error": 1, "failed_command": 1, "invalid": 1, "unknown_tool": 1, "timeout": 2}


def failures(threshold: int = 3) -> Bundle:
    """Hooks for one run. A checkpoint is said after `threshold` failures in a row, and again after
    as many more; a timeout counts twice. Denials are counted by themselves. A success ends both.
    """
    tracker = FailureTracker(threshold)

    def get_steering_messages(info: TurnInfo) -> Sequence[Message]:
        tracker.feed(info.tool_results)
        # A run that rests is not woken up for this; what there is to say waits for the next turn.
        return [each for text in tracker.take() for each in nudge(text)] if info.wants_more else ()

    return Bundle(name="failures", get_steering_messages=get_steering_messages)


@dataclass(slots=True)
class _Streak:
    """Failures in a row: their score, what was said of the last ones, and when we last spoke."""

    score: int = 0
    calls: int = 0
    timeouts: int = 0
    tools: set[str] = field(default_factory=set)
    quotes: list[str] = field(default_factory=list)
    spoken_at: int = 0

    def add(self, result: ToolResultMessage, points: int) -> None:
        self.score += points
        self.calls += 1
        self.timeouts += result.details.get("outcome") == "timeout"
        self.tools.add(result.tool_name)
        self.quotes = [*self.quotes, _quote(result)][-QUOTES:]

    def is_due(self, threshold: int) -> bool:
        if self.score - self.spoken_at < threshold:
            return False
        self.spoken_at = self.score
        return True


class FailureTracker:
    """Counts outcomes as `details["outcome"]` tells them; what no tool gave does not count."""

    def __init__(self, threshold: int = 3) -> None:
        self._threshold = threshold
        self._errors = _Streak()
        self._denials = _Streak()

    def feed(self, results: Iterable[ToolResultMessage]) -> None:
        """Count the results of one turn, in their order."""
        for result in results:
            outcome = result.details.get("outcome")
            if result.details.get("synthetic"):
                continue
            if outcome == "ok":
                self._errors, self._denials = _Streak(), _Streak()
            elif outcome == "denied":
                self._denials.add(result, 1)
            elif outcome in _POINTS:
                self._errors.add(result, _POINTS[outcome])

    def take(self) -> list[str]:
        """The checkpoints that are due, each once; what was denied comes first."""
        texts = []
        if self._denials.is_due(self._threshold):
            texts.append(_denial_checkpoint(self._denials))
        if self._errors.is_due(self._threshold):
            texts.append(_failure_checkpoint(self._errors))
        return texts


def _failure_checkpoint(streak: _Streak) -> str:
    parts = [
        f"{_calls(streak)} failed. The last of them:",
        *streak.quotes,
    ]
    if streak.timeouts:
        parts.append(
            f"{_times(streak.timeouts)} the time ran out. The same call again will most likely run "
            "out of time again: ask for less at once, or give it more time if the tool lets you."
        )
    if len(streak.tools) == 1:
        (tool,) = streak.tools
        parts.append(f"All of them were calls of `{tool}`: read its description again first.")
    parts.append(
        "Find out why before you try anything else: read the errors, look at the file or the state "
        "they speak of, and check what you take for granted. Do not repeat a call that failed; "
        "take a different step."
    )
    return "\n".join(parts)


def _denial_checkpoint(streak: _Streak) -> str:
    rule = (
        "This is a decision, not a fault: do not work around it with another tool, another path "
        "or another spelling. Go on with what is allowed. If the task needs what was denied, stop "
        "and ask the user to allow it, naming the exact call and its reason, or report what is "
        "left undone."
    )
    head = f"Denied: {_calls(streak)}. The last of them:"
    return "\n".join([head, *streak.quotes, rule])


def _quote(result: ToolResultMessage) -> str:
    text = " ".join(result.text.split())
    if result.details.get("outcome") == "failed_command" and len(text) > QUOTE_CHARS:
        # What a command prints last says how it failed.
        return f"- {result.tool_name}: …{text[-QUOTE_CHARS + 1 :]}"
    return f"- {result.tool_name}: {excerpt(text, QUOTE_CHARS)}"


def _calls(streak: _Streak) -> str:
    return "1 call" if streak.calls == 1 else f"{streak.calls} calls in a row"


def _times(count: int) -> str:
    return "Once" if count == 1 else f"{count} times"
