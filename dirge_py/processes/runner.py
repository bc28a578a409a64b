"""Runs commands for tools: `Runner` to their end, `Shells` also in the background.

Every command ends when the program ends.
"""

import asyncio
import math
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, TypeVar, Unpack

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.shell_lexer import without_leading_comments
from dirge_py.lib.text import truncate
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.output import BoundedOutput, OutputCapture, OutputStore, split_whole
from dirge_py.processes.process_tree import ORPHAN_REAPER, CommandTree, adopt_orphans
from dirge_py.processes.running_command import (
    CommandResult,
    OnOutput,
    RunningCommand,
    resolve,
    shell_arguments,
    start_command,
)
from dirge_py.processes.sandbox.profile import Launcher, LaunchSpec, Permit
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProcessError

if TYPE_CHECKING:
    from dirge_py.processes.pty import OnBytes, PtyCommand
    from dirge_py.processes.watch import WatchSettings

DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 3600.0

BACKGROUND_TIMEOUT_S = 600.0
MAX_RUNNING = 8
MAX_KEPT = 32
_LINGER_S = 0.1
"""The wait after the first new output, for output that follows directly."""

Status = Literal["running", "exited", "timed_out", "killed"]
_Started = TypeVar("_Started", bound=RunningCommand)


class CommandOptions(TypedDict, total=False):
    """How a command is run; the keyword arguments of `Runner.run`, `Shells.run` and the like."""

    cwd: Required[str]
    """The folder it starts in."""
    timeout_s: float
    """Its time limit, at most `MAX_TIMEOUT_S`."""
    call_id: str
    """The tool call that it runs for; names the file of its output."""
    on_output: OnOutput | None
    """Called with its latest output while it runs."""
    outputs: OutputStore | None
    """Stores output that is too large to show."""
    extra_env: Mapping[str, str] | None
    """Additional variables."""
    stdin_text: str | None
    """Its input; without it, the input ends immediately."""
    watching: "WatchSettings | None"
    """What to watch for while it runs."""
    shows: Sequence[str]
    """Places that it reads even if a sandbox would hide them."""


class Runner:
    """Runs commands, one at a time or many at once, each with its own process tree."""

    def __init__(
        self,
        environment: EnvironmentPolicy,
        launcher: Launcher | None = None,
        *,
        read_only: ReadOnlyProfile | None = None,
    ) -> None:
        """`launcher` may wrap every argument list, such as into a sandbox. `read_only` replaces it
        for commands that are prepared as read-only.
        """
        self._environment = environment
        self._launcher = launcher
        self._read_only = read_only
        self._approvals: dict[str, tuple[Mapping[str, str], frozenset[Permit], bool]] = {}
        self._running: dict[asyncio.Task[CommandResult], RunningCommand] = {}
        self._is_shut_down = False

    def prepare(
        self,
        call_id: str,
        extra_env: Mapping[str, str],
        permits: frozenset[Permit] = frozenset(),
        *,
        is_read_only: bool = False,
    ) -> None:
        """Add variables to the next command of the call `call_id`, once.

        `permits` is what the launcher may allow. With `is_read_only` the command may only read; the
        kernel enforces that where it can.
        """
        self._approvals[call_id] = dict(extra_env), permits, is_read_only

    async def run(
        self,
        command: str | Sequence[str],
        *,
        signal: AbortSignal | None = None,
        **options: Unpack[CommandOptions],
    ) -> CommandResult:
        """Run a command line with bash, or an argument list, to its end.

        Returns when the process has exited or was stopped, and no process it started runs any more.
        If the caller is cancelled, this raises immediately, and the command is ended soon after.
        Raises ProcessError if it could not be started.
        """
        if signal is not None and signal.aborted:
            self._approvals.pop(options.get("call_id", ""), None)
            return CommandResult(aborted=True)
        running = self.start(command, **options)
        await running.wait(signal)
        return running.finished.result()

    def start(
        self, command: str | Sequence[str], **options: Unpack[CommandOptions]
    ) -> RunningCommand:
        """Start a command and return; it ends with the runner at the latest. Raises as `run`."""
        cwd, call_id = options["cwd"], options.get("call_id", "")
        approval = self._approvals.pop(call_id, ({}, frozenset(), False))
        approved_env, permits, is_read_only = approval
        marker = self._new_marker()
        extra_env = {**approved_env, **(options.get("extra_env") or {})}
        environment = self._environment.build(marker, extra_env)
        arguments = shell_arguments(command) if isinstance(command, str) else list(command)
        shows = options.get("shows", ())
        spec = LaunchSpec(
            cwd=cwd, environment=environment, call_id=call_id, permits=permits, shows=shows
        )
        restricted = None
        if is_read_only and self._read_only is not None:
            restricted = self._read_only.restricted_start(arguments, spec)
        if restricted is not None:
            arguments = restricted.arguments
            environment = {**environment, **restricted.environment}
        elif self._launcher is not None:
            arguments = self._launcher(arguments, spec)
        process, output_fd = start_command(
            arguments,
            cwd=cwd,
            environment=environment,
            stdin_text=options.get("stdin_text"),
            restrict=restricted.restrict if restricted is not None else None,
        )
        outputs = options.get("outputs")
        running = RunningCommand(
            process,
            output_fd,
            _tree_of(process.pid, marker),
            capture=OutputCapture(partial(outputs.create, call_id) if outputs else None),
            on_output=options.get("on_output"),
            watching=options.get("watching"),
        )
        timeout_s = min(options.get("timeout_s", DEFAULT_TIMEOUT_S), MAX_TIMEOUT_S)
        return self._supervise(running, timeout_s)

    def start_for_person(
        self, command: str, *, cwd: str, rows: int, columns: int, on_bytes: "OnBytes"
    ) -> "PtyCommand":
        """Start a command that the user typed, on its own terminal, outside of any sandbox.

        It has no time limit: it ends by itself, when it is stopped, or with the runner. Raises
        ProcessError if it could not be started.
        """
        from dirge_py.processes.pty import PtyCommand, open_terminal

        marker = self._new_marker()
        environment = self._environment.build_for_person(marker)
        process, *ends = open_terminal(
            command, cwd=cwd, environment=environment, rows=rows, columns=columns
        )
        tree = _tree_of(process.pid, marker)
        return self._supervise(PtyCommand(process, *ends, tree=tree, on_bytes=on_bytes), math.inf)

    def _new_marker(self) -> str:
        """Prepare for a command that is about to start; return the marker for its processes."""
        if self._is_shut_down:
            raise ProcessError("No command is started while dirge ends.")
        adopt_orphans()
        ORPHAN_REAPER.expect()
        # Call ids come from the model and may repeat, so the marker does not contain them.
        return f"{os.getpid()}-{secrets.token_hex(8)}"

    def _supervise(self, running: _Started, timeout_s: float) -> _Started:
        task = running.begin(timeout_s)
        self._running[task] = running
        task.add_done_callback(self._running.pop)
        return running

    async def shutdown(self) -> None:
        """End every running command, first gently, and start no more."""
        self._is_shut_down = True
        self._approvals.clear()
        for running in self._running.values():
            running.stop()
        if self._running:
            await asyncio.wait(set(self._running))
        ORPHAN_REAPER.kill_rest()


def _tree_of(leader: int, marker: str) -> CommandTree:
    tree = CommandTree(leader, marker)
    ORPHAN_REAPER.began(tree)
    return tree


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
        self._begin_unread(split_whole(running.output)[1])
        self._waiting: list[asyncio.Future[None]] = []
        running.detach(self._on_chunk)
        running.finished.add_done_callback(lambda _ended: self._wake())

    @property
    def is_running(self) -> bool:
        return not self._running.finished.done()

    @property
    def state(self) -> ShellState:
        output, task = self._running.output, self._running.finished
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
        if self.is_running:
            return state
        if task.cancelled() or task.exception() is not None:
            return replace(state, status="killed")
        result = task.result()
        state = replace(state, duration_s=result.duration_s, question="")
        if result.aborted or result.timed_out:
            return replace(state, status="killed" if result.aborted else "timed_out")
        return replace(state, status="exited", exit_code=result.exit_code, signal=result.signal)

    @property
    def output(self) -> BoundedOutput:
        """All its output so far, up to the last whole character."""
        return split_whole(self._running.output)[0]

    def read_new_output(self) -> NewOutput:
        """Return the unread output, and the state of the command.

        Half a character at the end is kept for the next call, while the command runs.
        """
        unread, partial = self._unread.so_far(), b""
        if self.is_running:
            unread, partial = split_whole(unread)
        self._begin_unread(partial)
        everything = self._running.output
        path, is_cut, error = everything.path, everything.is_file_cut, everything.file_error
        unread = replace(unread, path=path, is_file_cut=is_cut, file_error=error)
        return NewOutput(output=unread, state=self.state)

    def _begin_unread(self, partial: bytes) -> None:
        """Start with the beginning of a character whose rest has not arrived yet."""
        self._partial = partial
        self._unread = OutputCapture()
        self._unread.feed(partial)

    @property
    def _has_unread(self) -> bool:
        return self._unread.total_bytes > len(self._partial)

    async def wait_for_news(self, limit_s: float, signal: AbortSignal) -> None:
        """Wait for unread output, the end, an abort, or the time limit."""
        if self._has_unread or not self.is_running:
            return
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        self._waiting.append(news)
        timer = loop.call_later(limit_s, resolve, news)
        try:
            await signal.wait(unless=news)
        finally:
            timer.cancel()
            resolve(news)
        if self._has_unread and not signal.aborted:
            await self.end_within(_LINGER_S)

    async def end_within(self, limit_s: float | None) -> bool:
        """Wait for its end, up to `limit_s`; return whether it has ended."""
        await asyncio.wait({self._running.finished}, timeout=limit_s)
        return not self.is_running

    def stop(self) -> None:
        """Request its end, with all its processes."""
        self._running.stop()

    async def ended(self) -> None:
        """Wait until it and all its processes have ended."""
        await self.end_within(None)

    def _on_chunk(self, chunk: bytes) -> None:
        self._unread.feed(chunk)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            resolve(self._waiting.pop())


class Shells:
    """The commands of one conversation that run, or ran, in the background.

    The model may start `MAX_RUNNING` at the same time; the user may move further ones there. The
    last `MAX_KEPT` are kept with their unread output.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.start_for_person = runner.start_for_person
        self._shells: dict[str, Shell] = {}
        self._foreground: list[tuple[str, RunningCommand, Callable[[], Shell]]] = []
        self._count = 0

    def start(self, command: str, **options: Unpack[CommandOptions]) -> Shell:
        """Run a command line in the background. Raises ProcessError, also if too many run."""
        running = [shell for shell in self._shells.values() if shell.is_running]
        if len(running) >= MAX_RUNNING:
            text = f"{MAX_RUNNING} commands run in the background, which is the limit: "
            text += f"{_listed(running)}."
            raise ProcessError(text, hint="End one with `kill_shell`, or wait until one has ended.")
        options.setdefault("timeout_s", BACKGROUND_TIMEOUT_S)
        if "watching" not in options:
            from dirge_py.processes.watch import WatchSettings

            options["watching"] = WatchSettings()
        return self._add(self._runner.start(command, **options), command, cwd=options["cwd"])

    async def run(
        self, command: str, *, signal: AbortSignal | None = None, **options: Unpack[CommandOptions]
    ) -> CommandResult | Shell:
        """Run a command line until it ends or is moved to the background. Raises ProcessError."""
        if signal is not None and signal.aborted:
            return await self._runner.run(command, signal=signal, **options)
        running = self._runner.start(command, **options)
        moved: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def move() -> Shell:
            timeout_s = options.get("timeout_s", DEFAULT_TIMEOUT_S)
            running.set_timeout(max(timeout_s, BACKGROUND_TIMEOUT_S))
            shell = self._add(running, command, cwd=options["cwd"])
            self._foreground.remove(entry)
            moved.set_result(shell)
            return shell

        entry = (options.get("call_id", ""), running, move)
        self._foreground.append(entry)
        try:
            await running.wait(signal, unless=moved)
        finally:
            if not moved.done():
                self._foreground.remove(entry)
        return moved.result() if moved.done() else running.finished.result()

    def to_background(self, call_id: str | None = None) -> str | None:
        """Move the foreground command of that call, or the newest one, to the background.

        Returns its id there; None if no command is in the foreground. The caller of `run` gets the
        `Shell`, and the time limit rises to at least that of background commands.
        """
        for of_call, running, move in reversed(self._foreground):
            if call_id in (None, of_call) and not running.is_ending:
                return move().id
        return None

    def get(self, shell_id: str) -> Shell:
        """Return one of the commands. Raises ProcessError if there is none with that id."""
        if shell_id in self._shells:
            return self._shells[shell_id]
        known = ", ".join(self._shells) or "none"
        hint = f"There are: {known}."
        raise ProcessError(f"There is no background command {shell_id!r}.", hint=hint)

    def list(self) -> Sequence[ShellState]:
        """Return the state of all kept commands, the oldest first."""
        return [shell.state for shell in self._shells.values()]

    async def new_output(
        self, shell_id: str, *, wait_s: float = 0.0, signal: AbortSignal | None = None
    ) -> NewOutput:
        """Return the new output; without any, wait up to `wait_s`. Raises ProcessError as `get`."""
        shell = self.get(shell_id)
        if wait_s > 0:
            await shell.wait_for_news(wait_s, signal or AbortSignal())
        return shell.read_new_output()

    async def kill(self, shell_id: str) -> ShellState:
        """End a command with all its processes, if it still runs. Raises ProcessError as `get`."""
        shell = self.get(shell_id)
        shell.stop()
        await shell.ended()
        return shell.state

    async def shutdown(self) -> Sequence[ShellState]:
        """End all running commands; return their states before that."""
        running = [shell for shell in self._shells.values() if shell.is_running]
        states = [shell.state for shell in running]
        for shell in running:
            shell.stop()
        for shell in running:
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


def _listed(commands: Sequence[Shell | ShellState]) -> str:
    begun = [(each.id, without_leading_comments(each.command.strip())) for each in commands]
    lines = [(shell_id, command.partition("\n")[0]) for shell_id, command in begun]
    return ", ".join(f"{shell_id} (`{truncate(line, 60)}`)" for shell_id, line in lines)


def ended_notice(states: Sequence[ShellState]) -> str:
    """Return the notice about commands that `shutdown` ended; "" if there were none."""
    return f"Ended with the session: {_listed(states)}." if states else ""
