"""The macOS sandbox: the profile for `sandbox-exec`."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from dirge_py.processes.sandbox.mount_plan import MountEffect, MountPlan, ordered, plan_mounts
from dirge_py.processes.sandbox.profile import LaunchSpec, SandboxProfile, limits_as_shell

PROGRAM = "/usr/bin/sandbox-exec"

LIMITS = "Other processes can be seen, and the folders for temporary files are shared with them."

_TEMPORARY = ("/private/tmp", "/private/var/tmp", "/private/var/folders")
_DEVICES = ("null", "zero", "random", "urandom", "tty", "dtracehelper")
_SERVICES = (
    "system.opendirectoryd.libinfo", "system.opendirectoryd.membership", "system.logger", "logd",
    "system.notification_center", "bsd.dirhelper", "SystemConfiguration.configd",
)  # fmt: skip
_FOR_NETWORK = ("dnssd.service", "trustd.agent", "networkd")

_ALLOWED = Path(__file__).with_name("seatbelt.sb").read_text(encoding="utf-8").rstrip("\n")


class Seatbelt:
    """Launches commands in seatbelt."""

    def __init__(self, profile: SandboxProfile) -> None:
        """`profile` is physical."""
        self._profile = profile

    def __call__(self, arguments: list[str], spec: LaunchSpec) -> list[str]:
        """Return the argument list that runs `arguments` inside. Raises as `plan_mounts`."""
        has_network = self._profile.network or "network" in spec.permits
        text = seatbelt_profile(plan_mounts(self._profile, spec), has_network=has_network)
        script = f'{limits_as_shell()}exec "$@"'
        bash = ["/bin/bash", "--norc", "--noprofile", "-p", "-c", script, "sandbox"]
        return [*bash, PROGRAM, "-p", text, *arguments]


def seatbelt_profile(places: MountPlan, *, has_network: bool) -> str:
    """Return the profile; of two statements about a path the later one applies."""
    statements = [_ALLOWED, *_services(_SERVICES)]
    statements += [f"(allow file-write* (subpath {_quoted(path)}))" for path in _TEMPORARY]
    statements += [f'(allow file-write* (literal "/dev/{name}"))' for name in _DEVICES]
    for path, effect in ordered(places):
        if path != "/" and not path.startswith(("/tmp", "/var/tmp")):
            statements += _about(path, effect)
    if has_network:
        statements += ["(allow network*)", *_services(_FOR_NETWORK)]
    else:
        statements += [
            "(deny network*)",
            '(allow network-bind network-inbound (local ip "localhost:*"))',
            '(allow network-outbound (remote ip "localhost:*"))',
        ]
    return "\n".join(statements) + "\n"


def read_only_profile(tmp: str, closed: Sequence[str]) -> str:
    """Return the profile of a read-only command: see `read_only.py`."""
    statements = [_ALLOWED, *_services(_SERVICES)]
    statements += [f"(deny process-exec (subpath {_quoted(path)}))" for path in closed]
    statements.append(f"(allow file-write* (subpath {_quoted(tmp)}))")
    statements.append('(allow file-write* (literal "/dev/null"))')
    return "\n".join([*statements, "(deny network*)\n"])


def _about(path: str, effect: MountEffect) -> Iterator[str]:
    place = f"(subpath {_quoted(path)})"
    if effect == "hide":
        yield f"(deny file-read* file-write* {place})"
        # Otherwise no program could determine its own folder, if the path to it leads through here.
        yield f"(allow file-read-metadata {place})"
    elif effect == "mask":
        yield f"(deny file-read* file-write* network-outbound (literal {_quoted(path)}))"
    elif effect == "write":
        yield f"(allow file-read* file-write* {place})"
    elif effect == "pin":
        yield f"(deny file-write-unlink (literal {_quoted(path)}))"
    else:
        yield f"(allow file-read* {place})"
        yield f"(deny file-write* {place})"


def _services(names: tuple[str, ...]) -> list[str]:
    return [f'(allow mach-lookup (global-name "com.apple.{name}"))' for name in names]


def _quoted(text: str) -> str:
    """Return a string in the profile's language: JSON with unescaped non-ASCII characters."""
    return json.dumps(os.fsdecode(os.fsencode(text)), ensure_ascii=False)
