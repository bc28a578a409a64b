"""Finds programs outside of the project, and runs them for dirge itself.

The first half says which folders programs may come from, also for read-only commands.
`run_program` runs a short program (such as the clipboard's), `run_in_foreground` gives it the
terminal (an editor, a pager), `start_detached` lets it outlive dirge (an editor in its own window).
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
"""The folders of the system's programs."""

USUAL_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
"""Used if the workspace contains every folder of PATH; an empty PATH means the current folder."""


def closed_folders(roots: Sequence[str], home: str) -> tuple[str, ...]:
    """Return the physical folders in which no file may be executed: workspace and home folders.

    Folders that contain the system's programs, such as `/`, are left out.
    """
    reals = dict.fromkeys(map(os.path.realpath, filter(None, (*roots, home, _account_home()))))
    system = [os.path.realpath(folder) for folder in PROGRAM_FOLDERS[:3]]
    return tuple(path for path in reals if not any(is_below(each, path) for each in system))


@cache
def _account_home() -> str:
    """Return the home folder of the account, whatever HOME says; "" if it is unknown."""
    # Not with `pwd`, which may ask a server.
    with contextlib.suppress(OSError):
        for line in os.fsdecode(Path("/etc/passwd").read_bytes()).split("\n"):
            fields = line.split(":")
            if len(fields) > 5 and fields[2] == str(os.geteuid()):
                return fields[5]
    return ""


def search_path(path: str, closed: Sequence[str]) -> str:
    """Return the folders of `PATH` that are in none of the folders `closed`; never empty."""
    allowed = [
        folder
        for folder in path.split(os.pathsep)
        if os.path.isabs(folder) and not is_below_any(os.path.realpath(folder), closed)
    ]
    return os.pathsep.join(allowed or USUAL_PATH)


def program_problem(name: str, path: str, closed: tuple[str, ...]) -> str:
    """Return why `name` must not be started without a question; "" also if it is not found."""
    found = shutil.which(name, path=_remembered_path(path, closed))
    if found is not None and not is_below_any(os.path.realpath(found), closed):
        return ""
    found = found or shutil.which(name, path=path)
    if found is None or not os.path.isabs(found):
        return ""
    return f"`{name}` is {found}, and programs in the workspace or your home folder can do anything"


# Cached for judging only, where it would cost more than everything else. If a folder of PATH
# becomes a link into the workspace later, the kernel still executes nothing there.
_remembered_path = lru_cache(maxsize=16)(search_path)


remembered_closed_folders = lru_cache(maxsize=16)(closed_folders)
"""Does the same as `closed_folders`, for folders that are physical already."""


def find_program(
    name: str, *, path: str | None = None, outside: Sequence[str] | None = None
) -> str | None:
    """Return the first program `name` on `path` (None: PATH) that is `outside` of these folders.

    Neither its path nor a link on the way may enter one of them: a file there would choose the
    program. Relative entries of the path are skipped. `outside` None means `project_folders()`.
    """
    if outside is None:
        try:
            outside = project_folders()
        except FileNotFoundError:  # the working directory was deleted, so it contains no program
            outside = ()
    folders = [os.path.realpath(each) for each in outside]
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    for folder in searched.split(os.pathsep):
        program = os.path.join(folder, name)
        if not os.path.isabs(folder) or any(is_below_any(s, folders) for s in _steps(program)):
            continue
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return None


def find_inside(name: str) -> str | None:
    """Return the program `name` on PATH if it is only found in the project, else None."""
    return find_program(name, outside=()) if find_program(name) is None else None


def why_not_found(name: str) -> str:
    """Return why `find_program` found nothing, as the end of a sentence."""
    inside = find_inside(name)
    where = f"the only one on the PATH is in the project, {inside}"
    return where if inside else "it is not on the PATH"


def program_of_person(name: str) -> str:
    """Return the program that the user named, if not in the project. Raises ProcessError."""
    if "/" in name:
        return name
    found = find_program(name)
    if found is None:
        hint = "Install it, or give its full path."
        raise ProcessError(f"{name} cannot be started: {why_not_found(name)}.", hint=hint)
    return found


def project_folders(start: str | None = None) -> list[str]:
    """Return the working directory and the repository around it, unless they contain the home."""
    real = os.path.realpath(start or os.getcwd())
    home = os.path.realpath(os.path.expanduser("~"))
    repositories = (each for each in upwards(real) if os.path.lexists(os.path.join(each, ".git")))
    return [each for each in (real, *repositories) if not is_below(home, each)]


def _steps(path: str) -> Iterator[str]:
    """Yield every path that is visited on the way to an absolute path, through all its links."""
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
    """The result of a program."""

    code: int
    """Its exit code."""
    out: bytes = b""
    """Its stdout; empty unless it was read."""
    err: bytes = b""
    """Its stderr; empty unless it was read."""

    @property
    def last_words(self) -> str:
        """Return the last line of its stderr, or its exit code."""
        lines = self.err.decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else f"it ended with {self.code}"


def run_program(
    arguments: Sequence[str], *, input_bytes: bytes = b"", limit_s: float, reads: bool = True
) -> ProgramResult:
    """Run one of the user's programs, see `find_program`, with dirge's environment, to its end.

    `reads=False` is for programs that leave a child behind, which would keep the output pipe open.
    Raises ProcessError if it cannot be started, or took longer than `limit_s` and was killed.
    """
    name, output = arguments[0], subprocess.PIPE if reads else subprocess.DEVNULL
    found = find_program(name)
    if found is None:
        raise ProcessError(f"{name} cannot be started: {why_not_found(name)}.")
    try:
        ended = subprocess.run(
            [found, *arguments[1:]],
            input=input_bytes,
            stdout=output,
            stderr=output,
            timeout=limit_s,
            check=False,
            # Not in its own session: a child (such as that of `wl-copy`, which keeps the copied
            # data) would count as an orphan of a running command.
            process_group=0,
        )
    except subprocess.TimeoutExpired as error:
        raise ProcessError(f"{name} did not end within {limit_s:g} s.") from error
    except OSError as error:
        raise ProcessError(f"{name} cannot be started: {error.strerror}.") from error
    return ProgramResult(ended.returncode, ended.stdout or b"", ended.stderr or b"")


def start_detached(arguments: Sequence[str], *, cwd: Path, ended: Callable[[int], object]) -> None:
    """Start a program with dirge's environment, but without its terminal, and do not wait for it.

    It outlives dirge. While dirge runs, `ended` gets its exit code, on the running event loop.
    Raises ProcessError if it cannot be started.
    """
    try:
        # Its own group protects it from Ctrl+C. In its own session it would count as an orphan of
        # a running command.
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
        with contextlib.suppress(RuntimeError):  # The loop is closed: dirge is ending.
            loop.call_soon_threadsafe(ended, code)

    threading.Thread(target=wait, name="detached", daemon=True).start()


async def run_in_foreground(arguments: Sequence[str], *, cwd: str | None = None) -> int:
    """Run a program with dirge's own terminal and environment; return its exit code.

    Ctrl+C reaches dirge, too: the caller has to ignore it. Raises ProcessError if the program
    cannot be started.
    """
    try:
        found = program_of_person(arguments[0])
        program = await asyncio.create_subprocess_exec(found, *arguments[1:], cwd=cwd)
    except OSError as error:
        text = f"{arguments[0]} cannot be started: {error.strerror}."
        raise ProcessError(text, hint="Set VISUAL or EDITOR to your editor.") from error
    try:
        return await program.wait()
    except asyncio.CancelledError:
        program.terminate()
        raise
