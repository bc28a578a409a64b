"""Functions of plugins at the hook points, called with a time limit and never trusted to work.

The points are the hooks of the loop, the calls of tools (`call_around_tool`), the events
(`EventQueue`), and three outside the loop: a prompt about to be sent, the system prompt, a summary.
An answer that its point does not know is a failure of that hook.
"""

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dirge_py.agent_loop import merge
from dirge_py.agent_loop.cancellation import GRACE_S
from dirge_py.context.summary import Summarise
from dirge_py.extensions.plugins.calling import (
    PluginFailure,
    PluginTimeout,
    abandon_task,
    as_exception,
    as_plugin,
    call_plugin,
    call_plugin_blocking,
)
from dirge_py.extensions.plugins.registration import AROUND_TOOL, Registration
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.events import LoopEvent
from dirge_py.types.extensions import Section
from dirge_py.types.hooks import HOOK_NAMES, AfterToolCallResult, Hooks, StopRun, ToolOverride
from dirge_py.types.messages import TextBlock, UserMessage, joined_text, user_text
from dirge_py.types.outcomes import HookTerminated
from dirge_py.types.tools import LoopToolResult, Proceed, ToolCall

_logger = logging.getLogger(__name__)
MAX_FAILURES = 3
"""How often a hook may fail in one session before it is asked no more."""
_MAY_STOP = frozenset((*HOOK_NAMES, "before_prompt"))


class HookCaller:
    """Asks the functions of plugins within `limit_s` each. `notify` tells the person.

    A hook that fails counts as one without an answer; there is one notice for it, and another when
    it failed three times and is off for the session. Only `before_tool_call` is otherwise: it may
    be the lock of a door, so a call that it could not judge is blocked, always.
    """

    def __init__(self, limit_s: float, notify: Callable[[str], None]) -> None:
        self.limit_s = limit_s
        self._notify = notify

    async def ask(self, hook: Registration, *args: Any) -> Any:
        """The checked answer, None if there is none.

        Raises:
            StopRun: the plugin ends the run.
        """
        if not hook.is_on:
            return None
        try:
            return check_answer(hook.point, await call_plugin(hook.fn, *args, limit_s=self.limit_s))
        except StopRun as stop:
            if hook.point in _MAY_STOP:
                raise (stop.at(hook.point) if isinstance(stop, PluginStop) else stop) from None
            return self.failed(hook, PluginFailure("a run cannot be stopped from here"))
        except Exception as error:
            return self.failed(hook, error)

    def ask_blocking(self, hook: Registration, *args: Any) -> Any:
        """The same for callers that cannot await. A run cannot be stopped from here."""
        if not hook.is_on:
            return None
        try:
            return check_answer(
                hook.point, call_plugin_blocking(hook.fn, *args, limit_s=self.limit_s)
            )
        except StopRun:
            return self.failed(hook, PluginFailure("a run cannot be stopped from here"))
        except Exception as error:
            return self.failed(hook, error)

    def failed(self, hook: Registration, error: Exception) -> ToolOverride | None:
        """Count it and tell it; returns what stands for the answer."""
        _logger.info("%s of plugin %s failed", hook.point, hook.plugin, exc_info=error)
        hook.failures += 1
        who = f"plugin `{hook.plugin}`: `{hook.name}` at {hook.point}"
        why = describe_error(error, hook.path)
        if hook.point == "before_tool_call":
            if hook.failures == 1:
                self._notify(
                    f"{who} failed: {why}. The call is blocked, and so is each that it cannot "
                    f"judge. `/plugins off {hook.plugin}` goes on without the plugin."
                )
            text = f"Blocked: the plugin `{hook.plugin}` could not judge this call ({why})."
            return ToolOverride(text, details={"outcome": "denied"})
        if hook.failures == 1:
            self._notify(f"{who} failed: {why}. {_consequence(hook)}")
        elif hook.failures == MAX_FAILURES:
            hook.close()
            self._notify(f"{who} failed {MAX_FAILURES} times and is off for this session.")
        return None


def _consequence(hook: Registration) -> str:
    return "The tool ran." if hook.point == AROUND_TOOL else "Everything else goes on without it."


def describe_error(error: BaseException, path: str = "") -> str:
    """What went wrong and where: `KeyError: 'x' (notes.py, line 12)`.

    Named is the last line of the file at `path`, else the last of all that is no part of dirge.
    """
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({_file_and_line(error.filename or path, error.lineno)})"
    text = str(error)
    kind = type(error)
    is_foreign = not kind.__module__.startswith("dirge_py.")
    words = (f"{kind.__name__}: {text}" if text else kind.__name__) if is_foreign else text
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


def check_answer(point: str, answer: Any) -> Any:
    """The answer as the loop takes it; None at the points of events, whatever was answered.

    Raises:
        Misbehaved: it is nothing that this point may answer.
        StopRun: that is what was answered.
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
    full = _FULL_FORMS.get(point, _unchanged)(answer)
    try:
        return merge.check_hook_result(point, full)
    except TypeError as error:
        words = str(error).rstrip(".")
        raise PluginFailure(words[:1].lower() + words[1:]) from None


def _unchanged(answer: Any) -> Any:
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
_ANSWER_TYPES: Mapping[str, type] = {
    "before_prompt": ToolOverride,
    "before_prompt_build": PromptChange,
    "on_compact": str,
}


class PluginHook:
    """A plugin's function as a hook of the loop."""

    def __init__(self, caller: HookCaller, hook: Registration) -> None:
        self._caller = caller
        self._hook = hook
        self.label = hook.label
        self.__name__ = hook.name

    async def __call__(self, *args: Any) -> Any:
        return await self._caller.ask(self._hook, *args)


def hook_bundles(caller: HookCaller, plugin: str, hooks: Sequence[Registration]) -> Sequence[Hooks]:
    """As few bundles as hold all of a plugin's hooks: a bundle has one function at each point."""
    standing = {
        point: [PluginHook(caller, hook) for hook in hooks if hook.point == point and hook.is_on]
        for point in HOOK_NAMES
    }
    bundles = []
    for index in range(max(map(len, standing.values()))):
        chosen: dict[str, Any] = {
            point: asked[index] for point, asked in standing.items() if index < len(asked)
        }
        bundles.append(Hooks(name=f"plugin {plugin}", **chosen))
    return bundles


async def call_around_tool(
    caller: HookCaller, hook: Registration, call: ToolCall, proceed: Proceed
) -> LoopToolResult:
    """The result of `hook.fn(call, proceed)`; what `proceed` gave when that fails.

    The time before and after `proceed()` is limited, the time within is the tool's. A function that
    fails before it has called `proceed` is left out: the tool runs without it.
    """
    if not hook.is_on or hook.tool not in ("", call.name):
        return await proceed()
    inner = _ProceedOnce(proceed)
    try:
        result = await _run_around(hook, call, inner, caller.limit_s)
    except Exception as error:
        if inner.failure is not None and error is inner.failure:
            raise
        caller.failed(hook, error)
        return await inner.outcome()
    if isinstance(result, LoopToolResult):
        return result
    caller.failed(hook, PluginFailure(f"it returned {type(result).__name__}, not a result"))
    return await inner.outcome()


class _ProceedOnce:
    """`proceed` as a plugin gets it: it can be called once, and its outcome is remembered."""

    def __init__(self, proceed: Proceed) -> None:
        self._proceed = proceed
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.result: LoopToolResult | None = None
        self.failure: BaseException | None = None

    async def __call__(self) -> LoopToolResult:
        if self.begun.done():
            raise PluginFailure("it called proceed() twice")
        self.begun.set_result(None)
        try:
            self.result = await self._proceed()
            return self.result
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.ended.set_result(None)

    async def outcome(self) -> LoopToolResult:
        """What the call came to; it is made now if the plugin has not."""
        if not self.begun.done():
            return await self()
        if self.result is not None:
            return self.result
        raise self.failure or PluginFailure("the call was abandoned")


async def _run_around(
    hook: Registration, call: ToolCall, inner: _ProceedOnce, limit_s: float
) -> Any:
    with as_plugin():
        task = asyncio.get_running_loop().create_task(_call_around(hook, call, inner))
    try:
        await asyncio.wait({task, inner.begun}, timeout=limit_s, return_when="FIRST_COMPLETED")
        if inner.begun.done():
            await asyncio.wait({task, inner.ended}, return_when="FIRST_COMPLETED")
            await asyncio.wait({task}, timeout=limit_s)
        is_done = task.done()
    except asyncio.CancelledError:
        # The run is aborted: the tool inside has to hear of it, and gets its moment to end.
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE_S)
        raise
    finally:
        abandon_task(task)
    if not is_done:
        raise PluginTimeout(limit_s)
    if task.cancelled():
        raise (
            inner.failure
            if isinstance(inner.failure, Exception)
            else PluginFailure("it cancelled itself")
        )
    return task.result()


async def _call_around(hook: Registration, call: ToolCall, inner: _ProceedOnce) -> Any:
    try:
        return await hook.fn(call, inner)
    except (asyncio.CancelledError, Exception):
        raise
    except BaseException as error:
        raise as_exception(error) from None


async def first_refusal(
    caller: HookCaller, hooks: Sequence[Registration], message: UserMessage
) -> str | None:
    """The first reason not to send this prompt."""
    for hook in hooks:
        try:
            answer: ToolOverride | None = await caller.ask(hook, message)
        except StopRun as stop:
            return _stop_reason(stop)
        if answer is not None:
            return _answer_text(answer) or f"the plugin `{hook.plugin}` refused it"
    return None


def plugin_summariser(
    caller: HookCaller, hooks: Callable[[], Sequence[Registration]], otherwise: Summarise
) -> Summarise:
    """A summariser that asks plugins first, and `otherwise` if none of them has a summary."""

    async def summarise(prompt: str, budget_tokens: int) -> str:
        for hook in hooks():
            summary: str | None = await caller.ask(hook, prompt, budget_tokens)
            if summary and summary.strip():
                return summary
        return await otherwise(prompt, budget_tokens)

    return summarise


def edit_prompt(
    caller: HookCaller,
    hooks: Sequence[Registration],
    sections: Sequence[Section],
    *,
    may_override: Callable[[str], bool],
) -> Sequence[Section]:
    """The sections with what plugins put before, behind, or in the place of them.

    Every hook sees the sections without the others' changes; of each kind of change the first wins.
    """
    chosen: dict[str, Section] = {}
    for hook in hooks:
        change: PromptChange | None = caller.ask_blocking(hook, tuple(sections))
        if change is None:
            continue
        if change.override and not may_override(hook.plugin):
            words = (
                f"to replace the prompt set `allow_override = true` under [plugins.{hook.plugin}]"
            )
            caller.failed(hook, PluginFailure(words))
            continue
        for kind in ("prepend", "override", "append"):
            if text := getattr(change, kind):
                priority = 100 if kind == "append" else 0
                section = Section(name=f"plugin {hook.plugin}", priority=priority, text=text)
                chosen.setdefault(kind, section)
    whole = [chosen["override"]] if "override" in chosen else sections
    before, behind = chosen.get("prepend"), chosen.get("append")
    return [*([before] if before else ()), *whole, *([behind] if behind else ())]


def _answer_text(answer: ToolOverride) -> str:
    return answer.content if isinstance(answer.content, str) else joined_text(tuple(answer.content))


def _stop_reason(stop: StopRun) -> str:
    outcome = stop.outcome
    return outcome.reason if isinstance(outcome, HookTerminated) else str(outcome)


MAX_QUEUED = 100
"""How many events may wait before pieces of text and of output are left out for this plugin."""
_DROPPABLE = frozenset({"message_update", "tool_execution_update"})


class EventQueue:
    """What one plugin has yet to hear: one event after the other, each told to all its watchers.

    Every event but the pieces gets through. What waits stays small all the same: a watcher that
    hangs is off after three times its limit.
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


async def drain_queues(mailboxes: Iterable[EventQueue], limit_s: float) -> None:
    """Let what was heard be dealt with, for at most `limit_s`."""
    tasks = {box.task for box in mailboxes if box.task is not None and not box.task.done()}
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=limit_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=GRACE_S)
