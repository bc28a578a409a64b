"""Calls of plugin code, which may hang, raise anything, exit or print, within a time limit.

Its output goes to stderr, because stdout is for our results.
"""

import asyncio
import contextlib
import contextvars
import inspect
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import IO, Any

from dirge_py.tools.threads import run_in_daemon_thread
from dirge_py.types.events import LoopEvent
from dirge_py.types.hooks import TurnInfo

# The event loop holds tasks weakly: without this an abandoned one could vanish half-way.
_abandoned: set[asyncio.Task[Any]] = set()
_CANCEL_GRACE_S = 0.1
_is_plugin: ContextVar[bool] = ContextVar("is_plugin", default=False)


class PluginFailure(Exception):
    """Plugin code did something that it must not do."""


class PluginTimeout(PluginFailure):
    """Plugin code did not end in time and was abandoned."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"it took longer than {limit_s:g} s")


async def call_plugin(fn: Callable[..., Any], *args: Any, limit_s: float | None) -> Any:
    """Call `fn`; return or raise what it does.

    A plain function runs in its own thread, so that it can't block the event loop; a late one
    continues there. A late coroutine is cancelled and not waited for. Raises PluginTimeout: it did
    not end within `limit_s`.
    """
    with as_plugin():
        task = asyncio.get_running_loop().create_task(run_function(fn, args))
    try:
        await asyncio.wait({task}, timeout=limit_s)
    finally:
        is_done = task.done()
        abandon_task(task)
    if not is_done:
        assert limit_s is not None
        raise PluginTimeout(limit_s)
    if task.cancelled():
        # A CancelledError would look like a cancellation of the caller.
        raise PluginFailure("it cancelled itself")
    return task.result()


def call_plugin_blocking(fn: Callable[..., Any], *args: Any, limit_s: float) -> Any:
    """Do the same as `call_plugin`, for callers that can't await. Coroutines run as well."""
    answer: Future[Any] = Future()

    def body() -> None:
        try:
            with as_plugin():
                result = fn(*args)
                if inspect.iscoroutine(result):
                    # The loop is closed even if tasks that the coroutine started don't end.
                    with contextlib.closing(asyncio.new_event_loop()) as loop:
                        result = loop.run_until_complete(_await_limited(result, limit_s))
                answer.set_result(result)
        except BaseException as error:
            answer.set_exception(as_exception(error))

    # A daemon: code that hangs must not keep the program from ending.
    name = f"dirge-plugin-{getattr(fn, '__name__', 'hook')}"
    thread = threading.Thread(target=body, name=name, daemon=True)
    thread.start()
    # A coroutine is cancelled when its time is over, and gets a moment to end.
    thread.join(limit_s + _CANCEL_GRACE_S)
    if not answer.done():
        raise PluginTimeout(limit_s)
    return answer.result()


def abandon_task(task: asyncio.Task[Any]) -> None:
    """Cancel the task and ignore its result, without waiting for it."""
    _abandoned.add(task)
    task.add_done_callback(_forget)
    task.cancel()


def is_async(fn: Callable[..., Any]) -> bool:
    call_method = getattr(fn, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(call_method)


async def run_function(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Run a function to its end, a plain one in a thread. Raises only ordinary exceptions."""
    try:
        if is_async(fn):
            return await fn(*args)
        answer = await _in_thread(fn, tuple(_for_other_thread(arg) for arg in args))
        return await answer if inspect.isawaitable(answer) else answer
    except (asyncio.CancelledError, Exception):
        raise
    except BaseException as error:
        # In a task, SystemExit and KeyboardInterrupt would end the whole program.
        raise as_exception(error) from None


async def _in_thread(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    context = contextvars.copy_context()

    def body() -> Any:
        try:
            return context.run(fn, *args)
        except BaseException as error:
            if (ordinary := as_exception(error)) is error:
                raise
            raise ordinary from None

    return await run_in_daemon_thread(body)


async def _await_limited(work: Coroutine[Any, Any, Any], limit_s: float) -> Any:
    try:
        async with asyncio.timeout(limit_s) as time:
            return await work
    except TimeoutError:
        if time.expired():
            raise PluginTimeout(limit_s) from None
        raise


def _for_other_thread(arg: Any) -> Any:
    """Return the argument for use in a thread: its events are emitted on the loop."""
    if not isinstance(arg, TurnInfo):
        return arg
    loop, emit = asyncio.get_running_loop(), arg.emit

    def emit_on_loop(event: LoopEvent) -> None:
        loop.call_soon_threadsafe(emit, event)

    return replace(arg, emit=emit_on_loop)


def as_exception(error: BaseException) -> Exception:
    """Return an ordinary exception: exits and interruptions become a `PluginFailure`."""
    if isinstance(error, SystemExit):
        return PluginFailure(f"it tried to exit ({error.code})")
    # A StopIteration can't pass through a future.
    if isinstance(error, StopIteration) or not isinstance(error, Exception):
        return PluginFailure(f"it raised {type(error).__name__}")
    return error


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it


class _SplitStdout:
    """A `sys.stdout` that is stderr for code that runs for a plugin."""

    def __init__(self, real: IO[str]) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if _is_plugin.get() else self._real, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._real)


def split_stdout() -> None:
    """Send what plugins print (not their child processes) to stderr from now on."""
    if not isinstance(sys.stdout, _SplitStdout):
        sys.stdout = _SplitStdout(sys.stdout)


@contextmanager
def as_plugin() -> Iterator[None]:
    """Mark this code, its tasks, and threads in a copy of its context as a plugin's."""
    token = _is_plugin.set(True)
    try:
        yield
    finally:
        _is_plugin.reset(token)
