"""Commands that run unasked, traced with strace: they write and execute nothing.

The program itself is started in a hostile project, with one call for every program of the list.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from dirge_py.permission import programs
from dirge_py.permission.git import commands
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.read_only import ReadOnlyProfile
from tests.conftest import NEEDS
from tests.security.sizes import count

COMMANDS = {
    "ls": "ls -laR", "cat": "cat README.md", "head": "head -n 2 README.md",
    "tail": "tail -n 2 README.md", "wc": "wc README.md", "nl": "nl README.md",
    "sort": "sort src/big.txt", "uniq": "uniq -c README.md", "cut": "cut -c1-3 README.md",
    "tr": "cat README.md | tr a b", "diff": "diff README.md src/a.py", "stat": "stat README.md",
    "file": "file README.md", "basename": "basename src/a.py", "dirname": "dirname src/a.py",
    "realpath": "realpath src", "readlink": "readlink -f src", "which": "which ls",
    "type": "type ls", "pwd": "pwd", "uname": "uname -a", "whoami": "whoami",
    "hostname": "hostname", "env": "env", "du": "du -a", "sha256sum": "sha256sum README.md",
    "md5sum": "md5sum README.md", "grep": "grep -rn x src", "rg": "rg -n x src",
    "echo": "echo *", "true": "true", "false": "false || true", ":": ":", "cd": "cd src && ls",
    "date": "date -u", "find": "find . -name '*.py'", "sed": "sed -n 1,2p README.md",
    "test": "test -f README.md && ls 2>/dev/null", "sleep": "sleep 0.01",
    "[": "if [ -f README.md ]; then cat README.md; fi",
    "git status": "git status", "git diff": "git diff HEAD", "git log": "git log -p",
    "git show": "git show HEAD", "git branch": "git branch --list", "git tag": "git tag -l",
    "git rev-parse": "git rev-parse HEAD", "git ls-files": "git ls-files -o",
    "git ls-tree": "git ls-tree HEAD", "git blame": "git blame README.md",
    "git shortlog": "git shortlog -s HEAD", "git describe": "git describe --always --all",
    "git merge-base": "git merge-base HEAD HEAD", "git grep": "git grep first",
    "git rev-list": "git rev-list --count HEAD", "git show-ref": "git show-ref",
    "git check-ignore": "git check-ignore -q README.md || true", "git remote": "git remote -v",
    "git stash": "git stash list", "git worktree": "git worktree list",
    "git config": "git config --get user.name",
}  # fmt: skip
"""A command line for every program, and every subcommand of git, that may run unasked."""

ALLOWED = "touch made"
"""A command that a rule allows: it does write, so a trace in which nothing does says nothing."""

STARTED_BY_GIT = {
    "filter.x.clean": "git status",
    "filter.x.process": "git diff HEAD",
    "diff.x.textconv": "git log -p",
    "diff.x.command": "git diff",
    "diff.external": "git diff --stat -p",
}
"""Settings of a repository that name a program, and a command that starts it."""

_CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+|\?)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_MUTATING = re.compile(
    r"(unlink|rename|mkdir|rmdir|symlink|link|truncate|chmod|chown|fchmod|fchown|lchown|utime|"
    r"futimes|mknod|creat|setxattr|lsetxattr|removexattr|mount)\w*"
)
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_BEGINS = re.compile(r'execve\(.*"--norc", "--noprofile", "-c", "--", "(.*?)"\], ')


@dataclass(frozen=True)
class ProcessTrace:
    """The successful system calls of one process."""

    name: str
    paths: tuple[str, ...]
    text: str


class Trace:
    """The output files of `strace -ff`, one per process."""

    def __init__(self, folder: Path) -> None:
        self._lines = {
            int(path.suffix[1:]): path.read_text(errors="replace").splitlines()
            for path in folder.iterdir()
        }

    def commands(self, texts: Collection[str]) -> list[int]:
        """The processes in which dirge ran one of these command lines."""
        return [pid for pid in self._lines if self._begun(pid)[1] in texts]

    def _begun(self, pid: int) -> tuple[int, str]:
        """The line at which bash starts, and its command line; (0, "") if it does not."""
        begun = ((at, _BEGINS.match(line)) for at, line in enumerate(self._lines.get(pid, [])))
        return next(((at, found[1]) for at, found in begun if found), (0, ""))

    def seen(self, pid: int) -> Iterator[ProcessTrace]:
        """The calls of the process from the start of the command, and of all its children."""
        first, _command = self._begun(pid)
        for line in self._lines.pop(pid, [])[first:]:
            found = _CALL.match(line)
            if found is None or found[3] == "?" or int(found[3]) < 0:
                continue
            yield ProcessTrace(found[1], tuple(_QUOTED.findall(found[2])), line)
            if found[1] in ("clone", "clone3", "fork", "vfork"):
                yield from self.seen(int(found[3]))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project full of programs named like read-only ones, first on PATH."""
    for program in ("strace", "git", "rg", "file"):
        if shutil.which(program) is None:
            pytest.skip(f"{NEEDS}{program}")
    project, home = tmp_path / "project", tmp_path / "home"
    (project / "src").mkdir(parents=True)
    home.mkdir()
    (project / "README.md").write_text("first\nsecond\nthird\n")
    (project / "src/a.py").write_text("x = 1\n")
    (project / "src/big.txt").write_text("line\n" * 1000)
    for folder in (project, project / ".venv/bin", home / "bin", home / ".local/bin"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in {words.split()[0] for words in COMMANDS} | {"sh", "less"}:
            # The git of a person's own PATH is dirge's git, too.
            if name != ":" and (name != "git" or project in (folder, *folder.parents)):
                _executable(folder / name, tmp_path)
    for words in ("init -q", "add README.md src", "commit -qm first"):
        _git(project, words)
    for hook in ("pre-commit", "post-index-change", "fsmonitor-watchman", "post-checkout"):
        _executable(project / ".git/hooks" / hook, tmp_path)
    (project / "README.md").write_text("first\nsecond\nchanged\n")
    return tmp_path


def test_table_lists_every_program_and_subcommand_that_runs_without_a_question() -> None:
    special = set(programs._SPECIAL) - {"git"}
    subcommands = {f"git {name}" for name in (*commands._SUBCOMMANDS, *commands._VERBS)}

    assert set(programs.PROGRAMS) | special | subcommands == set(COMMANDS)


def test_read_only_programs_cannot_write_or_execute_files_of_the_project(place: Path) -> None:
    config = place / "config"
    config.mkdir()
    commands = [*COMMANDS.values(), ALLOWED]
    calls = [{"name": "bash", "arguments": {"command": one}} for one in commands]
    script = {"replies": [{"calls": calls}, {"text": "done"}]}
    (config / "s.json").write_text(json.dumps(script))
    (config / "config.toml").write_text(
        'provider = "s"\n[providers.s]\ntype = "scripted"\nscript = "s.json"\n'
    )
    (place / "trace").mkdir()
    before = _state(place / "project")

    ended = subprocess.run(
        [
            *("strace", "--seccomp-bpf", "-ff", "-qq", "-s", "4096", "-o", str(place / "trace/t")),
            *("-e", "trace=%file,%process,%network,fchmod,fchown,ftruncate,fsetxattr"),
            *(sys.executable, "-m", "dirge_py", "-p", "go", "--allow", f"execute:{ALLOWED}"),
        ],
        cwd=place / "project",
        env=_environment(place),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    trace = Trace(place / "trace")
    roots = trace.commands(COMMANDS.values())
    seen = [one for pid in roots for one in trace.seen(pid)]
    bad = [one.text for one in seen if _is_bad(one, place)]
    control = [one for pid in trace.commands([ALLOWED]) for one in trace.seen(pid)]
    count("read-only profile: programs", len(roots), len(bad), "wrote or executed something")
    assert (ended.stdout, len(roots)) == ("done\n", len(COMMANDS)), ended.stderr
    assert sum(one.name == "execve" for one in seen) > len(COMMANDS)
    assert bad == []
    assert any(_is_bad(one, place) for one in control)
    (place / "project/made").unlink()
    assert _state(place / "project") == before
    assert not (place / "ran").exists()
    assert list((place / "tmp").iterdir()) == []


@pytest.mark.parametrize(("setting", "command"), STARTED_BY_GIT.items())
async def test_programs_that_a_repository_makes_git_start_can_only_read(
    place: Path, setting: str, command: str
) -> None:
    """Tests the kernel's part alone, without the check of the repository's settings."""
    project = place / "project"
    (project / ".gitattributes").write_text("* filter=x diff=x\n")
    _git(project, f"config {setting} {project}/less")
    os.utime(project / "src/a.py", (1, 1))
    profile = ReadOnlyProfile(lambda: [str(project)], str(place / "home"))
    runner = Runner(EnvironmentPolicy(), read_only=profile)
    if profile.mechanism.kind != "landlock":
        pytest.skip(f"{NEEDS}Landlock")
    before = _state(project)

    runner.prepare("held", {}, is_read_only=True)
    await runner.run(command, cwd=str(project), call_id="held")
    held = (place / "ran").exists(), _state(project) == before
    runner.prepare("free", {})
    await runner.run(command, cwd=str(project), call_id="free")
    profile.close()

    assert held == (False, True)
    assert (place / "ran").exists()  # so this setting would have started it


def _is_bad(seen: ProcessTrace, place: Path) -> bool:
    if seen.name in ("execve", "execveat"):
        # Relative names are looked for from a folder of the project.
        path = os.path.realpath(place / "project" / seen.paths[0])
        return path.startswith(str(place))
    if seen.name in ("socket", "connect", "bind"):
        return True
    if not (_MUTATING.fullmatch(seen.name) or _WRITES.search(seen.text)):
        return False
    return not all(_is_scratch(path, place) for path in seen.paths[:1])


def _is_scratch(path: str, place: Path) -> bool:
    return path in ("/dev/null", "/dev/tty") or path.startswith(f"{place}/tmp/dirge-tmp-read-only-")


def _environment(place: Path) -> dict[str, str]:
    (place / "tmp").mkdir(exist_ok=True)
    own = [place / "project/.venv/bin", place / "home/bin", place / "home/.local/bin"]
    return {
        "PATH": os.pathsep.join([*map(str, own), ".", "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "DIRGE_CONFIG_DIR": str(place / "config"),
        "DIRGE_STATE_DIR": str(place / "state"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "LANG": "C.UTF-8",
    }


def _executable(path: Path, place: Path) -> None:
    path.write_text(f"#!/bin/sh\ntouch {place}/ran\n")
    path.chmod(0o755)


def _git(project: Path, words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null"]
    subprocess.run(["/usr/bin/git", *who, *words.split()], cwd=project, check=True)


def _state(folder: Path) -> Sequence[tuple[str, int, int, int, bytes]]:
    """Every file and folder with its mode, inode, time of change and content."""
    found = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found.append((str(path), status.st_mode, status.st_ino, status.st_mtime_ns, content))
    return found
