"""The diff that a judge gets, from real repositories."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dirge_py.guards.judge import DIFF_BYTES
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.sdk.working_tree import WorkingTree
from tests.support.git_repository import new_repository

QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


class Repository:
    def __init__(self, root: Path):
        self.root = root.resolve()
        self.root.mkdir(exist_ok=True)
        self.withheld: set[str] = set()
        self.runner = Runner(EnvironmentPolicy(listed=QUIET, source={**os.environ, **QUIET}))

    def git(self, *arguments):
        subprocess.run(
            ["git", "-c", "user.name=u", "-c", "user.email=u@example.com", *arguments],
            cwd=self.root,
            env={**os.environ, **QUIET},
            check=True,
            capture_output=True,
        )

    def put(self, name, content):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def tree(self, folder=".", **more):
        cwd = os.path.normpath(self.root / folder)
        return WorkingTree(
            runner=self.runner,
            cwd=cwd,
            roots=[str(self.root)],
            withholds=lambda real: Path(real).name in self.withheld,
            **more,
        )

    async def diff(self, folder="."):
        found = await self.tree(folder).diff()
        assert found is not None
        return found


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "repo")
    new_repository(made.root)
    made.put("a.py", "one\ntwo\n")
    made.put("sub/b.py", "b\n")
    made.put("uv.lock", "1\n")
    made.git("add", ".")
    made.git("commit", "-qm", "first")
    return made


async def test_unchanged_tree_has_empty_diff_and_stable_fingerprint(repository):
    first, second = await repository.diff(), await repository.diff()
    assert (first.text, first) == ("", second)


async def test_diff_shows_staged_unstaged_and_new_files(repository):
    repository.put("a.py", "one\n2\n")
    repository.put("sub/b.py", "B\n")
    repository.git("add", "sub/b.py")
    repository.put("new file.py", "fresh\nlast")
    text = (await repository.diff()).text
    assert "-two\n+2\n" in text
    assert "-b\n+B\n" in text
    assert text.endswith("--- /dev/null\n+++ b/new file.py\n+fresh\n+last\n")


async def test_each_change_gives_another_fingerprint(repository):
    marks = [(await repository.diff()).fingerprint]
    for name, content in [("a.py", "x"), ("a.py", "y"), ("new", "1"), ("new", "22")]:
        repository.put(name, content)
        marks.append((await repository.diff()).fingerprint)
    assert len(set(marks)) == len(marks)


async def test_change_beyond_the_shown_diff_changes_the_fingerprint(repository):
    lines = [f"{n}\n" for n in range(30_000)]
    repository.put("a.py", "".join(lines))
    before = await repository.diff()
    repository.put("a.py", "".join([*lines[:-1], "changed\n"]))
    after = await repository.diff()
    assert len(after.text.encode()) <= 65_536
    assert "changed" not in after.text
    assert before.fingerprint != after.fingerprint


async def test_lock_files_and_minified_files_are_left_out_of_the_diff(repository):
    repository.put("uv.lock", "2\n")
    for name in ("package-lock.json", "web/app.min.js", "web/app.js.map", "go.sum"):
        repository.put(name, "x\n")
    assert (await repository.diff()).text == ""


async def test_ignored_files_are_left_out_of_the_diff(repository):
    repository.put(".gitignore", "*.log\n")
    repository.put("x.log", "secret\n")
    assert "secret" not in (await repository.diff()).text


async def test_withheld_files_are_left_out_of_the_diff(repository):
    repository.withheld = {"a.py", ".env", "target"}
    repository.put("a.py", "tracked secret\n")
    repository.put(".env", "KEY=new secret\n")
    (repository.root / "link").symlink_to(repository.put("sub/target", "linked secret\n"))
    assert "secret" not in (await repository.diff()).text


async def test_links_are_not_followed_in_the_diff(repository, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("far away\n")
    (repository.root / "link").symlink_to(outside)
    assert "far away" not in (await repository.diff()).text


async def test_secrets_are_redacted_in_the_diff(repository):
    repository.put("a.py", "token\n")
    found = await repository.tree(redact=lambda text: text.replace("token", "[redacted]")).diff()
    assert "+[redacted]\n" in found.text


async def test_binary_files_are_named_and_pipes_are_skipped_in_the_diff(repository):
    repository.put("data.bin", b"\0\1")
    repository.put("bad.txt", b"\xff\n")
    os.mkfifo(repository.root / "pipe")
    text = (await repository.diff()).text
    assert "new binary file data.bin" in text
    assert "+\ufffd\n" in text


async def test_diff_of_many_large_new_files_is_bounded(repository):
    for n in range(80):
        repository.put(f"n{n}.txt", f"{n}\n" + "x" * 2000)
    found = await repository.diff()
    assert 50_000 < len(found.text.encode()) < DIFF_BYTES + 10_000


async def test_diff_in_a_subfolder_shows_only_that_subfolder(repository):
    repository.put("a.py", "outside\n")
    repository.put("sub/b.py", "inside\n")
    text = (await repository.diff("sub")).text
    assert ("inside" in text, "outside" in text) == (True, False)


async def test_diff_before_the_first_commit_shows_all_files(tmp_path):
    made = Repository(tmp_path / "fresh")
    new_repository(made.root)
    made.put("a.py", "staged\n")
    made.git("add", "a.py")
    made.put("b.py", "untracked\n")
    text = (await made.diff()).text
    assert "+staged" in text
    assert "+untracked" in text


async def test_diff_outside_a_repository_is_none(tmp_path):
    assert await Repository(tmp_path / "plain").tree().diff() is None


async def test_diff_of_a_repository_with_external_programs_is_none(repository):
    marker = repository.root.parent / "ran"
    repository.git("config", "--local", "diff.external", f"touch {marker}; cat")
    repository.put("a.py", "x\n")
    assert await repository.tree().diff() is None
    assert not marker.exists()


async def test_git_program_inside_the_workspace_is_not_run(repository, monkeypatch):
    fake = repository.put("bin/git", f"#!/bin/sh\ntouch {repository.root}/ran\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    await repository.diff()
    assert not (repository.root / "ran").exists()


async def test_diff_is_none_if_git_cannot_be_started(repository):
    await repository.runner.shutdown()
    assert await repository.tree().diff() is None


async def test_file_deleted_during_the_diff_is_left_out(repository):
    gone = repository.put("gone.py", "x\n")
    repository.put("a.py", "y\n")

    def withholds(real):
        gone.unlink(missing_ok=True)
        return False

    found = await replace(repository.tree(), withholds=withholds).diff()
    assert ("+y" in found.text, "gone.py" in found.text) == (True, False)
