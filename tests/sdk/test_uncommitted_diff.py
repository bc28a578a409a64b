"""The diff since the last commit, as `/diff` shows it."""

import subprocess
from pathlib import Path

from dirge_py.files.workspace import Workspace
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.sdk.working_tree import WorkingTree


def commit_all(folder: Path) -> None:
    for words in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)


async def test_diff_shows_changed_and_new_files_and_is_none_outside_git(tmp_path: Path) -> None:
    workspace = Workspace([tmp_path], tmp_path)
    try:
        tree = WorkingTree(
            runner=Runner(EnvironmentPolicy()),
            cwd=str(tmp_path),
            roots=workspace.roots,
            withholds=lambda real: real.endswith(".env"),
        )
        assert await tree.text() is None

        (tmp_path / "kept").write_text("one\n")
        commit_all(tmp_path)
        (tmp_path / "kept").write_text("two\n")
        (tmp_path / "new").write_text("three\n")
        (tmp_path / ".env").write_text("TOKEN=1\n")

        diff_text = await tree.text()
    finally:
        workspace.close()

    assert diff_text is not None
    assert {"-one", "+two", "+three"} <= set(diff_text.splitlines())
    assert "TOKEN" not in diff_text
