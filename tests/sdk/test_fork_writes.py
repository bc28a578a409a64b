"""Nothing that runs in a fork's workspace can write to the project."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.harmful_commands import hostile
from tests.support.fork_projects import (
    LOOK,
    WORK,
    committed,
    describe_tree,
    run_commands,
    run_unjudged,
    text,
    write,
)
from tests.support.fork_sandboxes import KINDS, in_sandbox
from tests.support.project import ScriptedProject
from tests.support.requirements import lacking

pytestmark = pytest.mark.security

PROGRAM = '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n'
MAKEFILE = "test: program\n\t./program\n\nprogram: program.c\n\tcc -o program program.c\n"
TESTS = "def test_writing(tmp_path):\n    (tmp_path / 'x').write_text('x')\n    open('made', 'w')\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    project = ScriptedProject(tmp_path)
    write(
        project.folder,
        {
            "a": "one\n",
            "sub/b": "two\n",
            "ignored": "three\n",
            "node_modules/x": "four\n",
            ".gitignore": "ignored\nnode_modules\n",
        },
    )
    monkeypatch.chdir(project.folder)
    return project


@pytest.mark.parametrize("kind", KINDS)
async def test_sandboxed_fork_commands_cannot_change_the_project(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    in_sandbox(monkeypatch, kind)
    committed(project.folder)
    # Landlock cannot deny changes of modes and times (documented).
    commands = hostile(project.folder, with_marks=kind == "bubblewrap")
    commands += [f"echo x > {project.folder}/{name}" for name in ("ignored", "node_modules/x", "n")]
    script = "\n".join([*commands, "echo all tried", 'echo x > "$TMPDIR/x" && cat "$TMPDIR/x"'])

    async with project.open() as conversation:
        before = describe_tree(project.folder)
        for spec in (LOOK, WORK):
            fork = await conversation.fork(spec)
            output = await run_unjudged(fork, script)
            await fork.close()
            refusals = len(re.findall("Read-only file system|Permission denied", output))
            assert output.endswith("all tried\nx\n") and refusals > len(commands) / 2
            assert describe_tree(project.folder) == before


async def test_fork_without_sandbox_denies_harmful_commands(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_sandbox(monkeypatch, "")
    committed(project.folder)

    async with project.open(allow=("execute:*",)) as conversation:
        conversation.settings.set_mode("yolo")
        before = describe_tree(project.folder)
        fork = await conversation.fork(LOOK)
        results = await run_commands(project, fork, hostile(project.folder))
        await fork.close()

    assert all(result.details["outcome"] == "denied" for result in results)
    assert describe_tree(project.folder) == before


async def test_pytest_and_compiled_program_run_in_a_workspace_copy(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("cc") is None or shutil.which("make") is None:
        lacking("cc and make")
    in_sandbox(monkeypatch, "bubblewrap")
    # A `python3` that has pytest: permission rules match that name.
    folders = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", folders)
    write(project.folder, {"program.c": PROGRAM, "Makefile": MAKEFILE, "test_it.py": TESTS})
    committed(project.folder)

    async with project.open() as conversation:
        before = describe_tree(project.folder)
        fork = await conversation.fork(WORK)
        tests, built = await run_commands(
            project, fork, ["python3 -m pytest -q --disable-plugin-autoload", "make -s test"]
        )
        assert (fork.cwd / "program").exists() and (fork.cwd / "made").exists()
        assert await fork.environment.read_tree() == await conversation.environment.read_tree()
        await fork.close()

    assert "1 passed" in text(tests) and text(built).strip() == "built"
    assert project.user.asked == []
    assert describe_tree(project.folder) == before


# --- traced with strace

_CHANGES = (
    "open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,"
    "linkat,symlink,symlinkat,truncate,ftruncate,chmod,fchmod,fchmodat,chown,lchown,fchown,fchownat,"
    "utime,utimes,utimensat,futimesat,setxattr,lsetxattr,fsetxattr,removexattr,mknod,mknodat"
)
_CALL = re.compile(r"(\w+)\((.*)\) = \d+(?:<([^>]*)>)?$")
_NAMED = re.compile(r'(?:\w+<([^>]*)>(?:, )?)?(?:"([^"]*)")?')
_WRITING = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)")


def changed_in(log: str) -> Iterator[str]:
    """The paths changed by calls in an strace log."""
    for line in log.splitlines():
        call = _CALL.search(line)
        if call is None:
            continue
        name, arguments, opened = call.groups()
        if name.startswith(("open", "creat")):
            if opened and _WRITING.search(arguments):
                yield opened
            continue
        if name == "write":
            # The written text may look like a path.
            yield from (fd for fd, _text in _NAMED.findall(arguments)[:1] if fd)
            continue
        places = [os.path.join(*map(str, found)) for found in _NAMED.findall(arguments)]
        # Creating a link does not change its target.
        yield from filter(None, places[1:] if name.startswith("symlink") else places)


def test_strace_shows_no_write_to_the_project(tmp_path: Path) -> None:
    log, base = tmp_path / "log", tmp_path / "base"
    base.mkdir()
    watched = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "4096", "-e", "signal=none"]
    watched += ["-e", f"trace={_CHANGES},write", "-o", str(log)]
    if shutil.which("strace") is None or subprocess.run([*watched, "true"]).returncode:
        lacking("strace")
    program = [sys.executable, "-m", "tests.sdk.traced_forks", str(base)]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [*watched, *program], cwd=root, env=environment, capture_output=True, text=True
    )

    assert ended.returncode == 0, ended.stderr
    since = log.read_text(errors="replace").partition('"BEGIN')[2]
    project, copies = f"{base}/project", re.compile(f"{tmp_path}/dirge-copy-[^/]*/project/")
    changed = list(changed_in(since))
    assert [path for path in changed if path == project or path.startswith(f"{project}/")] == []
    # The log does contain writes to the copies.
    assert any(copies.match(path) and path.endswith("/made") for path in changed)
    assert ended.stdout.count("Read-only file system") > 10
