"""One command, from its argument list to its end.

It gets its own session and output pipe. Its output is read, its time is limited, and its processes
are ended.
"""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.output import BoundedOutput, OutputCapture
from dirge_py.processes.process_tree import (
    ORPHAN_REAPER,
    CommandTree,
    EndedProcesses,
    end_tree,
    kill_tree,
    wait_for_tree,
)
from dirge_py.processes.sandbox.profile import Restrict
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProcessError

if TYPE_CHECKING:
    from dirge_py.processes.watch import CommandWatch, WatchSettings

OnOutput: TypeAlias = Callable[[str, int], None]
"""Called with the last few KiB of output and its size so far; at most 20 times a second."""

TIMEOUT_GRACE_S = 2.0
STOP_GRACE_S = 0.3
LEFT_GRACE_S = 0.15
"""The time between SIGTERM and SIGKILL: at a timeout, after an abort, for leftover processes."""

_TREE_KILL_S = 0.3
"""The longest time of the first attempt to kill the members of the tree."""
_CHUNK_BYTES = 64 * 1024
_DRAIN_S = 0.25
# The last writer closes the pipe a moment before it ends; it was not left running.
_LINGER_S = 0.1
_UPDATE_S = 0.05
_EXIT_POLL_S = 0.01

_EndedBy: TypeAlias = Literal["exit", "timeout", "abort", "question"]


# Never searched on PATH, where it could be a file of the repository.
_BASH_PLACES = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/run/current-system/sw/bin/bash",
)


def shell_arguments(text: str) -> list[str]:
    """Return the arguments that make bash run `text`, even with a dash, and no start files."""
    bash = next((path for path in _BASH_PLACES if os.access(path, os.X_OK)), None)
    if bash is None:
        hint = f"dirge looks for it in {', '.join(_BASH_PLACES)}."
        raise ProcessError("dirge needs bash, which is not installed.", hint=hint)
    return [bash, "--norc", "--noprofile", "-c", "--", text]


def start_command(
    arguments: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    stdin_text: str | None = None,
    restrict: Restrict | None = None,
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a process without a terminal; return it, and the descriptor to read its output from.

    Its output is stdout and stderr in the order written. Its input is `stdin_text`, else empty. It
    gets its own session and process group; the session has no terminal, so a program that asks
    there for a password fails immediately instead of waiting. With `restrict`, the process is
    started by a thread that called that first. Raises ProcessError if nothing was started.
    """
    output_fd, write_end = os.pipe()
    stdin_fd = None
    try:
        if stdin_text is not None:
            stdin_fd = _input_of(stdin_text.encode())

        def start() -> subprocess.Popen[bytes]:
            if restrict is not None:
                restrict()
            return subprocess.Popen(
                list(arguments),
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.DEVNULL if stdin_fd is None else stdin_fd,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
            )

        if restrict is None:
            process = start()
        else:
            # A process inherits the rights of the thread that starts it. A helper program that
            # restricts itself would cost the start of an interpreter.
            with ThreadPoolExecutor(1, "dirge-restricted-start") as thread:
                process = thread.submit(start).result()
    except (OSError, ValueError) as error:
        os.close(output_fd)
        raise start_problem(error, arguments[0], cwd) from error
    finally:
        os.close(write_end)
        if stdin_fd is not None:
            os.close(stdin_fd)
    os.set_blocking(output_fd, False)
    return process, output_fd


def _input_of(data: bytes) -> int:
    """Return a descriptor to read `data` from that needs no writer."""
    try:
        fd = os.memfd_create("input", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # not Linux
        with TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def start_problem(
    error: OSError | ValueError,
    program: str,
    cwd: str,
    *,
    hint: str = "Put a very long command into a script file.",
) -> ProcessError:
    """Return the error for a `program` that could not be started; `hint` is the default."""
    if not os.path.isdir(cwd):
        return ProcessError(f"The folder {cwd!r} does not exist.", hint="Start in another folder.")
    if isinstance(error, ValueError):
        text = f"The command contains characters that cannot be passed on: {error}."
        return ProcessError(text, hint="Leave out NUL characters and lone surrogates.")
    if isinstance(error, FileNotFoundError):
        return ProcessError(f"There is no program `{program}`.", hint="Check PATH.")
    reason = error.strerror or str(error)
    return ProcessError(f"{program} could not be started: {reason}.", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """The result of a command."""

    exit_code: int | None = None
    """Its exit code; None if `signal` ended it, or if it did not start."""
    signal: int | None = None
    """The signal that ended it."""
    timed_out: bool = False
    """Whether it was stopped at its time limit."""
    aborted: bool = False
    """Whether an abort stopped it, or kept it from starting."""
    question: str = ""
    """The question for which it was stopped; "" if it was not."""
    output: BoundedOutput = BoundedOutput()
    """Its output."""
    duration_s: float = 0.0
    """How long it ran, in seconds."""
    quiet_s: float = 0.0
    """The seconds without output before its end."""
    stopped: int = 0
    """How many background processes it left running."""
    left: tuple[int, ...] = ()
    """Pids still running: another user's or command's, stuck in the kernel, or forking too fast."""


class RunningCommand:
    """A started command. Call `begin` once; `stop` and `kill_now` may be called at any time."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        output_fd: int,
        tree: CommandTree,
        *,
        capture: OutputCapture,
        on_output: OnOutput | None = None,
        watching: "WatchSettings | None" = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._process = process
        self._tree = tree
        self._capture = capture
        self._on_output = on_output
        self._on_chunk: Callable[[bytes], None] | None = None
        # In the order of precedence.
        reasons: tuple[_EndedBy, ...] = ("exit", "abort", "timeout", "question")
        self._ends = {reason: self._loop.create_future() for reason in reasons}
        self._output_ended: asyncio.Future[None] = self._loop.create_future()
        self._output_fd: int | None = output_fd
        self._exit_watch: int | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._next_update: asyncio.TimerHandle | None = None
        self._last_update = 0.0
        self._is_over = False
        self._stops_when_asking = True
        self._watch: CommandWatch | None = None
        if watching is not None:
            from dirge_py.processes import watch

            self._watch = watch.CommandWatch(watching, capture, tree, self._on_question)
        self._loop.add_reader(output_fd, self._read)
        try:
            self._exit_watch = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or an old kernel
            self._poll_exit()
        else:
            self._loop.add_reader(self._exit_watch, self._notice_exit)

    @property
    def question(self) -> str:
        """The question that it asks now; "" if there is none, or if it is not watched."""
        return self._watch.question if self._watch is not None else ""

    @property
    def duration_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def output(self) -> BoundedOutput:
        """All its output so far."""
        return self._capture.so_far()

    @property
    def is_ending(self) -> bool:
        """Whether it has exited, or is about to be stopped."""
        return any(end.done() for end in self._ends.values())

    def begin(self, timeout_s: float) -> "asyncio.Task[CommandResult]":
        """Supervise it in its own task: a cancelled caller must not interrupt the killing."""
        self.set_timeout(timeout_s)
        self.finished = self._loop.create_task(self._supervise())
        return self.finished

    def set_timeout(self, timeout_s: float) -> None:
        """Change its time limit, counted from its start."""
        if self._limit is not None:
            self._limit.cancel()
        rest_s = timeout_s - self.duration_s
        self._limit = self._loop.call_later(rest_s, resolve, self._ends["timeout"])

    def detach(self, on_chunk: Callable[[bytes], None]) -> None:
        """Send further output to `on_chunk`: nobody waits for it. A question doesn't end it now."""
        self._on_output, self._on_chunk = None, on_chunk
        self._stops_when_asking = False

    async def wait(
        self, signal: AbortSignal | None, *, unless: "asyncio.Future[None] | None" = None
    ) -> None:
        """Wait for its end, or for `unless`; until then an abort or a cancellation ends it."""
        unless = unless or self._loop.create_future()

        def stop() -> None:
            if not unless.done():
                self.stop()

        def stop_soon() -> None:  # an abort may come from any thread
            self._loop.call_soon_threadsafe(stop)

        forget = signal.on_abort(stop_soon) if signal is not None else lambda: None
        try:
            waiting: set[asyncio.Future[Any]] = {self.finished, unless}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            stop()
            raise
        finally:
            forget()

    def stop(self) -> None:
        """End it soon. Calling this again changes nothing."""
        resolve(self._ends["abort"])

    async def _supervise(self) -> CommandResult:
        """Wait for the end of the command, and end its remaining processes."""
        try:
            await asyncio.wait(self._ends.values(), return_when=asyncio.FIRST_COMPLETED)
            ended_by = next(reason for reason, end in self._ends.items() if end.done())
            if ended_by == "exit":
                # A background process may keep the pipe open.
                drained, _ = await asyncio.wait({self._output_ended}, timeout=_DRAIN_S)
                if drained:
                    await wait_for_tree(self._tree, limit_s=_LINGER_S)
                ended = await self._end(LEFT_GRACE_S)
            else:
                grace_s = TIMEOUT_GRACE_S if ended_by == "timeout" else STOP_GRACE_S
                ended = await self._end(grace_s)
                await asyncio.wait({self._output_ended, self._ends["exit"]}, timeout=_DRAIN_S)
            orphans = await ORPHAN_REAPER.end_after(self._process.pid)
            self._is_over = True
            left = (*ended.left, *orphans.left)
            return self._finished(ended_by, EndedProcesses(ended.running + orphans.running, left))
        finally:
            self.kill_now()

    async def _end(self, grace_s: float) -> EndedProcesses:
        ended = await end_tree(self._tree, grace_s=grace_s, limit_s=_TREE_KILL_S)
        if not ended.left:
            return ended
        # Processes that fork faster than a tree is read are caught among dirge's children.
        await ORPHAN_REAPER.end_during(self._process.pid)
        return EndedProcesses(ended.running, (await end_tree(self._tree, grace_s=0)).left)

    def kill_now(self) -> None:
        """Kill the rest and release all resources. Needs no event loop; may be repeated."""
        if not self._is_over:
            self._is_over = True
            kill_tree(self._tree)
            ORPHAN_REAPER.kill_after(self._process.pid)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_EXIT_POLL_S)
        self._close_output()
        self._close_exit_watch()
        resolve(self._ends["exit"])
        if self._watch is not None:
            self._watch.end()
        for timer in (self._next_update, self._limit):
            if timer is not None:
                timer.cancel()

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

    def _on_question(self) -> None:
        if self._stops_when_asking:
            resolve(self._ends["question"])

    def _poll_exit(self) -> None:
        self._notice_exit()
        if not self._ends["exit"].done():
            self._loop.call_later(_EXIT_POLL_S, self._poll_exit)

    def _notice_exit(self) -> None:
        if self._process.poll() is not None:
            self._close_exit_watch()
            resolve(self._ends["exit"])

    def _close_exit_watch(self) -> None:
        if self._exit_watch is not None:
            self._loop.remove_reader(self._exit_watch)
            os.close(self._exit_watch)
            self._exit_watch = None

    def _read(self) -> None:
        # One chunk per turn of the event loop, so that a flood does not block other work.
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
            self._next_update = self._loop.call_at(self._last_update + _UPDATE_S, self._update)

    def _update(self) -> None:
        self._next_update, self._last_update = None, self._loop.time()
        if self._on_output is not None:
            self._on_output(self._capture.live_tail(), self._capture.total_bytes)

    def _close_output(self) -> None:
        if self._output_fd is not None:
            self._loop.remove_reader(self._output_fd)
            os.close(self._output_fd)
            self._output_fd = None
        resolve(self._output_ended)


def resolve(future: "asyncio.Future[None]") -> None:
    """Set the result of a future whose loop is open, if it has none yet."""
    if not future.done() and not future.get_loop().is_closed():
        future.set_result(None)
