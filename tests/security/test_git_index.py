"""Damaged and crafted indexes: git finds no repository that the reader missed."""

import os
import random
import struct
import subprocess
from pathlib import Path

import pytest

from dirge_py.git.repository import UnreadableRepository
from dirge_py.permission.git.files import read_index
from tests.permission.conftest import QUIET_GIT, Project
from tests.permission.test_git_index import add_entries, random_names
from tests.security.sizes import count, size

PIECES = [b"\0", b"\xe0", b"\xe1\xff", b"link", b"EOIE", b"IEOT", b"TREE", b"\0\0\xe0\0", b"\xff"]


def told_by_git(root: Path) -> set[bytes] | None:
    """The paths that git takes for submodules; None if it rejects the index."""
    done = subprocess.run(
        ["git", "ls-files", "-s", "-z"],
        cwd=root,
        env={**os.environ, **QUIET_GIT},
        capture_output=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        return None
    entries = [entry.partition(b"\t") for entry in done.stdout.split(b"\0") if entry]
    return {name for head, _, name in entries if int(head.split()[0], 8) & 0o170000 == 0o160000}


def told_by_us(git_dir: Path) -> set[bytes] | None:
    try:
        return set(map(os.fsencode, read_index(str(git_dir)).links))
    except (OSError, UnreadableRepository, ValueError, struct.error, LookupError):
        return None


def changed(choice: random.Random, content: bytes) -> bytes:
    for _ in range(choice.randint(1, 4)):
        at = choice.randrange(12, len(content))
        piece = choice.choice([*PIECES, bytes([choice.randrange(256)])])
        kind = choice.random()
        # In its place mostly: what is put between moves all that follows.
        behind = at if kind < 0.1 else at + len(piece)
        content = content[:at] + piece + content[behind:]
    return content


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("split", [False, True])
def test_git_index_cannot_hide_a_nested_repository(
    tmp_path: Path, version: str, split: bool
) -> None:
    project = Project(tmp_path.resolve())
    project.workspace.close()
    index = project.root / ".git/index"
    project.git("config", "index.version", version)
    add_entries(project, project.root, random_names(random.Random(4), 12), "12" * 20)
    if split:
        project.git("update-index", "--split-index")
        add_entries(project, project.root, random_names(random.Random(5), 4), "12" * 20)
    whole = index.read_bytes()
    choice = random.Random(11)
    tried, read, overlooked = size(25, 3000), 0, []
    for _ in range(tried):
        content = changed(choice, whole)
        index.write_bytes(content)
        by_git, by_us = told_by_git(project.root), told_by_us(index.parent)
        read += by_git is not None
        if by_git is not None and by_us is not None and not by_git <= by_us:
            overlooked.append((content, by_git - by_us))

    count("git: changed indexes", tried, len(overlooked), f"hid a repository ({read} read by git)")
    assert overlooked == []
    assert read > 0
