"""Random command lines: those that run without a question are run in bash, and may change nothing.

The lines are made of what attackers use: tests that evaluate, loops whose values become options,
redirections, quotes, links and secrets. Everything in the project and around it is compared before
and after, and the secrets must not be in the output.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.permission.conftest import Project
from tests.security.attack_project import SECRET, attack_project, random_line
from tests.security.sizes import count, size
from tests.support.requirements import lacking


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = attack_project(tmp_path)
    yield made
    made.workspace.close()


def state_of(home: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for folder, names, files in os.walk(home):
        if ".git" in names:
            names.remove(".git")
        for name in (*names, *files):
            stat = os.lstat(os.path.join(folder, name))
            found[os.path.join(folder, name)] = (stat.st_mode, stat.st_size, stat.st_mtime_ns)
    return found


def run_in_bash(bash: str, line: str, project: Project) -> bytes:
    """Return what the line prints; kill it after a while, because some wait for input."""
    try:
        done = subprocess.run(
            [bash, "--norc", "--noprofile", "-c", line],
            cwd=project.root,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(project.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        return (expired.stdout or b"") + (expired.stderr or b"")
    return done.stdout + done.stderr


def test_lines_that_run_unasked_change_nothing_and_show_no_secret_in_bash(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    bash = shutil.which("bash") or lacking("bash")
    monkeypatch.setenv("HOME", str(project.home))
    choice = random.Random(18)
    most = size(1_500, 100_000)
    before = state_of(project.home)
    wrong, allowed = [], 0

    for _ in range(most):
        line = random_line(choice)
        if project.run(line).effect != "allow":
            continue
        allowed += 1
        shown = run_in_bash(bash, line, project)
        if SECRET.encode() in shown or state_of(project.home) != before:
            wrong.append(line)
            break

    count("lines run in bash", allowed, len(wrong), "changed something or showed a secret")
    assert wrong == []
    assert allowed > most // 50
