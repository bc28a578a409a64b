"""Git on the private repository: how it is run and how its output is parsed.

Nothing of the project or the person acts in it: it reads no settings but those given here and the
repository's own. Repository, work tree and index are always named, so that none is searched for.
Results go to files: what a command says besides is for errors.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.programs import find_program
from dirge_py.processes.runner import Runner
from dirge_py.session.snapshots.base import TreeChange
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


def git_settings(*more: tuple[str, str]) -> dict[str, str]:
    """Settings as variables, which beat every file."""
    pairs = (*_SETTINGS, *more)
    numbered = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        numbered[f"GIT_CONFIG_KEY_{number}"] = key
        numbered[f"GIT_CONFIG_VALUE_{number}"] = value
    return numbered


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
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """Run the commands one after the other on `store`, until one fails.

        With an `index` they see the work tree, without one they do not. `alternates` are further
        repositories whose objects count as there. `is_durable`: what is written outlives a power
        cut, each object for itself.

        Raises:
            GitFailed: one failed, or they took longer than that.
        """
        more = [("core.fsync", "loose-object,reference")] if is_durable else []
        variables = {**_VARIABLES, **git_settings(*more), "PATH": self.path, **(extra or {})}
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


TREE_ID = re.compile(r"[0-9a-f]{40}")
LINK_MODE = "120000"
_KINDS: dict[str, Literal["added", "removed"]] = {"A": "added", "D": "removed"}


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file in a tree: its git mode, and the name of its content."""

    mode: str
    oid: str

    @property
    def is_link(self) -> bool:
        return self.mode == LINK_MODE

    @property
    def is_executable(self) -> bool:
        return self.mode == "100755"


def parse_tree(listing: bytes) -> dict[str, TreeEntry]:
    """The files in the output of `git ls-tree -r -z`, by path."""
    found: dict[str, TreeEntry] = {}
    for line in listing.split(b"\0"):
        words, tab, name = line.partition(b"\t")
        if tab:
            mode, kind, oid = words.decode("ascii").split(" ")
            if kind == "blob":
                found[os.fsdecode(name)] = TreeEntry(mode, oid)
    return found


def parse_changes(listing: bytes) -> Sequence[TreeChange]:
    """The changes in the output of `git diff-tree -z --raw`, with lines if `--numstat` follows."""
    fields = listing.split(b"\0")
    kinds: dict[str, Literal["added", "changed", "removed"]] = {}
    lines: dict[str, tuple[int, int]] = {}
    position = 0
    while position < len(fields):
        head = fields[position]
        if head.startswith(b":"):
            letter = head.rpartition(b" ")[2].decode("ascii")[:1]
            kinds[os.fsdecode(fields[position + 1])] = _KINDS.get(letter, "changed")
            position += 2
            continue
        position += 1
        added, _, rest = head.partition(b"\t")
        removed, tab, name = rest.partition(b"\t")
        if tab and added.isdigit() and removed.isdigit():
            lines[os.fsdecode(name)] = (int(added), int(removed))
    return tuple(
        TreeChange(path=path, kind=kind, lines=lines.get(path))
        for path, kind in sorted(kinds.items())
    )


class BlobReader:
    """The contents in files that `git cat-file --batch` wrote, by their names."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[Path, int, int]] = {}

    def add(self, file: Path) -> None:
        with open(file, "rb") as stream:
            self._places |= {oid: (file, start, size) for oid, start, size in _read_blobs(stream)}

    def __contains__(self, oid: str) -> bool:
        return oid in self._places

    def read(self, oid: str) -> bytes | None:
        """The content, None if it is not there or not what its name says."""
        place = self._places.get(oid)
        if place is None:
            return None
        file, start, size = place
        with open(file, "rb") as stream:
            stream.seek(start)
            content = stream.read(size)
        return content if blob_id(content) == oid else None


_HEAD_BYTES = 128
"""`<oid> blob <size>` and its line end fit into that."""


def _read_blobs(stream: BinaryIO) -> Iterator[tuple[str, int, int]]:
    end = os.fstat(stream.fileno()).st_size
    position = 0
    while position < end:
        stream.seek(position)
        head, newline, _ = stream.read(_HEAD_BYTES).partition(b"\n")
        if not newline:
            return
        position += len(head) + 1
        words = head.decode("ascii", "replace").split()
        if len(words) != 3 or words[1] != "blob" or not words[2].isdecimal():
            continue
        size = int(words[2])
        if position + size > end:
            return
        yield words[0], position, size
        position += size + 1


def blob_id(content: bytes) -> str:
    """The name that git gives to this content."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
