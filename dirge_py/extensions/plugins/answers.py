"""What a plugin may answer at each point; anything else is a failure of that hook."""

from collections.abc import Callable, Mapping
from typing import Any

from dirge_py.agent_loop import merge
from dirge_py.extensions.plugins.calling import Misbehaved
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.hooks import HOOK_NAMES, AfterToolCallResult, StopRun, ToolOverride
from dirge_py.types.messages import TextBlock, user_text
from dirge_py.types.outcomes import HookTerminated


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptChange:
    """What to put before, behind, or in the place of the system prompt; empty: nothing."""

    prepend: str = ""
    append: str = ""
    override: str = ""


class PluginStop(StopRun):
    """Ends the run as `HookTerminated`; the host fills in the point."""

    def __init__(self, reason: str) -> None:
        super().__init__(HookTerminated(point="", reason=reason))
        self.reason = reason

    def at(self, point: str) -> StopRun:
        return StopRun(HookTerminated(point=point, reason=self.reason))


def checked(point: str, answer: Any) -> Any:
    """The answer as the loop takes it; None at the points of events, whatever was answered.

    Raises:
        Misbehaved: it is nothing that this point may answer.
        StopRun: that is what was answered.
    """
    if isinstance(answer, StopRun):
        raise answer
    if answer is None:
        return None
    if point in _KINDS:
        if not isinstance(answer, _KINDS[point]):
            raise Misbehaved(f"it returned {type(answer).__name__}")
        return answer
    if point not in HOOK_NAMES:
        return None
    full = _FULL_FORMS.get(point, _as_it_is)(answer)
    try:
        return merge.check_hook_result(point, full)
    except TypeError as error:
        words = str(error).rstrip(".")
        raise Misbehaved(words[:1].lower() + words[1:]) from None


def _as_it_is(answer: Any) -> Any:
    return answer


def _as_messages(answer: Any) -> Any:
    """Plain text is said in the person's place; one message needs no list."""
    given = answer if isinstance(answer, (list, tuple)) else [answer]
    return [user_text(each, "plugin") if isinstance(each, str) else each for each in given]


def _as_result(answer: Any) -> Any:
    """Plain text stands for the content alone."""
    if not isinstance(answer, str):
        return answer
    return AfterToolCallResult(content=(TextBlock(answer),))


_FULL_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "after_tool_call": _as_result,
    "get_steering_messages": _as_messages,
    "get_followup_messages": _as_messages,
}

_KINDS: Mapping[str, type] = {
    "before_prompt": ToolOverride,
    "before_prompt_build": PromptChange,
    "on_compact": str,
}
