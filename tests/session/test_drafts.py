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


def start_process_that_types(folder: Path, *words: str) -> "subprocess.Popen[bytes]":
    """A living process that has typed the text."""
    process = subprocess.Popen(
        [sys.executable, "-c", _KEEPS, str(folder), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(5) == b"kept\n"
    return process


def write_abandoned_draft(folder: Path, typed: DraftState) -> None:
    """A file that no process holds any more."""
    file = DraftFile(folder)
    file.save(typed)
    file.close()


def test_draft_and_stash_of_killed_process_are_adopted_once(folder: Path):
    process = start_process_that_types(folder, "half a thought", "one", "two")
    assert DraftFile(folder).adopt_abandoned("") == DraftState()
    process.kill()
    process.communicate()
    mine = DraftFile(folder)
    assert mine.adopt_abandoned("") == DraftState(draft="half a thought", stash=("one", "two"))
    assert DraftFile(folder).adopt_abandoned("") == DraftState()
    mine.clear()
    assert list(folder.iterdir()) == []


def test_older_of_two_abandoned_drafts_goes_to_stash(folder: Path):
    for word in ("older", "newer"):
        process = start_process_that_types(folder, word)
        process.kill()
        process.communicate()
    assert DraftFile(folder).adopt_abandoned("") == DraftState(draft="newer", stash=("older",))


def test_only_drafts_of_same_session_are_adopted(folder: Path):
    write_abandoned_draft(folder, DraftState(draft="of another", session="s1"))
    assert DraftFile(folder).adopt_abandoned("") == DraftState()
    assert DraftFile(folder).adopt_abandoned("s1").draft == "of another"


def test_torn_draft_line_falls_back_to_previous_draft(folder: Path):
    write_abandoned_draft(folder, DraftState(draft="whole"))
    [path] = folder.iterdir()
    path.write_bytes(path.read_bytes() + b'\n{"session": "", "draft": "wh')
    assert DraftFile(folder).adopt_abandoned("").draft == "whole"


def test_empty_draft_removes_draft_file(folder: Path):
    file = DraftFile(folder)
    file.save(DraftState(draft="a"))
    [path] = folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    file.save(DraftState())
    assert list(folder.iterdir()) == []


def test_secrets_are_redacted_in_draft_file(folder: Path):
    file = DraftFile(folder, lambda text: text.replace("hunter2", "…"))
    file.save(DraftState(draft="hunter2"))
    file.close()
    assert DraftFile(folder).adopt_abandoned("").draft == "…"


def test_abandoned_draft_stays_in_its_file_when_it_cannot_be_copied(folder: Path):
    write_abandoned_draft(folder, DraftState(draft="half a thought"))
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


def test_draft_is_written_to_new_file_when_its_file_cannot_be_locked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    mine = DraftFile(folder)
    with monkeypatch.context() as patched:
        patched.setattr("dirge_py.session.drafts.try_lock", lambda descriptor: False)
        mine.save(DraftState(draft="half a thought"))
    assert DraftFile(folder).adopt_abandoned("") == DraftState()
    mine.save(DraftState(draft="half a thought"))
    mine.close()
    assert DraftFile(folder).adopt_abandoned("") == DraftState(draft="half a thought")
