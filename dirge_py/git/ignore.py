"""Ignore rules: the project's, the user's and dirge's, and which paths they exclude."""

import contextlib
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from dirge_py.git.repository import GitFolders
from dirge_py.git.runner import Git, GitFailed

_READ_S = 10.0
OWN_FILE = re.compile(r"\.dirge-[0-9a-f]{16}\.(tmp|new|old)")
"""The name of a file that dirge hasn't finished writing."""


async def personal_excludes(git: Git, folders: GitFolders | None, scratch: Path) -> Path:
    """The user's file of rules for all repositories: `core.excludesFile`, or git's default.

    `git config` doesn't run programs that settings name, so it may read the user's settings.
    """
    home = os.environ.get("HOME", "")
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    query = ("config", "--includes", "--type=path", "--get", "core.excludesFile")
    variables = {"GIT_CONFIG_NOSYSTEM": "0", "GIT_CONFIG_COUNT": "0", "XDG_CONFIG_HOME": base}
    # An empty value would name no file at all, instead of the default ones.
    line = f"unset GIT_CONFIG_GLOBAL; {git.command(*query, stdout=scratch)}"
    store = folders.git_dir if folders is not None else None
    named = ""
    with contextlib.suppress(GitFailed, OSError):
        await git.run(line, store=store, timeout_s=_READ_S, extra=variables)
        named = os.fsdecode(scratch.read_bytes()).strip("\n")
    return Path(git.root, named or os.path.join(base, "git", "ignore"))


def ignore_options(*, own_folder: str, files: Sequence[Path | None]) -> list[str]:
    """The options of `git ls-files` for all rules. Later `files` override earlier ones.

    `own_folder` is dirge's state folder relative to the project, "" if it is elsewhere.
    """
    options = ["--exclude-per-directory=.gitignore"]
    options += [f"--exclude-from={file}" for file in files if file is not None and _is_file(file)]
    options.append("--exclude=.dirge")
    if own_folder:
        options.append(f"--exclude=/{escape_rule(own_folder)}")
    return options


def escape_rule(path: str) -> str:
    """A path as a line of ignore rules that means just that path."""
    return re.sub(r"([\\*?\[\]! ])", r"\\\1", path)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode) and os.access(path, os.R_OK)
    except (OSError, ValueError):
        return False
