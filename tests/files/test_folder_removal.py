"""Removing a temporary folder, whatever it contains, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

from dirge_py.files.working_copy import remove_tree
from tests.support.requirements import as_nobody, lacking, require_root_tools

ROOT = Path(__file__).parents[2]


ODD = """
import os, sys
from dirge_py.files.working_copy import remove_tree
os.makedirs(sys.argv[1] + "/a/b/c")
open(sys.argv[1] + "/a/b/c/file", "w").close()
os.symlink(sys.argv[2], sys.argv[1] + "/a/out")
for path in ("/a/b/c", "/a/b", "/a"):
    os.chmod(sys.argv[1] + path, 0)
print(remove_tree(sys.argv[1]))
"""


def test_copy_with_odd_modes_is_removed(open_tmp_path: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    tmp_path.chmod(0o777)
    copy = tmp_path / "copy"
    command = [*as_nobody(), sys.executable, "-c", ODD, str(copy), str(kept)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert ended.stdout == "True\n", ended.stderr
    assert not copy.exists() and (kept / "file").exists()


def test_deep_copy_is_removed(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    folder = os.open(copy, os.O_RDONLY)
    for _ in range(1050):
        os.mkdir("a", dir_fd=folder)
        deeper = os.open("a", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = deeper
    os.close(folder)

    try:
        assert remove_tree(str(copy)) and not copy.exists()
    finally:
        # What stays here would be too deep for whoever clears the folders of tests, too.
        subprocess.run(["rm", "-rf", str(copy)], check=True)


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    kept, copy = tmp_path / "kept", tmp_path / "copy"
    kept.mkdir()
    (kept / "file").write_text("x")
    (copy / "a").mkdir(parents=True)
    (copy / "a/folder").symlink_to(kept)
    (copy / "file").symlink_to(kept / "file")
    (tmp_path / "link").symlink_to(kept)

    assert remove_tree(str(copy))
    assert not remove_tree(str(tmp_path / "link"))
    assert (kept / "file").exists()


def test_mounted_folder_in_a_copy_is_not_removed(tmp_path: Path) -> None:
    require_root_tools("mount", "umount")
    kept, copy = tmp_path / "kept", tmp_path / "a copy"
    kept.mkdir()
    (kept / "file").write_text("dear")
    (copy / "here").mkdir(parents=True)
    if subprocess.run(["mount", "--bind", kept, copy / "here"], capture_output=True).returncode:
        lacking("permission to mount")
    try:
        assert not remove_tree(str(copy))
        assert (kept / "file").read_text() == "dear"
    finally:
        subprocess.run(["umount", copy / "here"], check=True)
    assert remove_tree(str(copy)) and (kept / "file").exists()


def test_lock_file_of_a_copy_is_removed_last(tmp_path: Path) -> None:
    require_root_tools("chattr")
    (tmp_path / "copy/in").mkdir(parents=True)
    (tmp_path / "copy/lock").write_text("ours")
    (tmp_path / "copy/in/stays").write_text("x")
    held = str(tmp_path / "copy/in/stays")
    if subprocess.run(["chattr", "+i", held], capture_output=True).returncode:
        lacking("a file system with attributes")
    try:
        assert not remove_tree(str(tmp_path / "copy"), last="lock")
        assert (tmp_path / "copy/lock").exists()
    finally:
        subprocess.run(["chattr", "-i", held], check=True)
    assert remove_tree(str(tmp_path / "copy"), last="lock")
