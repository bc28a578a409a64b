"""Drafts beside the journal: kept while a process runs, taken over after it ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from dirge_py.session.drafts import DraftFile, DraftState

_KEEPS = """
import os, sys
from pathlib import Path
from dirge_py.session.drafts import DraftFile, DraftState
file = DraftFile(Path(sys.argv[1]))
for n in range(1, len(sys.argv[2]) + 1):
    file.save(DraftState(draft=sys.argv[2][:n], stash=sys.argv[3:]))
print("kept", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "typed" / "project"


def typing(folder: Path, *words: str) -> "subprocess.Popen[bytes]":
    """A living process that has typed the text."""
    process = subprocess.Popen(
        [sys.executable, "-c", _KEEPS, str(folder), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(5) == b"kept\n"
    return process


def left(folder: Path, typed: DraftState) -> None:
    """A file that no process holds any more."""
    file = DraftFile(folder)
    file.save(typed)
    file.close()


def test_what_a_killed_process_had_typed_is_taken_over_once(folder: Path):
    process = typing(folder, "half a thought", "one", "two")
    assert DraftFile(folder).adopt_abandoned("") == DraftState()
    process.kill()
    process.communicate()
    mine = DraftFile(folder)
    assert mine.adopt_abandoned("") == DraftState(draft="half a thought", stash=("one", "two"))
    assert DraftFile(folder).adopt_abandoned("") == DraftState()
    mine.clear()
    assert list(folder.iterdir()) == []


def test_of_two_drafts_the_older_is_on_the_stash(folder: Path):
    for word in ("older", "newer"):
        process = typing(folder, word)
        process.kill()
        process.communicate()
    assert DraftFile(folder).adopt_abandoned("") == DraftState(draft="newer", stash=("older",))


def test_only_the_own_session_is_taken_over(folder: Path):
    left(folder, DraftState(draft="of another", session="s1"))
    assert DraftFile(folder).adopt_abandoned("") == DraftState()
    assert DraftFile(folder).adopt_abandoned("s1").draft == "of another"


def test_a_torn_line_leaves_the_state_before_it(folder: Path):
    left(folder, DraftState(draft="whole"))
    [path] = folder.iterdir()
    path.write_bytes(path.read_bytes() + b'\n{"session": "", "draft": "wh')
    assert DraftFile(folder).adopt_abandoned("").draft == "whole"


def test_nothing_typed_leaves_nothing_behind(folder: Path):
    file = DraftFile(folder)
    file.save(DraftState(draft="a"))
    [path] = folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    file.save(DraftState())
    assert list(folder.iterdir()) == []


def test_secrets_are_taken_out(folder: Path):
    file = DraftFile(folder, lambda text: text.replace("hunter2", "…"))
    file.save(DraftState(draft="hunter2"))
    file.close()
    assert DraftFile(folder).adopt_abandoned("").draft == "…"


def test_what_cannot_be_written_down_here_stays_where_it_was(folder: Path):
    left(folder, DraftState(draft="half a thought"))
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from dirge_py.session.drafts import DraftFile\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "print(DraftFile(Path(sys.argv[1])).adopt_abandoned('').draft)\n"
    )
    child = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True)

    assert child.stdout == "half a thought\n"
    assert DraftFile(folder).adopt_abandoned("") == DraftState(draft="half a thought")


def test_a_file_that_another_process_is_about_to_remove_is_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    mine = DraftFile(folder)
    with monkeypatch.context() as while_it_is_looked_at:
        while_it_is_looked_at.setattr("dirge_py.session.drafts.try_lock", lambda descriptor: False)
        mine.save(DraftState(draft="half a thought"))
    assert DraftFile(folder).adopt_abandoned("") == DraftState()
    mine.save(DraftState(draft="half a thought"))
    mine.close()
    assert DraftFile(folder).adopt_abandoned("") == DraftState(draft="half a thought")
