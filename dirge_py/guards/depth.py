"""Tells an agent that goes on and on about the same files to step back."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.guards.gate import excerpt, nudge
from dirge_py.types.hooks import Bundle, TurnInfo
from dirge_py.types.messages import Message, UserMessage
from dirge_py.types.tools import LoopToolResult, ToolCall

MIN_THRESHOLD = 2

_TASK_CHARS = 200
_PATH_ARGUMENTS = ("path", "file_path", "file")
_PERSONAL = frozenset({"user", "steering", "follow_up"})


class DepthTracker:
    """The files that calls in a row have in common. It may outlive a run.

    A call about none of them, or about no file, begins anew; so does a message of the user that
    mentions none of them.
    """

    def __init__(self) -> None:
        self._files: frozenset[str] = frozenset()
        self._calls = 0
        self._is_told = False
        self._task = ""

    @property
    def files(self) -> tuple[str, ...]:
        """What the latest calls were all about, sorted; worth showing again after a fold."""
        return tuple(sorted(self._files))

    def heard(self, text: str) -> None:
        """Take in what the user said: it is the task from now on."""
        if not any(_mentions(text, path) for path in self._files):
            self._begin(frozenset())
        self._task = excerpt(text, _TASK_CHARS)

    def called(self, paths: Sequence[str]) -> None:
        """Take in one call and the files it was about."""
        shared = self._files & frozenset(paths)
        if shared:
            self._files = shared
            self._calls += 1
        else:
            self._begin(frozenset(paths))

    def take(self, threshold: int) -> str:
        """The reminder if it is due, once for every streak of calls; else empty."""
        if self._is_told or self._calls < max(threshold, MIN_THRESHOLD):
            return ""
        self._is_told = True
        task = f"\nThe task: {self._task}" if self._task else ""
        return (
            f"The last {self._calls} calls were all about {', '.join(self.files)}.{task}\n"
            "Step back: say in a sentence what you are looking for there and what you know by now. "
            "If it is enough, act on it; if not, look somewhere else."
        )

    def _begin(self, files: frozenset[str]) -> None:
        self._files = files
        self._calls = 1 if files else 0
        self._is_told = False


def depth(tracker: DepthTracker, threshold: int) -> Bundle:
    """Hooks for one run that feed `tracker`, and remind after `threshold` calls (at least 2).

    With 0 they only feed it.
    """
    seen = 0

    def listen(info: TurnInfo) -> None:
        nonlocal seen
        for message in info.new_messages[seen:]:
            if isinstance(message, UserMessage) and message.origin in _PERSONAL:
                tracker.heard(message.text)
        seen = len(info.new_messages)

    def after_tool_call(info: TurnInfo, call: ToolCall, _result: LoopToolResult) -> None:
        listen(info)
        tracker.called(paths_of(call))

    def get_steering_messages(info: TurnInfo) -> Sequence[Message]:
        listen(info)
        if not (threshold and info.wants_more):
            return ()
        text = tracker.take(threshold)
        return nudge(text) if text else ()

    return Bundle(
        name="depth",
        after_tool_call=after_tool_call,
        get_steering_messages=get_steering_messages,
    )


def paths_of(call: ToolCall) -> tuple[str, ...]:
    """The files a call is about: what it claims to read or edit, else what its arguments name."""
    return claimed_paths(call, "read", "edit") or tuple(_named_paths(call.arguments))


def claimed_paths(call: ToolCall, *operations: str) -> tuple[str, ...]:
    """The paths of those claims of a call. Claims that cannot be made out are none."""
    if call.tool is None or not isinstance(call.arguments, Mapping):
        return ()
    try:
        claims = call.tool.claims(call.arguments)
    except Exception:
        return ()  # whoever decides whether it may run has said so already
    return tuple(
        claim.resource
        for claim in claims
        if claim.op in operations and isinstance(claim.resource, str)
    )


def _named_paths(arguments: Any) -> list[str]:
    if not isinstance(arguments, Mapping):
        return []
    named = [arguments.get(name) for name in _PATH_ARGUMENTS]
    several = arguments.get("paths")
    if isinstance(several, Sequence) and not isinstance(several, str):
        named += several
    return [path for path in named if isinstance(path, str) and path]


def _mentions(text: str, path: str) -> bool:
    name = re.escape(path.rstrip("/").rpartition("/")[2])
    return bool(name) and re.search(rf"(?<![\w-]){name}(?![\w-])", text) is not None
