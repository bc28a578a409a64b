"""Every option of a listed program: an allowed one has no effect."""

import os
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dirge_py.permission.git.commands import _SUBCOMMANDS, _VERBS
from dirge_py.permission.git.repository import GIT_HARDENING
from dirge_py.permission.programs import PROGRAMS
from tests.permission.conftest import QUIET_GIT, Project
from tests.security.sizes import ASKED, IS_WHOLE, count
from tests.support.requirements import lacking

BUILTINS = ("pwd", "type", "echo", "test", "true", "cd")
SPECIAL = ("find", "date", "sed")
GIT = [
    *_SUBCOMMANDS,
    *(f"{name} {verb}".strip() for name, verbs in _VERBS.items() for verb in verbs),
]
FORMS = ("{p} {o} a", "{p} {o} 1 a", "{p} {o}=1 a", "{p} {o}=a b", "{p} {o}1 a", "{p} {o} a b",
         "{p} {o}", "{p} a {o}", "{p} {o} src", "{p} {o}a src", "{p} x {o} src", "{p} . {o}",
         "{p} . {o} a")  # fmt: skip
_OPTION = re.compile(r"(?<![\w-])(--?)(\[no-\])?([A-Za-z0-9][A-Za-z0-9-]*)")
_TRACED = (
    "execve execveat connect bind sendto open openat openat2 creat unlink unlinkat rename",
    "renameat renameat2 mkdir mkdirat rmdir chmod fchmod fchmodat chown fchown fchownat lchown",
    "link linkat symlink symlinkat truncate ftruncate mknod mknodat setxattr lsetxattr fsetxattr",
    "utimensat clock_settime settimeofday sethostname kill mount",
)
_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) += (-?\d+|\?)")
_WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
_HARMLESS_PLACES = ('"/dev/null"', '"/dev/tty"')


def options_of(command: str) -> list[str]:
    """Every option in the program's own help."""
    name = command.split()[0]
    ask = {"git": [*command.split(), "-h"]}.get(name, [name, "--help"])
    if name in BUILTINS:
        ask = ["bash", "-c", f"help {name}"]
    done = subprocess.run(
        ask, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=20
    )
    options: dict[str, None] = {}
    for dashes, no, word in _OPTION.findall(done.stdout + done.stderr):
        options[dashes + word] = None
        if no:
            options[f"--no-{word}"] = None
    return list(options)


def programs() -> list[str]:
    known = [name for name in (*PROGRAMS, *SPECIAL) if shutil.which(name)]
    return [*dict.fromkeys((*known, *BUILTINS)), *(f"git {name}" for name in GIT)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project(tmp_path_factory.mktemp("home").resolve())
    made.git("add", "README.md", "src", "a", "b")
    made.git("commit", "-q", "-m", "first")
    made.git("tag", "v1")
    made.root.joinpath("a").write_text("changed\n")
    # What a listed program might take for settings of its own.
    for name in ("1", "x", "1a"):
        made.root.joinpath(name).write_text("x\n")
    yield made
    made.workspace.close()


def allowed_commands(project: Project, names: list[str]) -> tuple[int, list[str]]:
    gate = project.gate()
    tried = 0
    allowed: dict[str, None] = {}
    for name in names:
        for option in options_of(name):
            for form in FORMS:
                command = form.format(p=name, o=option)
                tried += 1
                if gate.decide([project.execute(command)]).effect == "allow":
                    allowed[command] = None
    return tried, list(allowed)


def effects_of(command: str, project: Project) -> list[str]:
    """The effects of the command beyond reading, from its system calls."""
    # A file for each process: in one file, calls at the same time are torn into two lines.
    traces = Path(tempfile.mkdtemp(dir=project.home))
    wanted = ",".join(f"?{name}" for name in " ".join(_TRACED).split())
    subprocess.run(
        ["strace", "-ff", "-qq", "-e", f"trace={wanted}", "-e", "signal=none",
         "-o", str(traces / "process"), "/bin/bash", "--norc", "--noprofile", "-c", "--", command],
        cwd=project.root,
        env={"PATH": os.environ["PATH"], "HOME": str(project.home), **QUIET_GIT, **GIT_HARDENING},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=20,
        check=False,
    )  # fmt: skip
    head = shutil.which(command.split()[0]) or "/bin/bash"
    started = {'"/bin/bash"', f'"{head}"'}
    found = []
    for line in (line for trace in traces.iterdir() for line in _lines(trace)):
        call = _CALL.match(line)
        if call and call.group(3) != "-1" and _is_effect(call.group(1), call.group(2), started):
            found.append(line)
    shutil.rmtree(traces)
    return found


def _lines(trace: Path) -> list[str]:
    return trace.read_text(errors="replace").splitlines()


def _is_effect(name: str, arguments: str, started: set[str]) -> bool:
    if name in ("execve", "execveat"):
        return arguments.split(",")[0] not in started
    if name in ("open", "openat", "openat2"):
        place = next((part for part in arguments.split(", ") if part.startswith('"')), "")
        return bool(_WRITING.search(arguments)) and place not in _HARMLESS_PLACES
    return True


def test_allowed_options_write_no_file_start_no_program_and_open_no_connection(
    project: Project,
) -> None:
    if shutil.which("strace") is None or effects_of("true", project):
        lacking("strace")
    names = programs()
    if not ASKED:
        names = random.Random(3).sample(names, 4)
    tried, allowed = allowed_commands(project, names)
    most = len(allowed) if IS_WHOLE else min(len(allowed), 600 if ASKED else 24)
    chosen = random.Random(5).sample(allowed, most)

    wrong = [(command, found) for command in chosen if (found := effects_of(command, project))]

    count(
        "option oracle", tried, len(wrong), f"had an effect ({len(chosen)} allowed ones were run)"
    )
    assert wrong == []


@pytest.mark.parametrize(
    "command",
    ["sort -o out a", "touch new", "git diff --output=out", "find . -exec true {} +", "env true",
     "git tag new", "sed -n 'w out' a", "rm x", "sort -m", "git tag --column"],
)  # fmt: skip
def test_oracle_of_options_notices_effects(project: Project, command: str) -> None:
    if shutil.which("strace") is None or effects_of("true", project):
        lacking("strace")

    assert project.run(command).effect == "ask"
    assert effects_of(command, project)
