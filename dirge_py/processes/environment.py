"""The environment of the commands we start: an allow-list, never ours minus something."""

import os
from collections.abc import Iterable, Mapping

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

# A command has no terminal: a pager or a password prompt would wait for nobody.
_ALWAYS_SET = {
    "GIT_TERMINAL_PROMPT": "0",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
}


class EnvironmentPolicy:
    """Which variables commands get: `PASSED_ON` and what the user listed, less what is withheld.

    `withheld` are the variables that hold keys; they stay here even when listed. `source` is
    where values come from, read anew for every command; None means this process's environment.
    """

    def __init__(
        self,
        listed: Iterable[str] = (),
        *,
        withheld: Iterable[str] = (),
        source: Mapping[str, str] | None = None,
    ) -> None:
        self.names = (PASSED_ON | set(listed)) - set(withheld)
        self._source = os.environ if source is None else source

    def build(self, marker: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The whole environment of one command; `extra` wins over everything but the marker."""
        source = self._source
        passed_on = {name: source[name] for name in sorted(self.names) if name in source}
        passed_on["PATH"] = _absolute_only(passed_on.get("PATH", ""))
        return {**passed_on, **_ALWAYS_SET, **(extra or {}), MARKER_NAME: marker}


def _absolute_only(path: str) -> str:
    """`path` without relative entries: in those a repository could offer its own `git`."""
    entries = [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]
    return os.pathsep.join(entries) or os.defpath
