"""How Landlock, bubblewrap and seatbelt implement the read-only profile.

Landlock comes first, even if the kernel's version is too old for a whole sandbox: the system call
filter closes the gaps. It restricts a thread that then starts the command, so it needs no extra
process. The others need one, and bubblewrap cannot prevent files from being executed.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial

from dirge_py.lib.paths import is_below
from dirge_py.processes.programs import PROGRAM_FOLDERS, search_path
from dirge_py.processes.sandbox import bubblewrap, landlock, landlock_exec, seatbelt
from dirge_py.processes.sandbox.mount_plan import MountPlan, plan_mounts
from dirge_py.processes.sandbox.probe import problem_of
from dirge_py.processes.sandbox.profile import (
    Kind,
    LaunchSpec,
    Mechanism,
    RestrictedStart,
    SandboxProfile,
)
from dirge_py.processes.sandbox.seccomp import filter_program

NO_EXECUTE = "files in the workspace can be executed"
"""What bubblewrap's profile does not prevent."""

_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2  # root reads everybody's files, as without the profile
_PROBE_PATH = "/usr/bin:/bin:/run/current-system/sw/bin"

_Rules = Sequence[tuple[str, str]]


def find_mechanism() -> Mechanism:
    """Return the first mechanism that works in a test."""
    true = shutil.which("true", path=_PROBE_PATH) or "/bin/true"
    if sys.platform == "darwin":
        problem = _problem(_seatbelt([true], "/var/empty", ()))
        why = f"sandbox-exec does not work: {problem}"
        return Mechanism(None, why) if problem else Mechanism("seatbelt")
    if sys.platform != "linux":
        return Mechanism(None, "this operating system is not supported")
    first = ""
    if not _call_filter() or landlock_exec.abi() == 0:
        first = landlock.reason_against()
    try:
        if not first:
            with ThreadPoolExecutor(1, "dirge-landlock-probe") as thread:
                thread.submit(_restrict_thread, [("/", "read")], _call_filter()).result()
            return Mechanism("landlock")
    except OSError as error:
        first = f"Landlock does not work: {error.filename}: {error.strerror}"
    program = _bubblewrap_program()
    if program is None:
        return Mechanism(None, f"{first}, and bubblewrap is not installed")
    problem = _problem(_bubblewrapped([true], {"/": "show"}, "/"))
    why = f"{first}, and {program} does not work: {problem}"
    return Mechanism(None, why) if problem else Mechanism("bubblewrap", NO_EXECUTE)


def restricted_start(
    kind: Kind,
    arguments: Sequence[str],
    profile: SandboxProfile | None,
    closed: tuple[str, ...],
    spec: LaunchSpec,
    tmp: str,
) -> RestrictedStart:
    """Return how to start `arguments`, which may write only to `tmp`. Raises as `plan_mounts`."""
    restrict = None
    if kind == "seatbelt":
        started = _seatbelt(arguments, tmp, closed)
    elif kind == "bubblewrap":
        places = _places(profile, spec) | {tmp: "write"}
        started = _bubblewrapped(arguments, places, os.path.realpath(spec.cwd))
    else:
        started = list(arguments)
        rules = [
            *((path, "read") for path, _effect in landlock.rules_of(_places(profile, spec))),
            *((path, "execute") for path in _executable(closed, spec.environment.get("PATH", ""))),
            (tmp, "scratch"),
            ("/dev/null", "write"),
        ]
        restrict = partial(_restrict_thread, rules, _call_filter())
    return RestrictedStart(arguments=started, environment={"TMPDIR": tmp}, restrict=restrict)


def _places(profile: SandboxProfile | None, spec: LaunchSpec) -> MountPlan:
    """Return what may be read: everything, or what the sandbox shows."""
    if profile is None:
        return {"/": "show"}
    return {
        path: effect if effect in ("hide", "mask") else "show"
        for path, effect in plan_mounts(profile, spec).items()
    }


def _restrict_thread(rules: _Rules, call_filter: bytes) -> None:
    if os.geteuid() == 0:
        landlock_exec.drop_capabilities(kept=(_DAC_OVERRIDE, _DAC_READ_SEARCH))
    ruleset = landlock_exec.make_ruleset(rules)
    try:
        landlock_exec.restrict_thread(ruleset, call_filter)
    finally:
        os.close(ruleset)


@lru_cache(maxsize=1)
def _call_filter() -> bytes:
    return filter_program(sockets=False, ipc=False, metadata=False) or b""


@lru_cache(maxsize=16)
def _executable(closed: tuple[str, ...], path: str) -> tuple[str, ...]:
    """Return the folders of programs, and further ones in `path`, without closed ones."""
    places: MountPlan = {"/": "hide"}
    for folder in (*PROGRAM_FOLDERS, *_prefixes(path, closed)):
        real = os.path.realpath(folder)
        if os.path.isdir(real):
            places[real] = "show"
    places |= dict.fromkeys(closed, "hide")
    return tuple(path for path, _effect in landlock.rules_of(places))


def _prefixes(path: str, closed: Sequence[str]) -> Iterator[str]:
    """Yield the installation folders of `path`'s programs: `/data/tools` for `…/tools/bin`."""
    for folder in search_path(path, closed).split(os.pathsep):
        real = os.path.realpath(folder)
        above = os.path.dirname(real)
        is_prefix = os.path.basename(real) == "bin" and above != "/"
        holds_closed = any(is_below(each, above) for each in closed)
        yield above if is_prefix and not holds_closed else real


def _problem(arguments: Sequence[str]) -> str:
    return problem_of(arguments, cwd="/", environment={"PATH": os.defpath})


def _bubblewrap_program() -> str | None:
    return next((path for path in bubblewrap.PROGRAMS if os.access(path, os.X_OK)), None)


def _bubblewrapped(arguments: Sequence[str], places: MountPlan, cwd: str) -> list[str]:
    inside = bubblewrap.mount_arguments(places, ensure=lambda path: path, has_network=False)
    program = _bubblewrap_program() or bubblewrap.PROGRAMS[0]
    filter_path = bubblewrap.filter_source(_call_filter() or None)
    setup = bubblewrap.BubblewrapSetup(program=program, filter_path=filter_path)
    return bubblewrap.wrapped(arguments, [*inside, "--chdir", cwd], setup)


def _seatbelt(arguments: Sequence[str], tmp: str, closed: Sequence[str]) -> list[str]:
    return [seatbelt.PROGRAM, "-p", seatbelt.read_only_profile(tmp, closed), *arguments]
