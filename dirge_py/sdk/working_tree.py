"""The diff of the git working tree, without what a judging model may not read."""

import asyncio
import hashlib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dirge_py.files.safe_read import read_regular
from dirge_py.guards.judge import DIFF_BYTES, WorkspaceDiff
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.permission.git.repository import GIT_HARDENING, git_hazard
from dirge_py.processes.output import whole_characters
from dirge_py.processes.programs import search_path
from dirge_py.processes.runner import Runner
from dirge_py.types.errors import DirgeError

TIMEOUT_S = 10.0
MOST_NEW_FILES = 50

_LEFT_OUT = (
    "*.lock", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "go.sum", "bun.lockb",
    "*.min.js", "*.min.css", "*.map",
)  # fmt: skip
_PATHS = " ".join([".", *(shlex.quote(f":(exclude,glob)**/{pattern}") for pattern in _LEFT_OUT)])
_OPTIONS = "--no-color --no-ext-diff --no-textconv --no-renames --relative --ignore-submodules=all"
# The base, the hash of the diff, the changed files, nothing, the new files: each ended by a NUL.
_STATE = f"""
exec 2>/dev/null
git rev-parse --is-inside-work-tree >/dev/null || exit 1
base=$(git rev-parse -q --verify HEAD) || base=$(git hash-object -t tree /dev/null)
printf '%s\\0' "$base" "$(git diff {_OPTIONS} "$base" -- {_PATHS} | git hash-object --stdin)"
git diff {_OPTIONS} --name-only -z "$base" -- {_PATHS} || exit 1
printf '\\0'
git ls-files --others --exclude-standard -z -- {_PATHS} || exit 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    base: str
    fingerprint: str
    changed: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingTree:
    """Compares a folder with the last commit, without running programs that a repository names."""

    runner: Runner
    """Runs git."""
    cwd: str
    """The folder."""
    roots: Sequence[str]
    """The folders of the workspace; a git program in them is not used."""
    withholds: Callable[[str], bool]
    """Whether a model may read this physical path only after a question."""
    redact: Callable[[str], str] = lambda text: text
    """Removes secrets."""

    async def diff(self) -> WorkspaceDiff | None:
        """Return the diff since the last commit, with new files.

        None without a repository or git, or if the repository's settings name programs.
        """
        try:
            if await asyncio.to_thread(git_hazard, os.path.realpath(self.cwd), self.roots):
                return None
            state = await self._state()
            if state is None:
                return None
            tracked = await self._tracked(state)
        except DirgeError:
            return None
        return await asyncio.to_thread(self._whole, state, tracked)

    async def text(self) -> str | None:
        """Return the text of the diff; None if it can't be determined."""
        diff = await self.diff()
        return diff.text if diff is not None else None

    async def _state(self) -> _State | None:
        output = await self._git(_STATE)
        if output is None:
            return None
        base, fingerprint, *names = output.decode("utf-8", "surrogateescape").split("\0")
        middle = names.index("") if "" in names else len(names)
        return _State(
            base=base,
            fingerprint=fingerprint,
            changed=tuple(names[:middle]),
            new=tuple(name for name in names[middle + 1 :] if name),
        )

    async def _tracked(self, state: _State) -> str:
        if not state.changed:
            return ""
        secret = [name for name in state.changed if self.withholds(self._real(name))]
        spared = " ".join(shlex.quote(f":(exclude,literal){name}") for name in secret)
        command = f"exec 2>/dev/null; git diff {_OPTIONS} {state.base} -- {_PATHS} {spared}"
        output = await self._git(command)
        return whole_characters(output or b"", is_cut_after=True)

    async def _git(self, command: str) -> bytes | None:
        """The beginning of what the command printed; None if it failed or took too long."""
        path = search_path(os.environ.get("PATH", os.defpath), self.roots)
        finished = await self.runner.run(
            command, cwd=self.cwd, timeout_s=TIMEOUT_S, extra_env={**GIT_HARDENING, "PATH": path}
        )
        return finished.output.head if finished.exit_code == 0 else None

    def _whole(self, state: _State, tracked: str) -> WorkspaceDiff:
        mark = hashlib.sha256(state.fingerprint.encode())
        for name in state.new:
            mark.update(_stamp(os.path.join(self.cwd, name)))
        left = DIFF_BYTES - len(tracked.encode())
        text = self.redact("".join([tracked, *self._new_files(state.new, left)]))
        return WorkspaceDiff(text=text, fingerprint=mark.hexdigest())

    def _new_files(self, names: Sequence[str], max_bytes: int) -> Iterator[str]:
        for name in names[:MOST_NEW_FILES]:
            if max_bytes <= 0 or self.withholds(self._real(name)):
                continue
            try:
                content = read_regular(Path(self.cwd, name), max_bytes, follow=False)
            except OSError:
                continue
            shown = _as_new(name, content)
            max_bytes -= len(shown.encode("utf-8", "replace"))
            yield shown

    def _real(self, name: str) -> str:
        return os.path.realpath(os.path.join(self.cwd, name))


def _stamp(path: str) -> bytes:
    try:
        status = os.lstat(path)
    except OSError:
        return f"{path!r} gone\n".encode()
    return f"{path!r} {status.st_size} {status.st_mtime_ns}\n".encode()


def _as_new(name: str, content: bytes) -> str:
    shown_name = name.encode("utf-8", "replace").decode()
    if b"\0" in content:
        return f"new binary file {shown_name}\n"
    text = whole_characters(content, is_cut_after=True)
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    return f"--- /dev/null\n+++ b/{shown_name}\n{lines}"
