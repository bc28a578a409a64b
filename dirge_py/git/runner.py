"""Runs git for dirge, on dirge's own repository, with the ignore rules of the project and the user.

Settings, hooks and attributes of the project or of the user don't apply: git reads the settings
below and those of dirge's repository. Repository, work tree and index are always named, so git
doesn't search for them. Results are written to files; other output is for error messages.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from dirge_py.git.repository import GitFolders
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import EnvironmentPolicy, git_config_variables
from dirge_py.processes.programs import find_program
from dirge_py.processes.runner import Runner
from dirge_py.types.errors import ProcessError

ATTRIBUTES = "* -text -eol -crlf -filter -ident -working-tree-encoding !diff -merge !export-subst\n"
"""The content of `info/attributes`, which overrides `.gitattributes`: no content is converted."""
DURABLE = (("core.fsync", "loose-object,reference"),)
"""Settings for `Git.run` with which written objects and refs survive a power failure."""
_SETTINGS = (
    ("core.fileMode", "true"),
    ("core.symlinks", "true"),
    ("core.ignoreCase", "false"),
    ("core.precomposeUnicode", "false"),
    ("core.protectNTFS", "false"),
    ("core.protectHFS", "false"),
    ("core.autocrlf", "false"),
    ("core.eol", "lf"),
    ("core.safecrlf", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.hooksPath", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.sparseCheckout", "false"),
    ("core.logAllRefUpdates", "false"),
    ("core.looseCompression", "1"),
    ("core.quotePath", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("pack.threads", "1"),
    ("diff.external", ""),
)
_VARIABLES: Mapping[str, str] = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_DEFAULT_HASH": "sha1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ADVICE": "0",
    "GIT_AUTHOR_NAME": "dirge",
    "GIT_AUTHOR_EMAIL": "dirge@localhost",
    "GIT_COMMITTER_NAME": "dirge",
    "GIT_COMMITTER_EMAIL": "dirge@localhost",
}
_DISK_FULL = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "File too large",
    "File size limit exceeded",
    "write failure on standard output",
)


class GitFailed(Exception):
    """A git command failed, or took too long; the text is its output."""

    def __init__(self, text: str, *, timed_out: bool = False) -> None:
        super().__init__(text)
        self.timed_out = timed_out

    @property
    def is_disk_full(self) -> bool:
        """Whether the command could not write."""
        return any(words in str(self) for words in _DISK_FULL)

    @property
    def is_inconclusive(self) -> bool:
        """Whether the failure says nothing about the repository: git could not finish."""
        return self.timed_out or self.is_disk_full


def find_git(path: str, root: str) -> str:
    """The git program on the search path `path`; "" if there is none outside of `root`."""
    return find_program("git", path=path, outside=[root]) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """Runs git for one project."""

    program: str
    """The path of the git program; "" if there is none."""
    path: str
    """The search path that git gets."""
    root: str
    """The work tree."""
    runner: Runner = field(default_factory=lambda: Runner(EnvironmentPolicy()))
    """Starts the commands, without a sandbox: git only reads the work tree."""

    def command(
        self, *arguments: str | Path, stdin: Path | None = None, stdout: Path | None = None
    ) -> str:
        """The shell words of one git command that reads from and writes to files."""
        line = shlex.join([self.program, *map(str, arguments)])
        if stdin is not None:
            line += f" <{shlex.quote(str(stdin))}"
        if stdout is not None:
            line += f" >{shlex.quote(str(stdout))}"
        return line

    async def run(
        self,
        *commands: str,
        store: Path | None,
        timeout_s: float,
        index: Path | None = None,
        alternates: Sequence[Path] = (),
        settings: Sequence[tuple[str, str]] = (),
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """Run commands one after the other on the repository `store`, until one fails.

        They have a work tree only with an `index`. `alternates` are further repositories to read
        objects from. `settings` and the variables `extra` override those of every run.

        Raises GitFailed: a command failed, or together they took longer than `timeout_s`.
        """
        numbered = git_config_variables((*_SETTINGS, *settings))
        variables = {**_VARIABLES, **numbered, "PATH": self.path, **(extra or {})}
        if store is not None:
            variables["GIT_DIR"] = str(store)
        if index is not None:
            variables |= {"GIT_WORK_TREE": self.root, "GIT_INDEX_FILE": str(index)}
        if alternates:
            folders = [f'"{folder}/objects"' for folder in alternates]
            variables["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(folders)
        cwd = self.root if index is not None or store is None else str(store)
        if timeout_s <= 0:
            raise GitFailed("git ran out of time.", timed_out=True)
        try:
            finished = await self.runner.run(
                "set -o pipefail; " + " && ".join(commands),
                cwd=cwd,
                timeout_s=timeout_s,
                extra_env=variables,
            )
        except ProcessError as error:
            raise GitFailed(error.message) from error
        if finished.exit_code != 0:
            output = finished.output.head.decode(errors="replace").strip()
            how = "was ended after a time" if finished.timed_out else "failed"
            raise GitFailed(output or f"git {how}.", timed_out=finished.timed_out)


_READ_S = 10.0
OWN_FILE = late_pattern(r"\.dirge-[0-9a-f]{16}\.(tmp|new|old)")
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
    readable = [
        file for file in files if file and os.path.isfile(file) and os.access(file, os.R_OK)
    ]
    options += [f"--exclude-from={file}" for file in readable]
    options.append("--exclude=.dirge")
    if own_folder:
        options.append(f"--exclude=/{escape_rule(own_folder)}")
    return options


def escape_rule(path: str) -> str:
    """A path as a line of ignore rules that means just that path."""
    return re.sub(r"([\\*?\[\]! ])", r"\\\1", path)
