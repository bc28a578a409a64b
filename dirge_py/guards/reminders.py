"""Reminders for an agent whose calls are all about the same files, or keep failing."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import field

from dirge_py.guards.stop_checks import nudge
from dirge_py.guards.tool_hooks import claimed_paths
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import one_line
from dirge_py.types.hooks import Hooks, TurnInfo
from dirge_py.types.messages import TYPED_ORIGINS, Message, ToolResultMessage, UserMessage
from dirge_py.types.tools import LoopToolResult, ToolCall

MIN_THRESHOLD = 2
QUOTES = 5
QUOTE_CHARS = 160
MOST_REMINDERS = 2
"""Reminders about failures before a run ends because of them."""

_TASK_CHARS = 200
_PATH_ARGUMENTS = ("path", "file_path", "file")
_POINTS = {"error": 1, "failed_command": 1, "invalid": 1, "unknown_tool": 1, "timeout": 2}


class DepthTracker:
    """Tracks the files that consecutive calls have in common. It may outlive a run.

    A call or a user message that shares no file with them starts a new streak.
    """

    def __init__(self) -> None:
        self._files: frozenset[str] = frozenset()
        self._calls = 0
        self._has_reminded = False
        self._task = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Return the common files of the latest calls, sorted; worth showing again after a fold."""
        return tuple(sorted(self._files))

    def on_user_text(self, text: str) -> None:
        """Record the user's message: it is the task from now on."""
        if not any(_mentions(text, path) for path in self._files):
            self._begin(frozenset())
        self._task = one_line(text, _TASK_CHARS)

    def record_call(self, paths: Sequence[str]) -> None:
        """Record one call and the files it was about."""
        if shared := self._files & frozenset(paths):
            self._files = shared
            self._calls += 1
        else:
            self._begin(frozenset(paths))

    def next_reminder(self, threshold: int) -> str:
        """Return the reminder if it is due, once for every streak of calls; else ""."""
        if self._has_reminded or self._calls < max(threshold, MIN_THRESHOLD):
            return ""
        self._has_reminded = True
        task = f"\nThe task: {self._task}" if self._task else ""
        return (
            f"The last {self._calls} calls were all about {', '.join(self.files)}.{task}\n"
            "Step back: say in a sentence what you are looking for there and what you know by now. "
            "If it is enough, act on it; if not, look somewhere else."
        )

    def _begin(self, files: frozenset[str]) -> None:
        self._files = files
        self._calls = 1 if files else 0
        self._has_reminded = False


def depth_reminder(tracker: DepthTracker, threshold: int) -> Hooks:
    """Return hooks that feed `tracker` and remind after `threshold` calls (2 or more; 0: never)."""
    seen = 0

    def listen(info: TurnInfo) -> None:
        nonlocal seen
        for message in info.new_messages[seen:]:
            if isinstance(message, UserMessage) and message.origin in TYPED_ORIGINS:
                tracker.on_user_text(message.text)
        seen = len(info.new_messages)

    def after_tool_call(info: TurnInfo, call: ToolCall, _result: LoopToolResult) -> None:
        listen(info)
        tracker.record_call(paths_of(call))

    def get_steering_messages(info: TurnInfo) -> Sequence[Message]:
        listen(info)
        if not (threshold and info.wants_more):
            return ()
        text = tracker.next_reminder(threshold)
        return nudge(text) if text else ()

    return Hooks(
        name="depth", after_tool_call=after_tool_call, get_steering_messages=get_steering_messages
    )


def paths_of(call: ToolCall) -> tuple[str, ...]:
    """Return the files that a call claims to read or edit, else those in its arguments."""
    claimed = claimed_paths(call, "read", "edit")
    if claimed or not isinstance(call.arguments, Mapping):
        return claimed
    named = [call.arguments.get(name) for name in _PATH_ARGUMENTS]
    several = call.arguments.get("paths")
    if isinstance(several, Sequence) and not isinstance(several, str):
        named += several
    return tuple(path for path in named if isinstance(path, str) and path)


def _mentions(text: str, path: str) -> bool:
    name = re.escape(path.rstrip("/").rpartition("/")[2])
    return bool(name) and re.search(rf"(?<![\w-]){name}(?![\w-])", text) is not None


@dataclass(slots=True)
class _Streak:
    """Failures in a row: their score, the last quotes, and how often and when it reminded."""

    score: int = 0
    calls: int = 0
    timeouts: int = 0
    tools: set[str] = field(default_factory=set)
    quotes: deque[str] = field(default_factory=lambda: deque(maxlen=QUOTES))
    reminders: int = 0
    reminded_at: int = 0

    def add(self, result: ToolResultMessage, points: int) -> None:
        self.score += points
        self.calls += 1
        self.timeouts += result.details.get("outcome") == "timeout"
        self.tools.add(result.tool_name)
        self.quotes.append(_quote(result))

    def is_due(self, threshold: int) -> bool:
        return threshold > 0 and self.score - self.reminded_at >= threshold

    def note_reminder(self) -> None:
        self.reminded_at = self.score
        self.reminders += 1


class FailureTracker:
    """Counts failures in a row by `details["outcome"]`; results that no tool made do not count.

    A reminder is due after `threshold` of them (0: never), and again after as many more; a timeout
    counts twice. The third reminder without a success in between is replaced by closing words.
    Denials are counted separately, and so are failed edits, which end with a change only.
    """

    def __init__(self, threshold: int = 3) -> None:
        self._threshold = threshold
        self._begin()

    def _begin(self) -> None:
        self._errors, self._edits, self._denials = _Streak(), _Streak(), _Streak()

    def record(
        self,
        result: ToolResultMessage,
        *,
        is_new: bool = True,
        is_edit: bool = False,
        is_change: bool = False,
    ) -> bool:
        """Count one result; return whether it was a success that ends the failures in a row.

        A success whose result was known before (not `is_new`) does not. `is_edit`: the call would
        have changed a file; `is_change`: it changed something.
        """
        outcome = result.details.get("outcome")
        if result.details.get("synthetic"):
            return False
        if outcome == "ok" and is_new:
            edits = self._edits
            self._begin()
            self._edits = _Streak() if is_change else edits
            return True
        if outcome == "denied":
            self._denials.add(result, 1)
        elif outcome in _POINTS:
            for streak in (self._errors, *([self._edits] if is_edit else [])):
                streak.add(result, _POINTS[outcome])
        return False

    def due_checkpoints(self) -> list[str]:
        """Return the reminders that are due, each once; denials come first."""
        texts = []
        if self._denials.is_due(self._threshold):
            self._denials.note_reminder()
            texts.append(_denial_checkpoint(self._denials))
        due = [each for each in (self._errors, self._edits) if each.is_due(self._threshold)]
        for streak in due:
            streak.note_reminder()
        if due:
            texts.append(_failure_checkpoint(due[0], self._threshold))
        return texts

    def closing_words(self) -> str:
        """Return the last words of a run whose last reminder would be due; "" if there are none."""
        for streak in (self._denials, self._errors, self._edits):
            if streak.is_due(self._threshold) and streak.reminders >= MOST_REMINDERS:
                return _closing_words(streak, is_denied=streak is self._denials)
        return ""


def _closing_words(streak: _Streak, *, is_denied: bool) -> str:
    happened = "were denied" if is_denied else "failed"
    question = (
        "Could you allow what the task needs, or tell me how to continue without it?"
        if is_denied
        else "Could you give me a hint: what should I try instead, or what am I missing?"
    )
    head = (
        f"My last {streak.calls} attempts {happened}, so I stopped rather than keep trying. "
        "The last of them:"
    )
    return "\n".join([head, *streak.quotes, question])


def _failure_checkpoint(streak: _Streak, threshold: int) -> str:
    parts = [f"{_calls(streak)} failed. The last of them:", *streak.quotes]
    if streak.timeouts:
        times = "Once" if streak.timeouts == 1 else f"{streak.timeouts} times"
        parts.append(
            f"{times} the time ran out. The same call again will most likely run out of time "
            "again: ask for less at once, or give it more time if the tool lets you."
        )
    if len(streak.tools) == 1:
        (tool,) = streak.tools
        parts.append(f"All of them were calls of `{tool}`: read its description again first.")
    if streak.reminders >= MOST_REMINDERS:
        parts.append(
            f"If {threshold} more fail without a success in between, the run ends. If you do not "
            "know how to continue, tell the user what you tried and ask."
        )
    parts.append(
        "Find out why before you try anything else: read the errors, look at the file or the state "
        "they speak of, and check what you take for granted. Do not repeat a call that failed; "
        "take a different step."
    )
    return "\n".join(parts)


def _denial_checkpoint(streak: _Streak) -> str:
    rule = (
        "This is a decision, not a fault: do not work around it with another tool, another path "
        "or another spelling. Continue with what is allowed. If the task needs what was denied, "
        "stop and ask the user to allow it, naming the exact call and its reason, or report what "
        "is left undone."
    )
    return "\n".join([f"Denied: {_calls(streak)}. The last of them:", *streak.quotes, rule])


def _quote(result: ToolResultMessage) -> str:
    text = " ".join(result.text.split())
    if result.details.get("outcome") == "failed_command" and len(text) > QUOTE_CHARS:
        # A command's last output says how it failed.
        return f"- {result.tool_name}: …{text[-QUOTE_CHARS + 1 :]}"
    return f"- {result.tool_name}: {one_line(text, QUOTE_CHARS)}"


def _calls(streak: _Streak) -> str:
    return "1 call" if streak.calls == 1 else f"{streak.calls} calls in a row"
