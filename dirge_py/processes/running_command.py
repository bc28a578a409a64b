"""One running command: its output is read, its time is limited, its processes are ended."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from typing import Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.launch import StartedCommand
from dirge_py.processes.output import BoundedOutput, OutputCapture
from dirge_py.processes.process_tree import (
    ORPHAN_REAPER,
    CommandTree,
    EndedProcesses,
    end_tree,
    kill_tree,
    wait_for_tree,
)
from dirge_py.processes.watch import CommandWatch, WatchSettings
from dirge_py.types.abort import AbortSignal

OnOutput: TypeAlias = Callable[[str, int], None]
"""Given the last few KiB of output and its size so far; at most 20 times a second."""

TIMEOUT_GRACE_S = 2.0
STOP_GRACE_S = 0.3
LEFT_GRACE_S = 0.15
"""Between SIGTERM and SIGKILL: after a time-out; after an abort; for what was left behind."""

_TREE_KILL_S = 0.3
"""How long members are killed where they stand in the process table, at first."""

_CHUNK_BYTES = 64 * 1024
_DRAIN_S = 0.25
# A last writer closes the pipe a moment before it is gone; that one was not left behind.
_LINGER_S = 0.1
_UPDATE_S = 0.05
_EXIT_POLL_S = 0.01

_EndedBy: TypeAlias = Literal["exit", "timeout", "abort", "question"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended."""

    exit_code: int | None = None
    """Its exit code; None when `signal` ended it, or before it started."""
    signal: int | None = None
    """The signal that ended it."""
    timed_out: bool = False
    """It was stopped at its time limit."""
    aborted: bool = False
    """It was stopped by an abort, or never started because of one."""
    question: str = ""
    """What it asked when it was stopped for that; empty if it was not."""
    output: BoundedOutput = field(default_factory=BoundedOutput)
    """What it wrote."""
    duration_s: float = 0.0
    """How long it ran, in seconds."""
    quiet_s: float = 0.0
    """How long it had written nothing at its end, in seconds."""
    stopped: int = 0
    """How many processes it had left running in the background."""
    left: tuple[int, ...] = ()
    """Pids of those that still run: another user's, stuck in the kernel, faster than we are, or not
    to be told from those of a command that still runs."""


class RunningCommand:
    """A started command. `begin` comes once; `stop` and `kill_now` may come at any moment."""

    def __init__(
        self,
        started: StartedCommand,
        tree: CommandTree,
        capture: OutputCapture,
        *,
        on_output: OnOutput | None = None,
        watching: WatchSettings | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._process = started.process
        self._tree = tree
        self._capture = capture
        self._on_output = on_output
        self._on_chunk: Callable[[bytes], None] | None = None
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._stop_asked: asyncio.Future[None] = self._loop.create_future()
        self._time_is_up: asyncio.Future[None] = self._loop.create_future()
        self._is_asking: asyncio.Future[None] = self._loop.create_future()
        self._output_ended: asyncio.Future[None] = self._loop.create_future()
        self._output_fd: int | None = started.output_fd
        self._exit_watch: int | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._next_update: asyncio.TimerHandle | None = None
        self._last_update = 0.0
        self._is_over = False
        self._stops_when_asking = True
        self._watch = CommandWatch(watching, capture, tree, self._ask) if watching else None
        self._loop.add_reader(started.output_fd, self._read)
        self._watch_exit()

    @property
    def question(self) -> str:
        """What it asks right now; empty if nothing, or if nobody looks out for that."""
        return self._watch.question if self._watch is not None else ""

    @property
    def duration_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def output(self) -> BoundedOutput:
        """What it wrote so far."""
        return self._capture.so_far()

    @property
    def is_ending(self) -> bool:
        """Whether it has exited, or is about to be stopped."""
        return any(each.done() for each in self._ends)

    @property
    def _ends(self) -> "set[asyncio.Future[None]]":
        return {self._exited, self._stop_asked, self._time_is_up, self._is_asking}

    def begin(self, timeout_s: float) -> "asyncio.Task[CommandResult]":
        """See it through in a task of its own: cancelling a caller must not cut killing short."""
        self.limit(timeout_s)
        self.finished = self._loop.create_task(self._supervise())
        return self.finished

    def limit(self, timeout_s: float) -> None:
        """Let it run so long, counted from its start, instead of what was said before."""
        if self._limit is not None:
            self._limit.cancel()
        rest_s = max(0.0, timeout_s - self.duration_s)
        self._limit = self._loop.call_later(rest_s, self._settle, self._time_is_up)

    def leave(self, on_chunk: Callable[[bytes], None]) -> None:
        """Let it go on without anybody waiting for it; `on_chunk` is given what it writes.

        From now on a question does not end it: it might be answered some other way.
        """
        self._on_output, self._on_chunk = None, on_chunk
        self._stops_when_asking = False

    async def follow(
        self, signal: AbortSignal | None, *, unless: "asyncio.Future[None] | None" = None
    ) -> None:
        """Wait until it has ended, or until `unless` is done and it goes on without the caller.

        Before that an abort ends it, and so does the cancellation of the caller, behind its back.
        """

        def stop() -> None:
            if unless is None or not unless.done():
                self.stop()

        def stop_soon() -> None:  # an abort may come from any thread
            self._loop.call_soon_threadsafe(stop)

        forget = signal.on_abort(stop_soon) if signal is not None else None
        waiting: set[asyncio.Future[Any]] = {self.finished}
        if unless is not None:
            waiting.add(unless)
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            stop()
            raise
        finally:
            if forget is not None:
                forget()

    def stop(self) -> None:
        """Ask for an early end, which comes soon. Asking again changes nothing."""
        self._settle(self._stop_asked)

    async def _supervise(self) -> CommandResult:
        """See the command through to the last of its processes.

        Over when the started process has exited, not when its output ends: something in the
        background may hold the pipe open for ever.
        """
        try:
            ended_by = await self._wait_for_end()
            if ended_by == "exit":
                _, is_held = await asyncio.wait({self._output_ended}, timeout=_DRAIN_S)
                if not is_held:
                    await wait_for_tree(self._tree, limit_s=_LINGER_S)
                ended = await self._end(LEFT_GRACE_S)
            else:
                grace_s = TIMEOUT_GRACE_S if ended_by == "timeout" else STOP_GRACE_S
                ended = await self._end(grace_s)
                waiting = {self._output_ended, self._exited}
                await asyncio.wait(waiting, timeout=_DRAIN_S)
            orphans = await ORPHAN_REAPER.end_after(self._process.pid)
            self._is_over = True
            everything = EndedProcesses(
                ended.running + orphans.running, (*ended.left, *orphans.left)
            )
            return self._finished(ended_by, everything)
        finally:
            self.kill_now()

    async def _end(self, grace_s: float) -> EndedProcesses:
        ended = await end_tree(self._tree, grace_s=grace_s, limit_s=_TREE_KILL_S)
        if not ended.left:
            return ended
        # What forks faster than a tree is read is caught among our children.
        await ORPHAN_REAPER.end_during(self._process.pid)
        return EndedProcesses(ended.running, (await end_tree(self._tree, grace_s=0)).left)

    def kill_now(self) -> None:
        """Kill whatever is left and let go of everything. Needs no event loop; may be repeated."""
        if not self._is_over:
            self._is_over = True
            kill_tree(self._tree)
            ORPHAN_REAPER.kill_after(self._process.pid)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_EXIT_POLL_S)
        self._close_output()
        self._close_exit_watch()
        self._settle(self._exited)
        if self._watch is not None:
            self._watch.end()
        for timer in (self._next_update, self._limit):
            if timer is not None:
                timer.cancel()

    async def _wait_for_end(self) -> _EndedBy:
        await asyncio.wait(self._ends, return_when=asyncio.FIRST_COMPLETED)
        if self._exited.done():
            return "exit"
        if self._stop_asked.done():
            return "abort"
        return "timeout" if self._time_is_up.done() else "question"

    def _ask(self) -> None:
        if self._stops_when_asking:
            self._settle(self._is_asking)

    def _finished(self, ended_by: _EndedBy, ended: EndedProcesses) -> CommandResult:
        code = self._process.returncode
        return CommandResult(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            timed_out=ended_by == "timeout",
            aborted=ended_by == "abort",
            question=self.question if ended_by == "question" else "",
            output=self._capture.finish(),
            duration_s=self.duration_s,
            quiet_s=self._capture.quiet_s,
            stopped=ended.running if ended_by == "exit" else 0,
            left=tuple(sorted(set(ended.left))),
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
        if self._on_chunk is not None:
            self._on_chunk(chunk)
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
