import os
import resource
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from dirge_py.files.transaction import RollbackEntry, RollbackJournal
from dirge_py.files.workspace import Workspace, WriteTarget
from dirge_py.types.errors import FileError
from tests.support.forked_process import run_forked
from tests.support.requirements import small_disk

OLD = {"a": b"old a", "b": b"old b", "linked": b"old linked", "gone": b"old gone"}
NEW = {"a": b"new a", "b": b"new b", "linked": b"new linked", "deep/made": b"made"}


def fill(project: Path) -> None:
    project.mkdir()
    for name, content in OLD.items():
        (project / name).write_bytes(content)
    os.link(project / "linked", project / "other name")
    (project / "b").chmod(0o751)


def contents(project: Path) -> dict[str, bytes]:
    """Every file by its path, except second names of hard links."""
    return {
        str(file.relative_to(project)): file.read_bytes()
        for file in sorted(project.rglob("*"))
        if file.is_file() and file.name != "other name"
    }


def change(project: Path, journals: Path | None = None) -> None:
    workspace = Workspace([project], project, journals=journals)
    try:
        files = workspace.at_call("c")
        before = {name: files.read(name).identity for name in OLD}
        files.write_all(
            [
                *(
                    WriteTarget(path=name, content=content, expected=before.get(name))
                    for name, content in NEW.items()
                ),
                WriteTarget(path="gone", content=None, expected=before["gone"]),
            ]
        )
    finally:
        workspace.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    fill(tmp_path / "project")
    return tmp_path / "project"


def test_files_change_together_and_keep_mode_and_other_hard_links(project, tmp_path):
    change(project, tmp_path / "journals")

    assert contents(project) == NEW
    assert stat.S_IMODE((project / "b").stat().st_mode) == 0o751
    assert (project / "other name").read_bytes() == b"old linked"
    assert os.listdir(tmp_path / "journals") == []


def test_file_changed_meanwhile_rolls_everything_back(project):
    workspace = Workspace([project], project)
    files = workspace.at_call("c")
    before = {name: files.read(name).identity for name in ("a", "gone", "b")}
    (project / "b").write_bytes(b"theirs")

    with pytest.raises(FileError, match="b has changed since"):
        files.write_all(
            [
                WriteTarget(path="a", content=b"new", expected=before["a"]),
                WriteTarget(path="deep/made", content=b"new", expected=None),
                WriteTarget(path="gone", content=None, expected=before["gone"]),
                WriteTarget(path="b", content=b"new", expected=before["b"]),
            ]
        )
    workspace.close()

    assert contents(project) == OLD | {"b": b"theirs"}
    assert not (project / "deep").exists()


def test_a_moved_file_keeps_its_mode(project):
    workspace = Workspace([project], project)
    files = workspace.at_call("c")
    seen = files.read("b").identity

    files.write_all(
        [
            WriteTarget(path="sub/b", content=b"old b", expected=None, moved_from="b"),
            WriteTarget(path="b", content=None, expected=seen),
        ]
    )
    workspace.close()

    assert stat.S_IMODE((project / "sub/b").stat().st_mode) == 0o751
    assert not (project / "b").exists()


def test_full_disk_rolls_everything_back(tmp_path: Path):
    with small_disk(tmp_path / "disk", "size=256k") as disk:
        fill(disk / "project")
        workspace = Workspace([disk / "project"], disk / "project")
        files = workspace.at_call("c")
        targets = [
            WriteTarget(path=name, content=b"x" * 150_000, expected=files.read(name).identity)
            for name in ("a", "b")
        ]

        with pytest.raises(FileError, match="disk is full") as refusal:
            files.write_all(targets)
        workspace.close()

        assert "Nothing was changed" in refusal.value.hint
        assert contents(disk / "project") == OLD


def test_disk_that_fills_up_halfway_rolls_everything_back(tmp_path: Path):
    with small_disk(tmp_path / "disk", "size=256k") as disk:
        project = disk / "project"
        fill(project)
        (project / "a").write_bytes(b"a" * 90_000)
        (project / "linked").write_bytes(b"l" * 10_000)
        before = contents(project)
        workspace = Workspace([project], project)
        files = workspace.at_call("c")
        sizes = {"a": 90_000, "linked": 120_000}
        targets = [
            WriteTarget(path=name, content=b"x" * size, expected=files.read(name).identity)
            for name, size in sizes.items()
        ]

        with pytest.raises(FileError, match="disk is full") as refusal:
            files.write_all(targets)
        workspace.close()

        assert "Nothing was changed" in refusal.value.hint
        assert contents(project) == before
        assert (project / "other name").read_bytes() == b"l" * 10_000


def test_error_after_a_rename_rolls_that_file_back_too(project, monkeypatch):
    workspace = Workspace([project], project)
    files = workspace.at_call("c")
    seen = {name: files.read(name).identity for name in ("a", "gone", "linked")}
    changed: list[Path] = []
    fsync = os.fsync

    def failing(descriptor: int) -> None:
        # Whoever syncs the folder of a file that is changed already.
        if (project / "a").read_bytes() == b"new" and not changed:
            changed.append(project / "a")
            raise OSError(5, "injected")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(FileError, match="a was not written: the disk reported") as refusal:
        files.write_all(
            [WriteTarget(path=name, content=b"new", expected=seen[name]) for name in seen]
        )
    workspace.close()

    assert changed
    assert "Nothing was changed" in refusal.value.hint
    assert contents(project) == OLD


def test_file_size_limit_rolls_everything_back(project, tmp_path):
    workspace = Workspace([project], project)
    files = workspace.at_call("c")
    targets = [
        WriteTarget(path="a", content=b"small", expected=files.read("a").identity),
        WriteTarget(path="b", content=b"x" * 5000, expected=files.read("b").identity),
    ]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(FileError, match="b was not written: the file would be larger"):
            files.write_all(targets)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        workspace.close()

    assert contents(project) == OLD


def test_transaction_without_a_journal_changes_nothing(project, tmp_path):
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(FileError, match="journal of this change cannot be written"):
        change(project, tmp_path / "file" / "journals")

    assert contents(project) == OLD


def stopping_change(project: Path, journals: Path, last: int, kind: str) -> None:
    """The change in a process that is killed or fails at the step `last`."""
    count = 0
    ours = (".dirge-", "a", "b", "gone", "linked", "made", str(journals))

    def at_each_step(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in ("os.rename", "os.link", "os.remove", "os.truncate", "open"):
            return
        if not str(arguments[0]).startswith(ours):
            return
        if event == "open" and not arguments[2] & (os.O_CREAT | os.O_WRONLY):
            return
        count += 1
        if count == last:
            if kind == "kill":
                os._exit(9)
            raise OSError(5, "injected")

    sys.addaudithook(at_each_step)
    change(project, journals)


def run_child(project: Path, journals: Path, at: int, kind: str) -> int:
    exit_code, _, errors = run_forked(
        stopping_change,
        *(project, journals, at, kind),
        environment=os.environ,
        cwd=project,
        patience_s=30,
    )
    assert exit_code in (0, 9) or "injected" in errors, errors
    return exit_code


def test_interrupted_transaction_is_completed_or_rolled_back_at_the_next_start(tmp_path: Path):
    journals = tmp_path / "journals"
    ends = []
    for at in range(1, 60, 5):
        project = tmp_path / f"project-{at}"
        fill(project)
        code = run_child(project, journals, at, "kill")

        with_notices = Workspace([project], project, journals=journals)
        with_notices.close()

        ends.append(contents(project))
        assert ends[-1] in (OLD, NEW), (at, with_notices.notices)
        assert os.listdir(journals) == []
        if code == 0:
            break
    assert {b"old a", b"new a"} == {end["a"] for end in ends}


def test_system_error_at_any_step_rolls_everything_back(tmp_path: Path):
    codes = []
    for at in range(2, 60, 9):
        project = tmp_path / f"project-{at}"
        fill(project)
        journals = tmp_path / f"journals-{at}"
        codes.append(run_child(project, journals, at, "fail"))

        found = contents(project)
        visible = {name: held for name, held in found.items() if not name.startswith(".dirge-")}
        assert visible in (OLD, NEW), at
        # An old copy that could not be removed goes at the next start.
        Workspace([project], project, journals=journals).close()
        assert contents(project) == visible, at
        if codes[-1] == 0:
            break
    assert codes[0] == 1


def test_file_changed_after_the_crash_is_kept_and_its_backup_named(project, tmp_path):
    journals = tmp_path / "journals"
    entry = RollbackEntry.of(str(project / "a"), "digest of before", b"what the change wrote")
    (project / entry.backup).write_bytes(b"old a")
    RollbackJournal.open(journals, [entry]).close(keep=True)

    workspace = Workspace([project], project, journals=journals)
    workspace.close()

    assert (project / "a").read_bytes() == b"old a"
    assert entry.backup in workspace.notices[0]
    assert (project / entry.backup).read_bytes() == b"old a"
    assert os.listdir(journals) == []


def test_journal_of_a_running_process_or_another_project_is_kept(project, tmp_path):
    journals = tmp_path / "journals"
    ours = RollbackEntry.of(str(project / "a"), None, b"old a")
    theirs = RollbackEntry.of("/somewhere/else", None, b"x")
    living = RollbackJournal.open(journals, [ours])
    RollbackJournal.open(journals, [theirs]).close(keep=True)

    Workspace([project], project, journals=journals).close()

    assert (project / "a").read_bytes() == b"old a"
    assert len(os.listdir(journals)) == 2
    living.close(keep=False)
