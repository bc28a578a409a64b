"""One command in the background: how it is, and what of its output nobody has seen."""

import asyncio
import time
from dataclasses import replace
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.output import BoundedOutput
from dirge_py.processes.running import Finished, RunningCommand
from dirge_py.processes.unread import Unread, split_whole
from dirge_py.types.abort import AbortSignal

_LINGER_S = 0.1
"""After the first new output, for what comes right behind it."""

Status = Literal["running", "exited", "timed_out", "killed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellState:
    """One background command at one moment.

    `started` is in seconds since 1970. `exit_code` is None while it runs, or when `signal` ended
    it, or we did. `question` is what a running one asks, as far as that shows. `output_path` is the
    file that holds all its output, empty while that is small.
    """

    id: str
    command: str
    cwd: str
    status: Status
    started: float
    duration_s: float
    exit_code: int | None = None
    signal: int | None = None
    total_bytes: int = 0
    unread_bytes: int = 0
    output_path: str = ""
    question: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOutput:
    """What a command wrote since somebody last asked, and how it is."""

    output: BoundedOutput
    state: ShellState


class Shell:
    """A running command taken over: from now on its output waits here until somebody asks."""

    def __init__(self, shell_id: str, running: RunningCommand, *, command: str, cwd: str) -> None:
        self.id = shell_id
        self.command = command
        self._cwd = cwd
        self._running = running
        self._started = time.time() - running.duration_s
        self._unread = Unread(split_whole(running.output)[1])
        self._waiting: list[asyncio.Future[None]] = []
        running.leave(self._feed)
        running.finished.add_done_callback(lambda _ended: self._wake())

    @property
    def is_running(self) -> bool:
        return not self._running.finished.done()

    @property
    def state(self) -> ShellState:
        output = self._running.output
        state = ShellState(
            id=self.id,
            command=self.command,
            cwd=self._cwd,
            status="running",
            started=self._started,
            duration_s=self._running.duration_s,
            total_bytes=output.total_bytes,
            unread_bytes=self._unread.size,
            output_path=output.path,
            question=self._running.question,
        )
        return state if self.is_running else _ended(state, self._running.finished)

    @property
    def output(self) -> BoundedOutput:
        """All that it wrote so far, up to the last whole character."""
        return split_whole(self._running.output)[0]

    def take_new(self) -> NewOutput:
        """The output that nobody was given yet, and how it is now."""
        whole = self._running.output
        new = replace(
            self._unread.take(is_over=not self.is_running),
            path=whole.path,
            is_file_cut=whole.is_file_cut,
            file_error=whole.file_error,
        )
        return NewOutput(output=new, state=self.state)

    async def wait_for_news(self, limit_s: float, signal: AbortSignal) -> None:
        """Wait for output that is unread, for the end, for an abort, or until time is up."""
        if self._unread.size or not self.is_running:
            return
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        self._waiting.append(news)
        timer = loop.call_later(limit_s, _settle, news)
        try:
            await signal.wait(unless=news)
            if self._unread.size and not signal.aborted:
                await asyncio.wait({self._running.finished}, timeout=_LINGER_S)
        finally:
            timer.cancel()
            news.cancel()
            if news in self._waiting:
                self._waiting.remove(news)

    async def end_within(self, limit_s: float) -> bool:
        """Whether it ends by itself that soon."""
        await asyncio.wait({self._running.finished}, timeout=limit_s)
        return not self.is_running

    def stop(self) -> None:
        """Ask it to end, with all its processes."""
        self._running.stop()

    async def ended(self) -> None:
        """Wait until it has ended and nothing of it runs any more."""
        await asyncio.wait({self._running.finished})

    def _feed(self, chunk: bytes) -> None:
        self._unread.feed(chunk)
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiting:
            _settle(waiter)
        self._waiting.clear()


def _settle(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _ended(state: ShellState, task: "asyncio.Task[Finished]") -> ShellState:
    if task.cancelled() or task.exception() is not None:
        return replace(state, status="killed")
    finished = task.result()
    status: Status = "exited"
    if finished.aborted or finished.timed_out:
        status = "killed" if finished.aborted else "timed_out"
    return replace(
        state,
        status=status,
        duration_s=finished.duration_s,
        exit_code=finished.exit_code if status == "exited" else None,
        signal=finished.signal if status == "exited" else None,
        question="",
    )
