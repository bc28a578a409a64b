"""Hooks of plugins, called with a time limit and never trusted to work.

The points are the hooks of the loop, the calls of tools (`call_around_tool`), the events
(`EventQueue`), and three that `PluginHost` asks: a prompt about to be sent, the system prompt, a
summary. An answer of the wrong type counts as a failure of the hook.
"""

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from dirge_py.agent_loop import merge
from dirge_py.agent_loop.cancellation import GRACE_S
from dirge_py.agent_loop.interceptors import ProceedOnce
from dirge_py.extensions.plugins.calls import (
    PluginFailure,
    PluginTimeout,
    abandon_task,
    as_plugin,
    call_plugin,
    call_plugin_blocking,
    run_function,
)
from dirge_py.extensions.plugins.registration import AROUND_TOOL, Registration
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.events import LoopEvent
from dirge_py.types.extensions import SectionChange
from dirge_py.types.hooks import HOOK_NAMES, AfterToolCallResult, Hooks, StopRun, ToolOverride
from dirge_py.types.messages import TextBlock, user_text
from dirge_py.types.outcomes import HookTerminated
from dirge_py.types.tools import LoopToolResult, Proceed, ToolCall

_logger = logging.getLogger(__name__)
MAX_FAILURES = 3
"""How often a hook may fail in one session before it is switched off."""
MAX_QUEUED = 100
"""How many events may wait before pieces of text and of output are dropped for a plugin."""
_DROPPABLE = frozenset({"message_update", "tool_execution_update"})
_MAY_STOP = frozenset((*HOOK_NAMES, "before_prompt"))


class HookCaller:
    """Calls the functions of plugins within `limit_s` each; `notify` gets messages for the user.

    A hook that fails counts as one without an answer. There is a notice about its first failure,
    and after the third it is switched off for the session. `before_tool_call` may be a security
    check, so a call that it can't judge is always blocked.
    """

    def __init__(self, limit_s: float, notify: Callable[[str], None]) -> None:
        self.limit_s = limit_s
        self._notify = notify

    async def ask(self, hook: Registration, *args: Any) -> Any:
        """Return the checked answer, None if there is none. Raises StopRun to end the run."""
        if not hook.is_on:
            return None
        try:
            return check_answer(hook.point, await call_plugin(hook.fn, *args, limit_s=self.limit_s))
        except Exception as error:
            if not isinstance(error, StopRun) or hook.point not in _MAY_STOP:
                return self.failed(hook, error)
            if isinstance(error, PluginStop):
                reason = HookTerminated(point=hook.point, reason=error.reason)
                raise StopRun(reason) from None
            raise

    def ask_blocking(self, hook: Registration, *args: Any) -> Any:
        """Do the same as `ask`, for callers that can't await. It can't stop a run."""
        if not hook.is_on:
            return None
        try:
            answer = call_plugin_blocking(hook.fn, *args, limit_s=self.limit_s)
            return check_answer(hook.point, answer)
        except Exception as error:
            return self.failed(hook, error)

    def failed(self, hook: Registration, error: Exception) -> ToolOverride | None:
        """Count the failure and notify the user; return the answer in its place."""
        if isinstance(error, StopRun):
            error = PluginFailure("a run cannot be stopped from here")
        _logger.info("%s of plugin %s failed", hook.point, hook.plugin, exc_info=error)
        hook.failures += 1
        who = f"plugin `{hook.plugin}`: `{hook.name}` at {hook.point}"
        why = describe_error(error, hook.path)
        if hook.point == "before_tool_call":
            if hook.failures == 1:
                self._notify(
                    f"{who} failed: {why}. Every call that it cannot judge is blocked. "
                    f"`/plugins off {hook.plugin}` turns the plugin off."
                )
            text = f"Blocked: the plugin `{hook.plugin}` could not judge this call ({why})."
            return ToolOverride(text, details={"outcome": "denied"})
        if hook.failures == 1:
            is_around = hook.point == AROUND_TOOL
            effect = "The tool ran." if is_around else "dirge continues without it."
            self._notify(f"{who} failed: {why}. {effect}")
        elif hook.failures == MAX_FAILURES:
            hook.close()
            self._notify(f"{who} failed {MAX_FAILURES} times and is off for this session.")
        return None


def describe_error(error: BaseException, path: str = "") -> str:
    """Return the error and its place: `KeyError: 'x' (notes.py, line 12)`.

    The place is the last line in the file at `path`, else the last one outside of dirge.
    """
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({_file_and_line(error.filename or path, error.lineno)})"
    words, kind = str(error), type(error)
    if not kind.__module__.startswith("dirge_py."):
        words = f"{kind.__name__}: {words}" if words else kind.__name__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == path]
    foreign = [frame for frame in frames if "/dirge_py/" not in frame.filename]
    last = next(reversed(own or foreign), None)
    return f"{words} ({_file_and_line(last.filename, last.lineno)})" if last else words


def _file_and_line(path: str, line: int | None) -> str:
    name = path.rpartition("/")[2]
    return f"{name}, line {line}" if line else name


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptChange:
    """A change of the system prompt; empty texts change nothing."""

    prepend: str = ""
    """The text before it."""
    append: str = ""
    """The text after it."""
    override: str = ""
    """The text in its place."""
    changes: tuple[SectionChange, ...] = ()
    """Changes of single sections."""


class PluginStop(StopRun):
    """Ends the run as `HookTerminated`; the host fills in the point."""

    def __init__(self, reason: str) -> None:
        super().__init__(HookTerminated(point="", reason=reason))
        self.reason = reason


def check_answer(point: str, answer: Any) -> Any:
    """Return the answer in the form that the loop takes; None for an event.

    Raises PluginFailure: it is no valid answer at this point; StopRun: it is a `StopRun`.
    """
    if isinstance(answer, StopRun):
        raise answer
    if answer is None:
        return None
    if point in _ANSWER_TYPES:
        if not isinstance(answer, _ANSWER_TYPES[point]):
            raise PluginFailure(f"it returned {type(answer).__name__}")
        return answer
    if point not in HOOK_NAMES:
        return None
    try:
        return merge.check_hook_result(point, _full_form(point, answer))
    except TypeError as error:
        words = str(error).rstrip(".")
        raise PluginFailure(words[:1].lower() + words[1:]) from None


def _full_form(point: str, answer: Any) -> Any:
    """Convert plain text and single messages to the form that the loop takes."""
    if point == "after_tool_call" and isinstance(answer, str):
        return AfterToolCallResult(content=(TextBlock(answer),))
    if point in ("get_steering_messages", "get_followup_messages"):
        listed = answer if isinstance(answer, (list, tuple)) else [answer]
        return [user_text(each, "plugin") if isinstance(each, str) else each for each in listed]
    return answer


_ANSWER_TYPES: Mapping[str, type] = {
    "before_prompt": ToolOverride,
    "before_prompt_build": PromptChange,
    "on_compact": str,
}


class PluginHook:
    """A plugin's function as a hook of the loop, with the names that people see."""

    def __init__(self, caller: HookCaller, hook: Registration) -> None:
        self._caller = caller
        self._hook = hook
        self.label = hook.label
        self.__name__ = hook.name

    async def __call__(self, *args: Any) -> Any:
        return await self._caller.ask(self._hook, *args)


def hook_bundles(caller: HookCaller, plugin: str, hooks: Sequence[Registration]) -> Sequence[Hooks]:
    """Return all functions of a plugin in as few `Hooks` as possible, one at each point."""
    by_point = [
        [PluginHook(caller, hook) for hook in hooks if hook.point == point and hook.is_on]
        for point in HOOK_NAMES
    ]
    bundles: list[dict[str, Any]] = [
        dict(zip(HOOK_NAMES, chosen, strict=True)) for chosen in zip_longest(*by_point)
    ]
    return [Hooks(name=f"plugin {plugin}", **bundle) for bundle in bundles]


async def call_around_tool(
    caller: HookCaller, hook: Registration, call: ToolCall, proceed: Proceed
) -> LoopToolResult:
    """Return the result of `hook.fn(call, proceed)`, or that of `proceed` if the function fails.

    The time before and after `proceed()` is limited, the time within is the tool's. If the function
    fails before it calls `proceed`, the tool runs without it.
    """
    if not hook.is_on or hook.tool not in ("", call.name):
        return await proceed()
    inner = ProceedOnce(proceed)
    try:
        result = await _run_around(hook, call, inner, caller.limit_s)
        if isinstance(result, LoopToolResult):
            return result
        raise PluginFailure(f"it returned {type(result).__name__}, not a result")
    except Exception as error:
        if error is inner.failure:
            raise
        caller.failed(hook, error)
        return await inner()


async def _run_around(
    hook: Registration, call: ToolCall, inner: ProceedOnce, limit_s: float
) -> Any:
    with as_plugin():
        task = asyncio.get_running_loop().create_task(run_function(hook.fn, (call, inner)))
    try:
        await asyncio.wait({task, inner.begun}, timeout=limit_s, return_when="FIRST_COMPLETED")
        if inner.begun.done():
            await asyncio.wait({task, inner.ended}, return_when="FIRST_COMPLETED")
            await asyncio.wait({task}, timeout=limit_s)
        is_done = task.done()
    except asyncio.CancelledError:
        # The run is aborted: the tool inside is cancelled, too, and gets a moment to end.
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE_S)
        raise
    finally:
        abandon_task(task)
    if not is_done:
        raise PluginTimeout(limit_s)
    if task.cancelled():
        raise inner.failure or PluginFailure("it cancelled itself")
    return task.result()


class EventQueue:
    """The events that wait for one plugin; each is passed to all its watchers, in order.

    Only pieces of text and output are dropped. The queue stays small, because a watcher that hangs
    is switched off after its third timeout.
    """

    def __init__(self, caller: HookCaller) -> None:
        self._caller = caller
        self._waiting: deque[tuple[Sequence[Registration], LoopEvent]] = deque()
        self.task: asyncio.Task[None] | None = None

    def put(self, watchers: Sequence[Registration], event: LoopEvent) -> None:
        if event.type in _DROPPABLE and len(self._waiting) >= MAX_QUEUED:
            return
        self._waiting.append((watchers, event))
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        while self._waiting:
            watchers, event = self._waiting.popleft()
            await asyncio.gather(*(self._caller.ask(watcher, event) for watcher in watchers))
