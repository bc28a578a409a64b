"""Commands in the background of a conversation, and their unread output."""

import asyncio
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Unpack

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import truncate
from dirge_py.processes.output import BoundedOutput, UnreadOutput, split_whole
from dirge_py.processes.runner import DEFAULT_TIMEOUT_S, CommandOptions, Runner
from dirge_py.processes.running_command import CommandResult, RunningCommand
from dirge_py.processes.watch import WatchSettings
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProcessError

_LINGER_S = 0.1
"""The wait after the first new output, for output that follows directly."""

Status = Literal["running", "exited", "timed_out", "killed"]
BACKGROUND_TIMEOUT_S = 600.0
MAX_RUNNING = 8
MAX_KEPT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellState:
    """The state of one background command at one moment."""

    id: str
    """The id that the model uses: `sh1`."""
    command: str
    """Its command line."""
    cwd: str
    """The folder it was started in."""
    status: Status
    """Whether it runs, or how it ended."""
    started: float
    """When it started, in seconds since 1970."""
    duration_s: float
    """How long it has run, in seconds."""
    exit_code: int | None = None
    """Its exit code; None while it runs, or if `signal` or dirge ended it."""
    signal: int | None = None
    """The signal that ended it."""
    total_bytes: int = 0
    """The number of bytes that it wrote."""
    output_path: str = ""
    """The file with all its output; "" while that is small."""
    question: str = ""
    """The question that a running command asks, if one was detected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOutput:
    """The output of a background command since it was last read."""

    output: BoundedOutput
    """The new output."""
    state: ShellState
    """The current state of the command."""


class Shell:
    """A background command; its output is kept here until it is read."""

    def __init__(self, shell_id: str, running: RunningCommand, *, command: str, cwd: str) -> None:
        self.id = shell_id
        self.command = command
        self._cwd = cwd
        self._running = running
        self._started = time.time() - running.duration_s
        self._unread = UnreadOutput(split_whole(running.output)[1])
        self._waiting: list[asyncio.Future[None]] = []
        running.detach(self._on_chunk)
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
            output_path=output.path,
            question=self._running.question,
        )
        return state if self.is_running else _ended(state, self._running.finished)

    @property
    def output(self) -> BoundedOutput:
        """Return all its output so far, up to the last whole character."""
        return split_whole(self._running.output)[0]

    def read_new_output(self) -> NewOutput:
        """Return the unread output, and the state of the command."""
        whole = self._running.output
        new = replace(
            self._unread.read(is_over=not self.is_running),
            path=whole.path,
            is_file_cut=whole.is_file_cut,
            file_error=whole.file_error,
        )
        return NewOutput(output=new, state=self.state)

    async def wait_for_news(self, limit_s: float, signal: AbortSignal) -> None:
        """Wait for unread output, the end, an abort, or the time limit."""
        if self._unread.size or not self.is_running:
            return
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        self._waiting.append(news)
        timer = loop.call_later(limit_s, _resolve, news)
        try:
            await signal.wait(unless=news)
            if self._unread.size and not signal.aborted:
                await self.end_within(_LINGER_S)
        finally:
            timer.cancel()
            news.cancel()
            if news in self._waiting:
                self._waiting.remove(news)

    async def end_within(self, limit_s: float) -> bool:
        """Wait up to `limit_s`; return whether it has ended by then."""
        await asyncio.wait({self._running.finished}, timeout=limit_s)
        return not self.is_running

    def stop(self) -> None:
        """Request its end, with all its processes."""
        self._running.stop()

    async def ended(self) -> None:
        """Wait until it and all its processes have ended."""
        await asyncio.wait({self._running.finished})

    def _on_chunk(self, chunk: bytes) -> None:
        self._unread.feed(chunk)
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiting:
            _resolve(waiter)
        self._waiting.clear()


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _ended(state: ShellState, task: "asyncio.Task[CommandResult]") -> ShellState:
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


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Foreground:
    """A command that a caller waits for, until it ends or `moved` is done, which sets `shell`."""

    command: str
    options: CommandOptions
    running: RunningCommand
    moved: asyncio.Future[None]
    shell: Shell | None = None


class Shells:
    """The commands of one conversation that run, or ran, in the background.

    At most `MAX_RUNNING` are started at the same time; the user may move further ones there. The
    last `MAX_KEPT` are kept with their unread output.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.start_for_person = runner.start_for_person
        self._shells: dict[str, Shell] = {}
        self._foreground: list[_Foreground] = []
        self._count = 0

    def start(self, command: str, **options: Unpack[CommandOptions]) -> Shell:
        """Run a command line in the background; the default time limit is `BACKGROUND_TIMEOUT_S`.

        Raises:
            ProcessError: it could not be started, or too many run already.
        """
        running = [shell for shell in self._shells.values() if shell.is_running]
        if len(running) >= MAX_RUNNING:
            listed = ", ".join(f"{shell.id} (`{_first_line(shell.command)}`)" for shell in running)
            raise ProcessError(
                f"{MAX_RUNNING} commands run in the background already, and no more can: {listed}.",
                hint="End one with `kill_shell`, or wait until one has ended.",
            )
        options.setdefault("timeout_s", BACKGROUND_TIMEOUT_S)
        options.setdefault("watching", WatchSettings())
        started = self._runner.start(command, **options)
        return self._add(started, command, cwd=options["cwd"])

    async def run(
        self,
        command: str,
        *,
        signal: AbortSignal | None = None,
        **options: Unpack[CommandOptions],
    ) -> CommandResult | Shell:
        """Run a command line in the foreground, until it ends or is moved to the background.

        Raises:
            ProcessError: it could not be started.
        """
        if signal is not None and signal.aborted:
            return await self._runner.run(command, signal=signal, **options)
        running = self._runner.start(command, **options)
        moved = asyncio.get_running_loop().create_future()
        entry = _Foreground(command=command, options=options, running=running, moved=moved)
        self._foreground.append(entry)
        try:
            await running.wait(signal, unless=moved)
        finally:
            self._foreground.remove(entry)
        return entry.shell or running.finished.result()

    def to_background(self, call_id: str | None = None) -> str | None:
        """Move the foreground command of that call, or the newest one, to the background.

        Returns its id there, None if there is none. Its caller gets its result at once, and its
        time limit is at least that of a command that was started in the background.
        """
        for entry in reversed(self._foreground):
            options = entry.options
            is_meant = call_id is None or options.get("call_id", "") == call_id
            if is_meant and entry.shell is None and not entry.running.is_ending:
                timeout_s = options.get("timeout_s", DEFAULT_TIMEOUT_S)
                entry.running.set_timeout(max(timeout_s, BACKGROUND_TIMEOUT_S))
                entry.shell = self._add(entry.running, entry.command, cwd=options["cwd"])
                entry.moved.set_result(None)
                return entry.shell.id
        return None

    def get(self, shell_id: str) -> Shell:
        """Return one of the commands.

        Raises:
            ProcessError: there is none with that id (any more).
        """
        if shell_id in self._shells:
            return self._shells[shell_id]
        known = ", ".join(self._shells) or "none"
        raise ProcessError(
            f"There is no background command {shell_id!r}.", hint=f"There are: {known}."
        )

    def list(self) -> Sequence[ShellState]:
        """Return the state of all kept commands, the oldest first."""
        return [shell.state for shell in self._shells.values()]

    async def new_output(
        self, shell_id: str, *, wait_s: float = 0.0, signal: AbortSignal | None = None
    ) -> NewOutput:
        """Return the new output of one command; without any, wait that long for output or its end.

        Raises:
            ProcessError: there is none with that id.
        """
        shell = self.get(shell_id)
        if wait_s > 0:
            await shell.wait_for_news(wait_s, signal or AbortSignal())
        return shell.read_new_output()

    async def kill(self, shell_id: str) -> ShellState:
        """End a command with all its processes; one that has ended stays as it is.

        Raises:
            ProcessError: there is none with that id.
        """
        shell = self.get(shell_id)
        shell.stop()
        await shell.ended()
        return shell.state

    async def shutdown(self) -> Sequence[ShellState]:
        """End all running commands; return their states before that."""
        ran = [shell for shell in self._shells.values() if shell.is_running]
        states = [shell.state for shell in ran]
        for shell in ran:
            shell.stop()
        for shell in ran:
            await shell.ended()
        return states

    def _add(self, running: RunningCommand, command: str, *, cwd: str) -> Shell:
        self._count += 1
        shell = Shell(f"sh{self._count}", running, command=command, cwd=cwd)
        self._shells[shell.id] = shell
        ended = [each.id for each in self._shells.values() if not each.is_running]
        for shell_id in ended[: max(0, len(self._shells) - MAX_KEPT)]:
            del self._shells[shell_id]
        return shell


def _first_line(command: str) -> str:
    return truncate(command.strip().partition("\n")[0], 60)


def ended_notice(ran: Sequence[ShellState]) -> str:
    """Return the notice about commands that `shutdown` ended; "" if there were none."""
    if not ran:
        return ""
    listed = ", ".join(f"{state.id} (`{_first_line(state.command)}`)" for state in ran)
    return f"Ended with the session: {listed}."
