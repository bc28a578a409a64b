"""From a command to a running process: its argument list, its session, its one output pipe."""

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import ProcessError

Permit = Literal["git", "network"]
"""What a sandbox keeps from a command unless it was allowed: to change `.git`; to reach others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """What a launcher may know about the command it wraps."""

    cwd: str
    """The folder it starts in."""
    environment: Mapping[str, str]
    """All its variables."""
    call_id: str
    """The tool call it is run for; empty for a probe."""
    permits: frozenset[Permit] = frozenset()
    """What it may do although the sandbox would keep it from that."""
    shows: Sequence[str] = ()
    """Places that it reads, wherever they are: what was approved, and what it runs."""


Launcher: TypeAlias = Callable[[list[str], LaunchSpec], list[str]]
"""Returns the argument list to start instead, such as the same one inside a sandbox."""

Restrict: TypeAlias = Callable[[], None]
"""Takes rights away from the calling thread, which the processes it starts do not get back.

Raises OSError: it could not; then nothing must be started.
"""


@dataclass(frozen=True, slots=True)
class StartedCommand:
    """A process just started, and the pipe its output comes out of. Owned by the caller."""

    process: subprocess.Popen[bytes]
    output_fd: int


# Never looked for on PATH: what is found there could be a file of the repository.
_BASH_PLACES = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/run/current-system/sw/bin/bash",
)


def shell_arguments(text: str) -> list[str]:
    """How bash is asked to run `text` and nothing else.

    No start files are read. `--` keeps text that begins with a dash from being taken for options.
    """
    return [_bash(), "--norc", "--noprofile", "-c", "--", text]


def start_command(
    arguments: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    stdin_text: str | None = None,
    restrict: Restrict | None = None,
) -> StartedCommand:
    """Start a process without terminal, stdout and stderr merged in the order written.

    Its input is `stdin_text` and then ends; without one it ends at once. A session of its own has
    no controlling terminal: what would ask there for a password fails at once instead of waiting.
    It also makes one process group of all it starts. With `restrict` it is started by a thread
    that called that first.

    Raises:
        ProcessError: nothing was started.
    """
    output_fd, write_end = os.pipe()
    stdin_fd = None
    try:
        if stdin_text is not None:
            stdin_fd = _input_of(stdin_text.encode())

        def make() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                list(arguments),
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.DEVNULL if stdin_fd is None else stdin_fd,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,
            )

        process = make() if restrict is None else _made_in_a_thread(make, restrict)
    except (OSError, ValueError) as error:
        os.close(output_fd)
        raise _explained(error, arguments[0], cwd) from error
    finally:
        os.close(write_end)
        if stdin_fd is not None:
            os.close(stdin_fd)
    os.set_blocking(output_fd, False)
    return StartedCommand(process, output_fd)


def _made_in_a_thread(
    make: Callable[[], "subprocess.Popen[bytes]"], restrict: Restrict
) -> "subprocess.Popen[bytes]":
    """What `make` starts, from a thread that ends with its rights taken away.

    The kernel keeps these rights by thread, and a process gets those of the thread it is started
    by. A helper program that restricts itself would cost the start of an interpreter.
    """
    made: list[subprocess.Popen[bytes]] = []
    failed: list[OSError | ValueError] = []

    def run() -> None:
        try:
            restrict()
            made.append(make())
        except (OSError, ValueError) as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="dirge-restricted-start")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _input_of(data: bytes) -> int:
    """A descriptor that gives `data` and then the end. Nobody has to stay and write."""
    try:
        fd = os.memfd_create("input", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # not Linux: what a pipe holds has to do
        return _piped(data)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _piped(data: bytes) -> int:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    try:
        written = os.write(write_end, data) if data else 0
    except BlockingIOError:
        written = 0
    finally:
        os.close(write_end)
    if written < len(data):
        os.close(read_end)
        raise ValueError("the input is longer than a pipe holds")
    return read_end


def _bash() -> str:
    for path in _BASH_PLACES:
        if os.access(path, os.X_OK):
            return path
    raise ProcessError(
        "There is no bash on this machine.", hint=f"It is looked for at {', '.join(_BASH_PLACES)}."
    )


def _explained(error: OSError | ValueError, program: str, cwd: str) -> ProcessError:
    if not os.path.isdir(cwd):
        return ProcessError(f"The folder {cwd!r} does not exist.", hint="Start in another folder.")
    if isinstance(error, ValueError):
        return ProcessError(
            f"The command has characters that cannot be passed on: {error}.",
            hint="Leave out NUL characters and lone surrogates.",
        )
    if isinstance(error, FileNotFoundError):
        return ProcessError(f"There is no program `{program}`.", hint="Check PATH.")
    reason = error.strerror or str(error)
    return ProcessError(
        f"{program} could not be started: {reason}.",
        hint="A very long command belongs into a script file.",
    )
