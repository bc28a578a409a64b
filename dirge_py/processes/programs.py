"""Programs that are started unasked: found where the project has no say, and run.

The first half says which folders programs may come from, for dirge itself and for commands that
only look. `run_program` asks a program something short (its version, the clipboard),
`run_in_foreground` gives it the terminal (an editor, a pager), `start_detached` lets it outlive us
(an editor beside us).
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import is_below, is_below_any, upwards
from dirge_py.types.errors import ProcessError

_MOST_LINKS = 40

PROGRAM_FOLDERS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store",
    "/gnu/store", "/snap", "/run/current-system", "/run/wrappers", "/System", "/Library",
    "/home/linuxbrew/.linuxbrew",
)  # fmt: skip
"""Where programs of the system lie."""

USUAL_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
"""Where to look if the workspace holds every folder of `PATH`: to a shell an empty one means the
current folder.
"""


def closed_folders(roots: Sequence[str], home: str) -> tuple[str, ...]:
    """The physical folders in which no file may be executed: the workspace and the home folders.

    One that holds the system's programs, such as `/`, is left out: nothing could run without them.
    """
    reals = dict.fromkeys(
        os.path.realpath(path) for path in (*roots, home, _account_home()) if path
    )
    system = [os.path.realpath(folder) for folder in PROGRAM_FOLDERS[:3]]
    return tuple(path for path in reals if not any(is_below(each, path) for each in system))


@cache
def _account_home() -> str:
    """The home folder that the account has, whatever HOME says; "" if that is not on this machine.

    Read from the file: asking for the account (`pwd`) may go to a server.
    """
    user = str(os.geteuid()).encode()
    with contextlib.suppress(OSError), open("/etc/passwd", "rb") as accounts:
        for line in accounts:
            fields = line.rstrip(b"\n").split(b":")
            if len(fields) > 5 and fields[2] == user:
                return os.fsdecode(fields[5])
    return ""


def search_path(path: str, closed: Sequence[str]) -> str:
    """The folders of a `PATH` that lie in none of the physical folders `closed`; never empty."""
    allowed = [
        folder
        for folder in path.split(os.pathsep)
        if os.path.isabs(folder) and not is_below_any(os.path.realpath(folder), closed)
    ]
    return os.pathsep.join(allowed or USUAL_PATH)


def program_problem(name: str, path: str, closed: tuple[str, ...]) -> str:
    """Why the program `name` must not be started unasked, or "".

    A name that is nowhere on `path` is no problem: it is built into the shell, or fails.
    """
    found = shutil.which(name, path=_remembered_path(path, closed))
    if found is not None and not is_below_any(os.path.realpath(found), closed):
        return ""
    found = found or shutil.which(name, path=path)
    if found is None or not os.path.isabs(found):
        return ""
    return f"`{name}` is {found}, and programs in the workspace or your home folder can do anything"


# For judging only, which would cost more than all else it does. Where a folder of PATH becomes a
# link into the workspace later, the kernel still executes nothing there.
_remembered_path = lru_cache(maxsize=16)(search_path)


@lru_cache(maxsize=16)
def remembered_closed_folders(roots: tuple[str, ...], home: str) -> tuple[str, ...]:
    """As `closed_folders`, for folders that are physical already."""
    return closed_folders(roots, home)


def find_program(
    name: str, *, path: str | None = None, outside: Sequence[str] | None = None
) -> str | None:
    """The first program `name` on `path` (None: PATH) that lies `outside` of these folders.

    Neither its name nor a link on the way to it may enter one of them: what is written there would
    choose the program. A relative entry of the path counts from the working directory, which is the
    project, so it is passed over. `outside` None means `project_folders()`.
    """
    if outside is None:
        try:
            outside = project_folders()
        except FileNotFoundError:  # the working directory was deleted: nothing can be in there
            outside = ()
    folders = [os.path.realpath(each) for each in outside]
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    for folder in searched.split(os.pathsep):
        program = os.path.join(folder, name)
        is_program = os.path.isfile(program) and os.access(program, os.X_OK)
        if not os.path.isabs(folder) or not is_program:
            continue
        if not any(is_below_any(step, folders) for step in _steps(program)):
            return program
    return None


def find_inside(name: str) -> str | None:
    """The program `name` on PATH where only one in the project is, which dirge does not start."""
    if find_program(name) is not None:
        return None
    return find_program(name, outside=())


def why_not_found(name: str) -> str:
    """What is wrong where `find_program` found nothing, as the end of a sentence."""
    inside = find_inside(name)
    if inside is None:
        return "it is not on the PATH"
    return f"the only one on the PATH is in the project, {inside}"


def program_of_person(name: str) -> str:
    """The program to start where a person named it: a path as it is, a bare name from PATH.

    Raises:
        ProcessError: the name is found nowhere outside of the project.
    """
    if "/" in name:
        return name
    found = find_program(name)
    if found is None:
        raise ProcessError(
            f"{name} cannot be started: {why_not_found(name)}.",
            hint="Install it, or give its full path.",
        )
    return found


def project_folders(start: str | None = None) -> list[str]:
    """The working directory and the repository around it, as far as these are a project.

    A folder that holds the home folder is none: programs that the person installed are in there.
    """
    real = os.path.realpath(start or os.getcwd())
    home = os.path.realpath(os.path.expanduser("~"))
    repositories = [each for each in upwards(real) if os.path.lexists(os.path.join(each, ".git"))]
    return [each for each in (real, *repositories) if not is_below(home, each)]


def _steps(path: str) -> Iterator[str]:
    """Every place that is looked at on the way to an absolute path, through all its links."""
    links = 0
    left = [part for part in reversed(path.split("/")) if part]
    at = "/"
    while left:
        part = left.pop()
        if part == ".":
            continue
        step = os.path.dirname(at) if part == ".." else os.path.join(at, part)
        yield step
        if part != ".." and os.path.islink(step) and links < _MOST_LINKS:
            links += 1
            target = os.readlink(step)
            left += [each for each in reversed(target.split("/")) if each]
            at = "/" if os.path.isabs(target) else at
        else:
            at = step


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended."""

    code: int
    """Its exit code."""
    out: bytes = b""
    """What it wrote to stdout; empty unless it was read."""
    err: bytes = b""
    """What it wrote to stderr; empty unless it was read."""

    @property
    def last_words(self) -> str:
        """The last line that it wrote to stderr, or its exit code."""
        lines = self.err.decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else f"it ended with {self.code}"


def run_program(
    arguments: Sequence[str], *, input_bytes: bytes = b"", limit_s: float, reads: bool = True
) -> ProgramResult:
    """Run a program of the person's, with their environment, to its end.

    One in the project does not count, see `find_program`: a repository could bring its own.

    `reads=False` is for programs that leave a child behind that keeps what they were given: it
    would hold our end of their output open.

    Raises:
        ProcessError: it cannot be started, or took longer than `limit_s`; it is killed then.
    """
    output = subprocess.PIPE if reads else subprocess.DEVNULL
    found = find_program(arguments[0])
    if found is None:
        raise ProcessError(f"{arguments[0]} cannot be started: {why_not_found(arguments[0])}.")
    try:
        ended = subprocess.run(
            [found, *arguments[1:]],
            input=input_bytes,
            stdout=output,
            stderr=output,
            timeout=limit_s,
            check=False,
            # Not a session of its own: what leaves ours while commands run is taken for something
            # that they left behind, such as the child by which `wl-copy` keeps what was copied.
            process_group=0,
        )
    except subprocess.TimeoutExpired as error:
        raise ProcessError(f"{arguments[0]} did not end within {limit_s:g} s.") from error
    except OSError as error:
        raise ProcessError(f"{arguments[0]} cannot be started: {error.strerror}.") from error
    return ProgramResult(ended.returncode, ended.stdout or b"", ended.stderr or b"")


def start_detached(arguments: Sequence[str], *, cwd: Path, ended: Callable[[int], object]) -> None:
    """Start a program with our environment, but without our terminal, and do not wait for it.

    It outlives us. While we run, `ended` gets its exit code, on the running event loop.

    Raises:
        ProcessError: it cannot be started.
    """
    try:
        # A group of its own keeps Ctrl+C from it. It stays in our session: what leaves that while
        # commands run is taken for something that they left behind.
        program = subprocess.Popen(
            [program_of_person(arguments[0]), *arguments[1:]],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ProcessError(f"{arguments[0]} cannot be started: {why}.") from error
    loop = asyncio.get_running_loop()

    def wait() -> None:
        code = program.wait()
        with contextlib.suppress(RuntimeError):  # The loop is closed: we are ending.
            loop.call_soon_threadsafe(ended, code)

    threading.Thread(target=wait, name="detached", daemon=True).start()


async def run_in_foreground(arguments: Sequence[str]) -> int:
    """Run a program with our own terminal and environment; returns its exit code.

    Only what awaits this stands still. Ctrl+C reaches us too: it is the caller's to pass over.

    Raises:
        ProcessError: the program cannot be started.
    """
    try:
        found = program_of_person(arguments[0])
        program = await asyncio.create_subprocess_exec(found, *arguments[1:])
    except OSError as error:
        raise ProcessError(
            f"{arguments[0]} cannot be started: {error.strerror}.",
            hint="Set VISUAL or EDITOR to your editor.",
        ) from error
    try:
        return await program.wait()
    except asyncio.CancelledError:
        program.terminate()
        raise
