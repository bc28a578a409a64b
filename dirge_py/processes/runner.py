"""Starts commands for tools, and ends every one of them when the program ends."""

import asyncio
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Required, TypedDict, TypeVar, Unpack

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.output import OutputCapture, OutputStore
from dirge_py.processes.process_tree import ORPHAN_REAPER, CommandTree, adopt_orphans
from dirge_py.processes.pty import OnBytes, PtyCommand, open_terminal
from dirge_py.processes.running_command import (
    CommandResult,
    OnOutput,
    RunningCommand,
    shell_arguments,
    start_command,
)
from dirge_py.processes.sandbox.profile import Launcher, LaunchSpec, Permit
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from dirge_py.processes.watch import WatchSettings
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProcessError

DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 3600.0

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
    watching: WatchSettings | None
    """What to watch for while it runs."""
    shows: Sequence[str]
    """Places that it reads even if a sandbox would hide them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Approval:
    """The decision about the command that a call will run."""

    environment: Mapping[str, str]
    permits: frozenset[Permit] = frozenset()
    is_read_only: bool = False


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
        self._approvals: dict[str, _Approval] = {}
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

        `permits` is what the launcher may allow. With `is_read_only` the command may only read, and
        the machine's mechanism enforces that, if it has one.
        """
        self._approvals[call_id] = _Approval(
            environment=dict(extra_env), permits=permits, is_read_only=is_read_only
        )

    async def run(
        self,
        command: str | Sequence[str],
        *,
        signal: AbortSignal | None = None,
        **options: Unpack[CommandOptions],
    ) -> CommandResult:
        """Run a command line with bash, or an argument list as it is, to its end.

        Returns when the started process has exited or was stopped, and no process it started runs
        any more. A cancelled caller gets its CancelledError at once; the command is ended in the
        background.

        Raises:
            ProcessError: it could not be started.
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
        """Start a command as `run` does, without waiting: it ends by itself, or with the runner.

        Raises:
            ProcessError: it could not be started.
        """
        cwd, call_id = options["cwd"], options.get("call_id", "")
        approval = self._approvals.pop(call_id, _Approval(environment={}))

        def start(marker: str) -> RunningCommand:
            extra_env = {**approval.environment, **(options.get("extra_env") or {})}
            environment = self._environment.build(marker, extra_env)
            arguments = shell_arguments(command) if isinstance(command, str) else list(command)
            spec = LaunchSpec(
                cwd=cwd,
                environment=environment,
                call_id=call_id,
                permits=approval.permits,
                shows=options.get("shows", ()),
            )
            restricted = None
            if approval.is_read_only and self._read_only is not None:
                restricted = self._read_only.restricted_start(arguments, spec)
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
                stdin_text=options.get("stdin_text"),
                restrict=restricted.restrict if restricted is not None else None,
            )
            outputs = options.get("outputs")
            return RunningCommand(
                started,
                _tree_of(started.process.pid, marker),
                OutputCapture(partial(outputs.create, call_id) if outputs else None),
                on_output=options.get("on_output"),
                watching=options.get("watching"),
            )

        return self._begin(start, min(options.get("timeout_s", DEFAULT_TIMEOUT_S), MAX_TIMEOUT_S))

    def start_for_person(
        self, command: str, *, cwd: str, rows: int, columns: int, on_bytes: OnBytes
    ) -> PtyCommand:
        """Start a command that the user typed, on its own terminal, outside of any sandbox.

        It ends by itself, when it is stopped, or with the runner; there is no time limit.

        Raises:
            ProcessError: it could not be started.
        """

        def start(marker: str) -> PtyCommand:
            environment = self._environment.build_for_person(marker)
            ORPHAN_REAPER.expect()
            opened = open_terminal(
                command, cwd=cwd, environment=environment, rows=rows, columns=columns
            )
            return PtyCommand(opened, _tree_of(opened.process.pid, marker), on_bytes)

        return self._begin(start, math.inf)

    def _begin(self, start: Callable[[str], _Started], timeout_s: float) -> _Started:
        """Start a command with a marker for its processes, and supervise it in a task."""
        if self._is_shut_down:
            raise ProcessError("No command is started while dirge ends.")
        adopt_orphans()
        # Call ids come from the model and may repeat, so the marker does not contain them.
        running = start(f"{os.getpid()}-{secrets.token_hex(8)}")
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
    """Return the tree of a process just started."""
    tree = CommandTree(leader, marker)
    ORPHAN_REAPER.began(tree)
    return tree
