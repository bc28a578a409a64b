"""Starting commands for tools, and ending every one of them when the program ends."""

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from functools import partial

from dirge_py.abort import AbortSignal
from dirge_py.errors import ProcessError
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.launch import (
    Launcher,
    LaunchSpec,
    Permit,
    Started,
    shell_arguments,
    start,
)
from dirge_py.processes.orphans import adopt_orphans
from dirge_py.processes.output import Capture
from dirge_py.processes.outputs import OutputStore
from dirge_py.processes.running import Finished, OnOutput, RunningCommand
from dirge_py.processes.strays import STRAYS
from dirge_py.processes.tree import CommandTree

DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What was decided about the command that a call will run."""

    environment: Mapping[str, str]
    permits: frozenset[Permit]


_UNPREPARED = _Prepared(environment={}, permits=frozenset())


class Runner:
    """Runs commands one call at a time or many at once, each a fresh process tree of its own."""

    def __init__(self, environment: EnvironmentPolicy, launcher: Launcher | None = None) -> None:
        """`launcher` may wrap every argument list, such as into a sandbox."""
        self._environment = environment
        self._launcher = launcher
        self._prepared: dict[str, _Prepared] = {}
        self._running: dict[asyncio.Task[Finished], RunningCommand] = {}
        self._is_shut_down = False

    def prepare(
        self,
        call_id: str,
        extra_env: Mapping[str, str],
        permits: frozenset[Permit] = frozenset(),
    ) -> None:
        """Add variables to the command that the call `call_id` will run next, once.

        `permits` is what the launcher may let it do.
        """
        self._prepared[call_id] = _Prepared(environment=dict(extra_env), permits=permits)

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
    ) -> Finished:
        """Run a command line with bash, or an argument list as it is, to its end.

        Returns when the started process has exited or was stopped, and nothing it started runs
        any more. Output too big to show goes into a file of `outputs`, named after the call.
        A cancelled caller gets its CancelledError at once; the command is ended behind it.

        Raises:
            ProcessError: it could not be started.
        """
        prepared = self._prepared.pop(call_id, _UNPREPARED)
        if self._is_shut_down:
            raise ProcessError("No command is started while dirge ends.")
        if signal is not None and signal.aborted:
            return Finished(aborted=True)
        adopt_orphans()
        started, tree = self._start(
            command,
            cwd=cwd,
            call_id=call_id,
            extra_env={**prepared.environment, **(extra_env or {})},
            permits=prepared.permits,
        )
        capture = Capture(partial(outputs.create, call_id) if outputs else None)
        running = RunningCommand(started, tree, capture, on_output)
        return await self._see_through(running, min(timeout_s, MAX_TIMEOUT_S), signal)

    async def shutdown(self) -> None:
        """End every command that runs, gently at first, and start no more."""
        self._is_shut_down = True
        self._prepared.clear()
        for running in self._running.values():
            running.stop()
        if self._running:
            await asyncio.wait(set(self._running))

    def kill_all(self) -> None:
        """Kill every command that runs, at once and without an event loop: for atexit."""
        self._is_shut_down = True
        for running in list(self._running.values()):
            running.kill_now()

    def _start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str,
        call_id: str,
        extra_env: Mapping[str, str],
        permits: frozenset[Permit],
    ) -> tuple[Started, CommandTree]:
        # Call ids are the model's words and may come twice, so the marker is not made of them.
        marker = f"{os.getpid()}-{secrets.token_hex(8)}"
        environment = self._environment.build(marker, extra_env)
        arguments = shell_arguments(command) if isinstance(command, str) else list(command)
        if self._launcher is not None:
            spec = LaunchSpec(cwd=cwd, environment=environment, call_id=call_id, permits=permits)
            arguments = self._launcher(arguments, spec)
        STRAYS.expect()
        started = start(arguments, cwd=cwd, environment=environment)
        STRAYS.began(started.process.pid)
        return started, CommandTree(started.process.pid, marker)

    async def _see_through(
        self, running: RunningCommand, timeout_s: float, signal: AbortSignal | None
    ) -> Finished:
        loop = asyncio.get_running_loop()
        # A task of its own: cancelling the caller must not cut the killing short.
        task = loop.create_task(running.supervise(timeout_s))
        self._running[task] = running
        task.add_done_callback(self._running.pop)

        def stop() -> None:  # an abort may come from any thread
            loop.call_soon_threadsafe(running.stop)

        forget = signal.on_abort(stop) if signal is not None else None
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            running.stop()
            raise
        finally:
            if forget is not None:
                forget()
