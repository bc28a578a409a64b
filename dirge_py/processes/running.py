"""One running command: its output is read, its time is limited, its processes are ended."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field, replace
from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.launch import Started
from dirge_py.processes.output import BoundedOutput, Capture
from dirge_py.processes.strays import STRAYS
from dirge_py.processes.tree import CommandTree, Ended, end, kill, wait

OnOutput: TypeAlias = Callable[[str, int], None]
"""Given the last few KiB of output and its size so far; at most 20 times a second."""

TIMEOUT_GRACE_S = 2.0
STOP_GRACE_S = 0.3
"""Between SIGTERM and SIGKILL: after a time-out; after an abort, and for what was left behind."""

_CHUNK_BYTES = 64 * 1024
_DRAIN_S = 0.25
# A last writer closes the pipe a moment before it is gone; that one was not left behind.
_LINGER_S = 0.1
_UPDATE_S = 0.05
_EXIT_POLL_S = 0.01

_EndedBy: TypeAlias = Literal["exit", "timeout", "abort"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended. `exit_code` is None when `signal` ended it, or before it started.

    `stopped` counts processes it had left running in the background; `left` those that could
    not be ended even by SIGKILL (another user's, or stuck in the kernel).
    """

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    aborted: bool = False
    output: BoundedOutput = field(default_factory=BoundedOutput)
    duration_s: float = 0.0
    stopped: int = 0
    left: int = 0


class RunningCommand:
    """A started command. `supervise` runs once; `stop` and `kill_now` may come at any moment."""

    def __init__(
        self, started: Started, tree: CommandTree, capture: Capture, on_output: OnOutput | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._process = started.process
        self._tree = tree
        self._capture = capture
        self._on_output = on_output
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._stop_asked: asyncio.Future[None] = self._loop.create_future()
        self._output_ended: asyncio.Future[None] = self._loop.create_future()
        self._output_fd: int | None = started.output_fd
        self._exit_watch: int | None = None
        self._next_update: asyncio.TimerHandle | None = None
        self._last_update = 0.0
        self._is_over = False
        self._loop.add_reader(started.output_fd, self._read)
        self._watch_exit()

    def stop(self) -> None:
        """Ask for an early end; `supervise` carries it out. Asking again changes nothing."""
        self._settle(self._stop_asked)

    async def supervise(self, timeout_s: float) -> Finished:
        """See the command through to the last of its processes.

        Over when the started process has exited, not when its output ends: something in the
        background may hold the pipe open for ever.
        """
        try:
            ended_by = await self._wait_for_end(timeout_s)
            if ended_by == "exit":
                await asyncio.wait({self._output_ended}, timeout=_DRAIN_S)
                await wait(self._tree, limit_s=_LINGER_S)
                ended = await end(self._tree, grace_s=STOP_GRACE_S)
            else:
                grace_s = TIMEOUT_GRACE_S if ended_by == "timeout" else STOP_GRACE_S
                ended = await end(self._tree, grace_s=grace_s)
                waiting = {self._output_ended, self._exited}
                await asyncio.wait(waiting, timeout=_DRAIN_S)
            strays = await STRAYS.end_after(self._process.pid)
            self._is_over = True
            return self._finished(ended_by, replace(ended, running=ended.running + strays))
        finally:
            self.kill_now()

    def kill_now(self) -> None:
        """Kill whatever is left and let go of everything. Needs no event loop; may be repeated."""
        if not self._is_over:
            self._is_over = True
            kill(self._tree)
            STRAYS.kill_after(self._process.pid)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_EXIT_POLL_S)
        self._close_output()
        self._close_exit_watch()
        self._settle(self._exited)
        if self._next_update is not None:
            self._next_update.cancel()

    async def _wait_for_end(self, timeout_s: float) -> _EndedBy:
        await asyncio.wait(
            {self._exited, self._stop_asked},
            timeout=timeout_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._exited.done():
            return "exit"
        return "abort" if self._stop_asked.done() else "timeout"

    def _finished(self, ended_by: _EndedBy, ended: Ended) -> Finished:
        code = self._process.returncode
        return Finished(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            timed_out=ended_by == "timeout",
            aborted=ended_by == "abort",
            output=self._capture.finish(),
            duration_s=time.monotonic() - self._began,
            stopped=ended.running if ended_by == "exit" else 0,
            left=ended.left,
        )

    def _settle(self, future: asyncio.Future[None]) -> None:
        if not future.done() and not self._loop.is_closed():
            future.set_result(None)

    # --- the exit of the process we started ---

    def _watch_exit(self) -> None:
        try:
            self._exit_watch = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or an old kernel
            self._poll_exit()
        else:
            self._loop.add_reader(self._exit_watch, self._notice_exit)

    def _poll_exit(self) -> None:
        self._notice_exit()
        if not self._exited.done():
            self._loop.call_later(_EXIT_POLL_S, self._poll_exit)

    def _notice_exit(self) -> None:
        if self._process.poll() is not None:
            self._close_exit_watch()
            self._settle(self._exited)

    def _close_exit_watch(self) -> None:
        if self._exit_watch is not None:
            self._loop.remove_reader(self._exit_watch)
            os.close(self._exit_watch)
            self._exit_watch = None

    # --- its output ---

    def _read(self) -> None:
        # One chunk per turn of the event loop, so that a flood starves nobody.
        if self._output_fd is None:
            return
        try:
            chunk = os.read(self._output_fd, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._close_output()
            return
        self._capture.feed(chunk)
        if self._on_output is not None and self._next_update is None:
            wait_s = self._last_update + _UPDATE_S - self._loop.time()
            self._next_update = self._loop.call_later(max(0.0, wait_s), self._update)

    def _update(self) -> None:
        self._next_update = None
        self._last_update = self._loop.time()
        if self._on_output is not None:
            self._on_output(self._capture.live_tail(), self._capture.total_bytes)

    def _close_output(self) -> None:
        if self._output_fd is not None:
            self._loop.remove_reader(self._output_fd)
            os.close(self._output_fd)
            self._output_fd = None
        self._settle(self._output_ended)
