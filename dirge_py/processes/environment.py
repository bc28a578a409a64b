"""The environment of commands: built from an allow-list, not from dirge's own minus something.

A command of the model also gets:

- a replacement for every editor, because the command has no terminal. It keeps a message that git
  prepared (a merge, a revert, `--amend`), and otherwise fails and says what to do;
- git settings that override the repository's files, so that a plain `git status` starts no program
  that the repository names. They do not affect ordinary use.
"""

import ctypes
import functools
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.shell_lexer import word_set

SCRIPT_NAME = "DIRGE_NO_EDITOR"
"""Contains the script, so that programs show a short name for the editor."""

_SCRIPT = Path(__file__).with_name("no_editor.sh").read_text(encoding="utf-8")
_EDITOR = f"""sh -c 'eval "${{{SCRIPT_NAME}:-exit 1}}"' no-editor"""

_EDITOR_NAMES = word_set(
    "EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GH_EDITOR HGEDITOR JJ_EDITOR KUBE_EDITOR "
    "SUDO_EDITOR SVN_EDITOR SYSTEMD_EDITOR"
)
_PAGER_NAMES = word_set(
    "PAGER MANPAGER AWS_PAGER BAT_PAGER DELTA_PAGER GH_PAGER GIT_PAGER PSQL_PAGER SYSTEMD_PAGER"
)

UNATTENDED: Mapping[str, str] = {
    SCRIPT_NAME: _SCRIPT,
    **dict.fromkeys(_EDITOR_NAMES, _EDITOR),
    **dict.fromkeys(_PAGER_NAMES, "cat"),
}
"""Variables for a command without a user: no editor and no pager waits for a key."""

MARKER_NAME = "DIRGE_CALL"
"""Set in every process of one command, so that it is found after it left its parent."""

# Listed in full, not as `LC_*`: a prefix would also pass on any other variable that starts with it.
PASSED_ON = word_set(
    "PATH HOME USER LOGNAME SHELL TERM TMPDIR TZ VIRTUAL_ENV LANG LANGUAGE LC_ALL LC_ADDRESS "
    "LC_COLLATE LC_CTYPE LC_IDENTIFICATION LC_MEASUREMENT LC_MESSAGES LC_MONETARY LC_NAME "
    "LC_NUMERIC LC_PAPER LC_TELEPHONE LC_TIME"
)

OF_A_PERSON = word_set(
    "COLORTERM EDITOR VISUAL PAGER MANPAGER LESS SSH_AUTH_SOCK GPG_TTY DISPLAY WAYLAND_DISPLAY "
    "XAUTHORITY XDG_RUNTIME_DIR XDG_SESSION_TYPE DBUS_SESSION_BUS_ADDRESS WSL_INTEROP "
    "WSL_DISTRO_NAME"
)
"""Additional variables for a command that the user typed: their desktop, editor and pager."""

_NEVER_PASSED = late_pattern(
    r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|PROMPT_COMMAND|PS4|IFS|CDPATH|GLOBIGNORE"
    r"|LD_.*|DYLD_.*|GIT_.*|GREP_.*|.*PAGER|LESSOPEN|LESSCLOSE|.*EDITOR|VISUAL|FCEDIT"
    rf"|RIPGREP_CONFIG_PATH|PYTHONSTARTUP|NODE_OPTIONS|{SCRIPT_NAME}|{MARKER_NAME}",
    re.DOTALL,
)
"""Variables that change the meaning of a command, or start programs."""

GIT_SETTINGS = (
    ("core.fsmonitor", "false"),
    ("safe.bareRepository", "explicit"),
    ("protocol.ext.allow", "never"),
)

GIT_VARIABLES: Mapping[str, str] = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
}

HARMLESS_GIT_VARIABLES = word_set(
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL "
    "GIT_COMMITTER_DATE GIT_CEILING_DIRECTORIES GIT_DISCOVERY_ACROSS_FILESYSTEM "
    "GIT_HTTP_LOW_SPEED_LIMIT GIT_HTTP_LOW_SPEED_TIME GIT_LFS_SKIP_SMUDGE GIT_MERGE_AUTOEDIT "
    "GIT_REFLOG_ACTION GIT_SSL_CAINFO"
)
"""Git variables that a user may pass on: they name no program and no other repository."""

_COUNT, _KEY, _VALUE = "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"
_PR_SET_DUMPABLE = 4  # linux/prctl.h


class EnvironmentPolicy:
    """Which variables commands get: `PASSED_ON` and those the user listed, except withheld ones.

    `withheld` are the variables that hold keys; they are never passed on, even when listed, nor are
    those that `may_be_passed` rejects, which are named in `refused`. `source` is where values come
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
        """Return the environment of one command; `extra` overrides all but the marker."""
        passed_on = self._passed_on(self.names)
        return {**passed_on, **UNATTENDED, **harden_git(extra or {}), MARKER_NAME: marker}

    def build_for_person(self, marker: str) -> dict[str, str]:
        """Return the environment of a command that the user typed and so judged themselves."""
        return {**self._passed_on(self._names_for_person), MARKER_NAME: marker}

    def _passed_on(self, names: Iterable[str]) -> dict[str, str]:
        values = {name: self._source[name] for name in sorted(names) if name in self._source}
        # Not its relative entries: there a repository could provide its own `git`.
        folders = filter(os.path.isabs, values.get("PATH", "").split(os.pathsep))
        return {**values, "PATH": os.pathsep.join(folders) or os.defpath}


def may_be_passed(name: str) -> bool:
    """Whether a variable of this name may be passed to commands at all."""
    return name in HARMLESS_GIT_VARIABLES or not _NEVER_PASSED.fullmatch(name)


def git_config_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return git settings as variables that override every settings file, since git 2.31."""
    numbered = {_COUNT: str(len(settings))}
    for number, (key, value) in enumerate(settings):
        numbered |= {f"{_KEY}{number}": key, f"{_VALUE}{number}": value}
    return numbered


def harden_git(extra: Mapping[str, str]) -> dict[str, str]:
    """Return `extra` with the settings that every git gets; those of `extra` win."""
    count = extra.get(_COUNT, "")
    numbers = range(int(count)) if count.isdecimal() else ()
    own = [(extra[f"{_KEY}{number}"], extra[f"{_VALUE}{number}"]) for number in numbers]
    # Of two values for one key git uses the later one.
    return {**GIT_VARIABLES, **extra, **git_config_variables((*GIT_SETTINGS, *own))}


@functools.cache
def block_inspection() -> bool:
    """Keep commands (not root's) from inspecting dirge in /proc; return whether that worked."""
    return set_process_option(_PR_SET_DUMPABLE, 0)


def set_process_option(option: int, value: int) -> bool:
    """Call `prctl` for this process; return whether it succeeded, always False outside Linux."""
    if sys.platform != "linux":
        return False
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
