"""The Landlock sandbox, for machines without user namespaces.

A command keeps its view of the machine, but may open only allowed places. Rules can only allow,
and a rule for a folder applies to everything in it, including new files. So nothing new can be
created next to a guarded `.git`: the entries of such a folder are allowed one by one.
"""

import json
import os
import platform
import sys
from collections.abc import Iterator

from dirge_py.lib.paths import is_below, is_below_any
from dirge_py.lib.temporary_folder import TemporaryFolder
from dirge_py.processes.sandbox import landlock_exec
from dirge_py.processes.sandbox.mount_plan import MountEffect, MountPlan, plan_mounts
from dirge_py.processes.sandbox.profile import LaunchSpec, SandboxProfile, lowered_limits
from dirge_py.processes.sandbox.seccomp import filter_program

LIMITS = (
    "Other processes and the names of hidden files can be seen, and permissions of your files "
    "changed. Files directly in the workspace folder cannot be created, renamed or removed, only "
    "those in folders below it. There are no terminals (pty), and without the network no sockets "
    "at all, not even to itself. A command that may write to `.git` may also change its hooks."
)
_SIGNALS = " Commands can send signals to your other processes."

_OPEN_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LEVEL: dict[MountEffect, int] = {"hide": 0, "mask": 0, "show": 1, "guard": 1, "write": 2, "pin": 2}
_SCOPED_SIGNALS_ABI = 6


def reason_against() -> str:
    """Return why Landlock cannot be used here; "" if it can be tried."""
    if filter_program(sockets=False) is None:
        return f"sockets cannot be closed on {platform.machine()}"
    version, lowest = landlock_exec.abi(), landlock_exec.LOWEST_ABI
    if version == 0:
        return "the kernel has no Landlock, or it is switched off"
    is_old = version < lowest
    return f"the kernel's Landlock is too old (ABI {version}, needed {lowest})" if is_old else ""


def limits_here() -> str:
    """Return what Landlock cannot do on this machine."""
    return LIMITS + ("" if landlock_exec.abi() >= _SCOPED_SIGNALS_ABI else _SIGNALS)


class Landlock:
    """A launcher. Close it when no command runs any more."""

    def __init__(self, profile: SandboxProfile) -> None:
        """`profile` is physical."""
        self._profile = profile
        self._tmp = TemporaryFolder("sandbox")

    def __call__(self, arguments: list[str], spec: LaunchSpec) -> list[str]:
        """Return the argument list that runs `arguments` inside. Raises as `plan_mounts`."""
        places = plan_mounts(self._profile, spec)
        if "git" in spec.permits:
            # Landlock cannot exclude the `hooks` of a repository that git may write to.
            opened = [path for path, effect in places.items() if effect == "write"]
            for path in [path for path, effect in places.items() if effect == "guard"]:
                if is_below_any(path, opened) and os.path.basename(path) != ".dirge":
                    del places[path]
        has_network = self._profile.network or "network" in spec.permits
        # Otherwise root could read the disk itself there.
        places |= {"/dev": "hide", self._tmp.path: "write"}
        places |= dict.fromkeys((f"/dev/{name}" for name in _OPEN_DEVICES), "write")
        settings = {
            "rules": list(rules_of(places)),
            "filter": (filter_program(sockets=has_network, ipc=False) or b"").hex(),
            "limits": lowered_limits(),
            "tmp": self._tmp.path,
        }
        program = [sys.executable, "-I", "-S", landlock_exec.__file__]
        return [*program, json.dumps(settings), "--", *arguments]

    def close(self) -> None:
        """Remove the folder for temporary files, with its contents."""
        self._tmp.remove()


def rules_of(places: MountPlan) -> Iterator[tuple[str, MountEffect]]:
    """Yield the rules that allow what `places` allows, and nothing that it denies further down."""
    yield from _rules("/", places["/"], places)


def _rules(path: str, effect: MountEffect, places: MountPlan) -> Iterator[tuple[str, MountEffect]]:
    level = _LEVEL[effect]
    inner = [each for each in places if each != path and is_below(each, path)]
    lowest = min((_LEVEL[places[each]] for each in inner), default=level)
    if lowest < level:
        if lowest:
            yield path, "show"
        try:
            # Links are skipped: their targets are allowed, or not, at their own place.
            names = sorted(entry.name for entry in os.scandir(path) if not entry.is_symlink())
        except OSError:
            names = []
        for name in names:
            child = os.path.join(path, name)
            yield from _rules(child, places.get(child, effect), places)
        return
    if level:
        yield path, "write" if level == _LEVEL["write"] else "show"
    for each in inner:
        if not is_below_any(each, [other for other in inner if other != each]):
            yield from _rules(each, places[each], places)
