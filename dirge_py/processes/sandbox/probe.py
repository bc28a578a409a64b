"""Finds a sandbox that works on this machine, by running a command in it."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.programs import ProgramResult
from dirge_py.processes.sandbox import bubblewrap, landlock, seatbelt
from dirge_py.processes.sandbox.bubblewrap import Bubblewrap
from dirge_py.processes.sandbox.landlock import Landlock
from dirge_py.processes.sandbox.mount_plan import physical_profile, read_small
from dirge_py.processes.sandbox.profile import (
    Kind,
    Launcher,
    LaunchSpec,
    NoSandbox,
    Sandbox,
    SandboxProfile,
)
from dirge_py.processes.sandbox.proxy import HostList
from dirge_py.processes.sandbox.seatbelt import Seatbelt
from dirge_py.types.errors import ProcessError

_NO_HOSTS = " `[sandbox] hosts` cannot be reached: only bubblewrap supports that."
_PROBE_LIMIT_S = 5.0
_TRUE = ("/bin/true", "/usr/bin/true", "/run/current-system/sw/bin/true")

_INSTALL = "Install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`)."
_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_DEBIAN = "/proc/sys/kernel/unprivileged_userns_clone"
_MOST = "/proc/sys/user/max_user_namespaces"


def find_sandbox(
    profile: SandboxProfile, *, programs: Sequence[str] = bubblewrap.PROGRAMS
) -> Sandbox | NoSandbox:
    """Return the best sandbox that works in a test: bubblewrap, else Landlock, else seatbelt.

    Each is tested by running a command in its whole profile. `programs` are the paths of bubblewrap
    to try. Nothing is cached: what worked at the last start may not work now.
    """
    try:
        profile = physical_profile(profile)
        HostList(profile.hosts)
    except ProcessError as unfit:
        return NoSandbox(unfit.message.removesuffix("."), unfit.hint)
    except ValueError as error:
        return NoSandbox(f"{str(error)!r} is not a host", "Correct it in `[sandbox] hosts`.")
    if sys.platform == "darwin":
        limits = seatbelt.LIMITS + _NO_HOSTS * bool(profile.hosts)
        tested = _test("seatbelt", Seatbelt(profile), profile, limits=limits)
        if isinstance(tested, Sandbox):
            return tested
        return NoSandbox(f"{seatbelt.PROGRAM} does not work: {tested}", "Use `--sandbox off`.")
    if sys.platform != "linux":
        return NoSandbox("there is no sandbox for this system", "Use `--sandbox off`.")
    program = next((path for path in programs if os.access(path, os.X_OK)), None)
    first = _with_bubblewrap(profile, program) if program else "bubblewrap is not installed"
    if isinstance(first, Sandbox):
        return first
    second = landlock.reason_against()
    if not second:
        launcher = Landlock(profile)
        limits = landlock.limits_here() + _NO_HOSTS * bool(profile.hosts)
        tested = _test("landlock", launcher, profile, limits=limits, close=launcher.close)
        if isinstance(tested, Sandbox):
            return tested
        second = f"Landlock does not work: {tested}"
    return NoSandbox(f"{first}; and {second}", fix_namespaces() if program else _INSTALL)


def _with_bubblewrap(profile: SandboxProfile, program: str) -> Sandbox | str:
    """Return the sandbox, or why it does not work."""
    tested: Sandbox | str = ""
    for lets_end_gently in (True, False):
        launcher = Bubblewrap(profile, program, lets_end_gently=lets_end_gently)
        limits = "" if launcher.filters_calls else bubblewrap.NO_FILTER
        tested = _test("bubblewrap", launcher, profile, limits=limits, close=launcher.close)
        if isinstance(tested, Sandbox):
            launcher.tidy()
            return tested
        if "env:" not in tested:
            break
    return f"{program} does not work: {tested}"


def _test(
    kind: Kind,
    launcher: Launcher,
    profile: SandboxProfile,
    *,
    limits: str,
    close: Callable[[], None] = lambda: None,
) -> Sandbox | str:
    """Run `true` in the sandbox; return it, or close it and return why that failed, in one line."""
    program = next((path for path in _TRUE if os.path.exists(path)), _TRUE[0])
    environment = EnvironmentPolicy().build("probe")
    cwd = profile.roots[0] if profile.roots else "/"
    try:
        wrapped = launcher([program], LaunchSpec(cwd=cwd, environment=environment, call_id=""))
        problem = problem_of(wrapped, cwd=cwd, environment=environment)
    except ProcessError as error:
        problem = error.message
    if not problem:
        return Sandbox(kind=kind, launcher=launcher, profile=profile, limits=limits, close=close)
    close()
    return problem


def problem_of(arguments: Sequence[str], *, cwd: str, environment: Mapping[str, str]) -> str:
    """Run a short command; return "" if that worked, else its last line of output, or why not."""
    try:
        ended = subprocess.run(
            arguments,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {_PROBE_LIMIT_S:.0f} seconds"
    except OSError as error:
        return error.strerror or str(error)
    result = ProgramResult(ended.returncode, err=ended.stderr)
    return result.last_words if result.code else ""


def fix_namespaces(read: Callable[[str], str] = read_small) -> str:
    """Return how to let bubblewrap create its namespaces on this machine."""
    if read(_APPARMOR).strip() == "1":
        return (
            "Ubuntu keeps programs from making user namespaces. Give bubblewrap a profile: "
            "`sudo apt install apparmor-profiles && sudo ln -s "
            "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && "
            "sudo systemctl reload apparmor`. Or allow it for all programs: "
            "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`."
        )
    if read(_DEBIAN).strip() == "0":
        return "Allow user namespaces: `sudo sysctl kernel.unprivileged_userns_clone=1`."
    if read(_MOST).strip() == "0":
        return "Allow user namespaces: `sudo sysctl user.max_user_namespaces=15000`."
    return (
        "Let this process make user namespaces; in a container: start that with "
        "`--security-opt seccomp=unconfined`, or use `--sandbox off` and rely on the container."
    )
