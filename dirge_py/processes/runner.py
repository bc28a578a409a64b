"""Starting commands for tools, and ending every one of them when the program ends."""

import asyncio
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from functools import partial

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.launch import Launcher, LaunchSpec, Permit, shell_arguments, start_command
from dirge_py.processes.output import OutputCapture, OutputStore
from dirge_py.processes.process_tree import ORPHAN_REAPER, CommandTree, adopt_orphans
from dirge_py.processes.pty import OnBytes, PtyCommand, open_terminal
from dirge_py.processes.running_command import CommandResult, OnOutput, RunningCommand
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.processes.watch import WatchSettings
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProcessError

DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What was decided about the command that a call will run."""

    environment: Mapping[str, str]
    permits: frozenset[Permit]
    is_read_only: bool = False


_UNPREPARED = _Prepared(environment={}, permits=frozenset())


class Runner:
    """Runs commands one call at a time or many at once, each a fresh process tree of its own."""

    def __init__(
        self,
        environment: EnvironmentPolicy,
        launcher: Launcher | None = None,
        *,
        read_only: ReadOnlyProfile | None = None,
    ) -> None:
        """`launcher` may wrap every argument list, such as into a sandbox. `read_only` is for the
        commands that are prepared so, in its place.
        """
        self._environment = environment
        self._launcher = launcher
        self._read_only = read_only
        self._prepared: dict[str, _Prepared] = {}
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
        """Add variables to the command that the call `call_id` will run next, once.

        `permits` is what the launcher may let it do. With `is_read_only` it only looks, and is
        held to that where the machine has a mechanism for it.
        """
        self._prepared[call_id] = _Prepared(
            environment=dict(extra_env), permits=permits, is_read_only=is_read_only
        )

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        call_id: str = "",
        signal: AbortSignal | None = None,
        on_output: OnOutput | None = None,
        outputs: OutputStore | None = None,
        extra_env: Mapping[str, str] | None = None,
        stdin_text: str | None = None,
        watching: WatchSettings | None = None,
        shows: Sequence[str] = (),
    ) -> CommandResult:
        """Run a command line with bash, or an argument list as it is, to its end.

        Returns when the started process has exited or was stopped, and nothing it started runs
        any more. Output too big to show goes into a file of `outputs`, named after the call.
        `shows` are places that it reads even where a sandbox would hide them.
        A cancelled caller gets its CancelledError at once; the command is ended behind it.

        Raises:
            ProcessError: it could not be started.
        """
        if signal is not None and signal.aborted:
            self._prepared.pop(call_id, None)
            return CommandResult(aborted=True)
        running = self.start(
            command,
            cwd=cwd,
            timeout_s=timeout_s,
            call_id=call_id,
            on_output=on_output,
            outputs=outputs,
            extra_env=extra_env,
            stdin_text=stdin_text,
            watching=watching,
            shows=shows,
        )
        await running.follow(signal)
        return running.finished.result()

    def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        call_id: str = "",
        on_output: OnOutput | None = None,
        outputs: OutputStore | None = None,
        extra_env: Mapping[str, str] | None = None,
        stdin_text: str | None = None,
        watching: WatchSettings | None = None,
        shows: Sequence[str] = (),
    ) -> RunningCommand:
        """Start a command as `run` does, without waiting: it ends by itself, or with the runner.

        Raises:
            ProcessError: it could not be started.
        """
        prepared = self._prepared.pop(call_id, _UNPREPARED)
        if self._is_shut_down:
            raise ProcessError("No command is started while dirge ends.")
        adopt_orphans()
        # Call ids are the model's words and may come twice, so the marker is not made of them.
        marker = _new_marker()
        extra_env = {**prepared.environment, **(extra_env or {})}
        environment = self._environment.build(marker, extra_env)
        arguments = shell_arguments(command) if isinstance(command, str) else list(command)
        spec = LaunchSpec(
            cwd=cwd,
            environment=environment,
            call_id=call_id,
            permits=prepared.permits,
            shows=shows,
        )
        restricted = None
        if prepared.is_read_only and self._read_only is not None:
            restricted = self._read_only.start_of(arguments, spec)
        if restricted is not None:
            arguments = restricted.arguments
            environment = {**environment, **restricted.environment}
        elif self._launcher is not None:
            arguments = self._launcher(arguments, spec)
        ORPHAN_REAPER.expect()
        started = start_command(
            arguments,
            cwd=cwd,
            environment=environment,
            stdin_text=stdin_text,
            restrict=restricted.restrict if restricted is not None else None,
        )
        tree = _tree_of(started.process.pid, marker)
        capture = OutputCapture(partial(outputs.create, call_id) if outputs else None)
        running = RunningCommand(started, tree, capture, on_output=on_output, watching=watching)
        self._see_through(running, min(timeout_s, MAX_TIMEOUT_S))
        return running

    def start_for_person(
        self, command: str, *, cwd: str, rows: int, columns: int, on_bytes: OnBytes
    ) -> PtyCommand:
        """Start what a person typed, on a terminal of its own, outside of any sandbox.

        It ends by itself, when it is stopped, or with the runner; there is no time limit.

        Raises:
            ProcessError: it could not be started.
        """
        if self._is_shut_down:
            raise ProcessError("No command is started while dirge ends.")
        adopt_orphans()
        marker = _new_marker()
        environment = self._environment.build_for_person(marker)
        ORPHAN_REAPER.expect()
        opened = open_terminal(
            command, cwd=cwd, environment=environment, rows=rows, columns=columns
        )
        running = PtyCommand(opened, _tree_of(opened.process.pid, marker), on_bytes)
        self._see_through(running, math.inf)
        return running

    def _see_through(self, running: RunningCommand, timeout_s: float) -> None:
        task = running.begin(timeout_s)
        self._running[task] = running
        task.add_done_callback(self._running.pop)

    async def shutdown(self) -> None:
        """End every command that runs, gently at first, and start no more."""
        self._is_shut_down = True
        self._prepared.clear()
        for running in self._running.values():
            running.stop()
        if self._running:
            await asyncio.wait(set(self._running))
        ORPHAN_REAPER.kill_rest()


def _new_marker() -> str:
    return f"{os.getpid()}-{secrets.token_hex(8)}"


def _tree_of(leader: int, marker: str) -> CommandTree:
    """The tree of a process just started."""
    ORPHAN_REAPER.began(leader, marker)
    return CommandTree(leader, marker)
