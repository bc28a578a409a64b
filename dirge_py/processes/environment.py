"""The environment of the commands we start: an allow-list, never ours minus something."""

import os
import re
from collections.abc import Iterable, Mapping

from dirge_py.processes.editors import SCRIPT_NAME, UNATTENDED
from dirge_py.processes.git_environment import HARMLESS, hardened

MARKER_NAME = "DIRGE_CALL"
"""Carried by every process of one command, so that it is found again after it left its parent."""

# Spelled out, not `LC_*`: a prefix would also carry whatever somebody hides behind it.
_LOCALE = [
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
]

PASSED_ON = frozenset(
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "VIRTUAL_ENV", *_LOCALE]
)

OF_A_PERSON = frozenset(
    [
        "COLORTERM",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "MANPAGER",
        "LESS",
        "SSH_AUTH_SOCK",
        "GPG_TTY",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "XDG_SESSION_TYPE",
        "DBUS_SESSION_BUS_ADDRESS",
        "WSL_INTEROP",
        "WSL_DISTRO_NAME",
    ]
)
"""What a command gets besides, if a person typed it: their desktop, their editor, their pager."""

_NEVER_PASSED = re.compile(
    r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|PROMPT_COMMAND|PS4|IFS|CDPATH|GLOBIGNORE"
    r"|LD_.*|DYLD_.*|GIT_.*|GREP_.*|.*PAGER|LESSOPEN|LESSCLOSE|.*EDITOR|VISUAL|FCEDIT"
    rf"|RIPGREP_CONFIG_PATH|PYTHONSTARTUP|NODE_OPTIONS|{SCRIPT_NAME}|{MARKER_NAME}",
    re.DOTALL,
)
"""What changes the meaning of a command that was judged by its words, or has programs started."""


def may_be_passed(name: str) -> bool:
    """Whether a variable of this name can be handed to commands at all."""
    return name in HARMLESS or not _NEVER_PASSED.fullmatch(name)


class EnvironmentPolicy:
    """Which variables commands get: `PASSED_ON` and what the user listed, less what is withheld.

    `withheld` are the variables that hold keys; they stay here even when listed, and so do those
    that `may_be_passed` does not let through, named in `refused`. `source` is where values come
    from, read anew for every command; None means this process's environment.
    """

    def __init__(
        self,
        listed: Iterable[str] = (),
        *,
        withheld: Iterable[str] = (),
        source: Mapping[str, str] | None = None,
    ) -> None:
        listed = set(listed)
        self.refused = tuple(sorted(name for name in listed if not may_be_passed(name)))
        self.names = (PASSED_ON | listed) - set(withheld) - set(self.refused)
        self._names_for_person = self.names | (OF_A_PERSON - set(withheld))
        self._source = os.environ if source is None else source

    def build(self, marker: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The whole environment of one command; `extra` wins over everything but the marker."""
        source = self._source
        passed_on = {name: source[name] for name in sorted(self.names) if name in source}
        passed_on["PATH"] = absolute_only(passed_on.get("PATH", ""))
        return {**passed_on, **UNATTENDED, **hardened(extra or {}), MARKER_NAME: marker}

    def build_for_person(self, marker: str) -> dict[str, str]:
        """The environment of a command that a person typed: they are there, and judged it."""
        source = self._source
        passed_on = {n: source[n] for n in sorted(self._names_for_person) if n in source}
        passed_on["PATH"] = absolute_only(passed_on.get("PATH", ""))
        return {**passed_on, MARKER_NAME: marker}


def absolute_only(path: str) -> str:
    """`path` without relative entries: in those a repository could offer its own `git`."""
    entries = [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]
    return os.pathsep.join(entries) or os.defpath
