"""Asking plugins, and what it means when one fails."""

import logging
import traceback
from collections.abc import Callable
from typing import Any

from dirge_py.extensions.plugins.answers import PluginStop, checked
from dirge_py.extensions.plugins.calling import Misbehaved, call, call_blocking
from dirge_py.extensions.plugins.points import AROUND_TOOL, Registration
from dirge_py.types.hooks import HOOK_NAMES, StopRun, ToolOverride

_logger = logging.getLogger(__name__)

MOST_FAILURES = 3
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
            return checked(hook.point, await call(hook.fn, *args, limit_s=self.limit_s))
        except StopRun as stop:
            if hook.point in _MAY_STOP:
                raise (stop.at(hook.point) if isinstance(stop, PluginStop) else stop) from None
            return self.failed(hook, Misbehaved("a run cannot be stopped from here"))
        except Exception as error:
            return self.failed(hook, error)

    def ask_blocking(self, hook: Registration, *args: Any) -> Any:
        """The same for callers that cannot await. A run cannot be stopped from here."""
        if not hook.is_on:
            return None
        try:
            return checked(hook.point, call_blocking(hook.fn, *args, limit_s=self.limit_s))
        except StopRun:
            return self.failed(hook, Misbehaved("a run cannot be stopped from here"))
        except Exception as error:
            return self.failed(hook, error)

    def failed(self, hook: Registration, error: Exception) -> ToolOverride | None:
        """Count it and tell it; returns what stands for the answer."""
        _logger.info("%s of plugin %s failed", hook.point, hook.plugin, exc_info=error)
        hook.failures += 1
        who = f"plugin `{hook.plugin}`: `{hook.name}` at {hook.point}"
        why = reason(error, hook.path)
        if hook.point == "before_tool_call":
            if hook.failures == 1:
                self._notify(
                    f"{who} failed: {why}. The call is blocked, and so is each that it cannot "
                    f"judge. `/plugins off {hook.plugin}` goes on without the plugin."
                )
            text = f"Blocked: the plugin `{hook.plugin}` could not judge this call ({why})."
            return ToolOverride(text, details={"outcome": "denied"})
        if hook.failures == 1:
            self._notify(f"{who} failed: {why}. {_so(hook)}")
        elif hook.failures == MOST_FAILURES:
            hook.close()
            self._notify(f"{who} failed {MOST_FAILURES} times and is off for this session.")
        return None


def _so(hook: Registration) -> str:
    return "The tool ran." if hook.point == AROUND_TOOL else "Everything else goes on without it."


def reason(error: BaseException, path: str = "") -> str:
    """What went wrong and where: `KeyError: 'x' (notes.py, line 12)`.

    Named is the last line of the file at `path`, else the last of all that is no part of dirge.
    """
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({_place(error.filename or path, error.lineno)})"
    text = str(error)
    kind = type(error)
    is_foreign = not kind.__module__.startswith("dirge_py.")
    words = (f"{kind.__name__}: {text}" if text else kind.__name__) if is_foreign else text
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == path]
    foreign = [frame for frame in frames if "/dirge_py/" not in frame.filename]
    last = next(reversed(own or foreign), None)
    return f"{words} ({_place(last.filename, last.lineno)})" if last else words


def _place(path: str, line: int | None) -> str:
    name = path.rpartition("/")[2]
    return f"{name}, line {line}" if line else name
