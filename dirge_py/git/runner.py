"""Git as dirge itself runs it, on a repository of its own.

Nothing of the project or the person acts in it: it reads no settings but those given here and the
repository's own. Repository, work tree and index are always named, so that none is searched for.
Results go to files: what a command prints besides is for errors.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import EnvironmentPolicy, git_config_variables
from dirge_py.processes.programs import find_program
from dirge_py.processes.runner import Runner
from dirge_py.types.errors import ProcessError

ATTRIBUTES = "* -text -eol -crlf -filter -ident -working-tree-encoding !diff -merge !export-subst\n"
"""For `info/attributes`, which beats the project's `.gitattributes`: bytes stay as they are."""
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
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "dirge"), ("EMAIL", "dirge@localhost"))
    },
}
_NO_ROOM = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "File too large",
    "File size limit exceeded",
    "write failure on standard output",
)


class GitFailed(Exception):
    """A command did not do its work; the text is what it said."""

    def __init__(self, text: str, *, timed_out: bool = False) -> None:
        super().__init__(text)
        self.timed_out = timed_out

    @property
    def has_no_room(self) -> bool:
        return any(words in str(self) for words in _NO_ROOM)

    @property
    def tells_nothing(self) -> bool:
        """Whether it says nothing about what it was asked: it could not finish the answer."""
        return self.timed_out or self.has_no_room


def find_git(path: str, root: str) -> str:
    """The git of the search path `path`, "" if there is none outside of the folder `root`."""
    return find_program("git", path=path, outside=[root]) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """Git for one project. `path` is the search path that it is given."""

    program: str
    path: str
    root: str
    runner: Runner

    def command(
        self,
        *arguments: str | Path,
        stdin: Path | None = None,
        stdout: Path | None = None,
    ) -> str:
        """One git command for a script, its input and output being files."""
        words = [self.program, *map(str, arguments)]
        line = " ".join(shlex.quote(word) for word in words)
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
        is_durable: bool = False,
        settings: Sequence[tuple[str, str]] = (),
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """Run the commands one after the other on `store`, until one fails.

        With an `index` they see the work tree, without one they do not. `alternates` are further
        repositories whose objects count as there. `is_durable`: what is written outlives a power
        cut, each object for itself. `settings` and the variables `extra` beat those of every run.

        Raises:
            GitFailed: one failed, or they took longer than that.
        """
        more = [("core.fsync", "loose-object,reference")] if is_durable else []
        numbered = git_config_variables((*_SETTINGS, *more, *settings))
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
            raise GitFailed("git had no time left.", timed_out=True)
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
            said = finished.output.head.decode(errors="replace").strip()
            how = "was ended after a time" if finished.timed_out else "failed"
            raise GitFailed(said or f"git {how}.", timed_out=finished.timed_out)


def private_git(program: str, path: str, root: str) -> Git:
    """Git outside of every sandbox: it reads the project and writes only its own repository."""
    return Git(program=program, path=path, root=root, runner=Runner(EnvironmentPolicy()))
