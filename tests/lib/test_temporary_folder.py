"""Temporary folders, and what is left of them after a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dirge_py.lib.temporary_folder import TemporaryFolder, remove_abandoned

_KILLED = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
from dirge_py.lib.temporary_folder import TemporaryFolder
folder = TemporaryFolder("session").path
open(os.path.join(folder, "file"), "w").close()
os.kill(os.getpid(), signal.SIGKILL)
"""


def make_old(folder: str) -> None:
    before = time.time() - 3600
    os.utime(folder, (before, before))


def test_folder_is_gone_after_remove_with_its_contents():
    with TemporaryFolder("session") as path:
        Path(path, "file").touch()
    assert not os.path.exists(path)


def test_folder_of_a_killed_program_is_removed_later_and_one_in_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own, other = TemporaryFolder("session"), tmp_path / "dirge-tmp-notes"
    other.mkdir()

    remove_abandoned(str(tmp_path))
    assert left.exists(), "it may not be locked yet"

    for folder in (str(left), own.path, str(other)):
        make_old(folder)
    remove_abandoned(str(tmp_path))
    assert sorted(tmp_path.iterdir()) == sorted([Path(own.path), other])
    own.remove()
