"""The index reader compared with git's own listing."""

import os
import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dirge_py.git.repository import UnreadableRepository
from dirge_py.permission.git.files import Index, read_index

from .conftest import QUIET_GIT, Project

LETTERS = "abc/é\n \t.-"


def submodules_listed_by_git(project: Project, root: Path) -> set[str]:
    listed = project.git("ls-files", "-s", "-z", cwd=root).split("\0")
    return {entry.partition("\t")[2] for entry in listed if entry.startswith("160000")}


def random_names(choice: random.Random, count: int) -> list[str]:
    names = {"".join(choice.choices(LETTERS, k=choice.randint(1, 12))) for _ in range(count)}
    kept = {"n/" + name.strip("/").replace("/", "x/y") + "z" for name in names}
    return sorted(kept)


def add_entries(project: Project, root: Path, names: list[str], hash_: str) -> None:
    choice = random.Random(len(names))
    lines = [f"{choice.choice(['160000', '100644'])} {hash_}\t{name}" for name in names]
    file = project.home / "entries"
    file.write_text("".join(f"{line}\0" for line in lines))
    with file.open() as stream:
        subprocess.run(
            ["git", "update-index", "-z", "--index-info"],
            cwd=root,
            env={**os.environ, **QUIET_GIT},
            stdin=stream,
            check=True,
        )


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("split", [False, True])
def test_read_index_finds_the_submodules_that_git_lists(
    own_project: Project, version: str, object_format: str, split: bool
) -> None:
    root = own_project.root / "one"
    own_project.git("init", "-q", f"--object-format={object_format}", str(root))
    hash_bytes = 20 if object_format == "sha1" else 32
    own_project.git("config", "index.version", version, cwd=root)
    add_entries(own_project, root, random_names(random.Random(4), 60), "12" * hash_bytes)
    if split:
        own_project.git("update-index", "--split-index", cwd=root)
        add_entries(own_project, root, random_names(random.Random(5), 9), "12" * hash_bytes)

    found = read_index(str(root / ".git"), hash_bytes=hash_bytes)

    assert len(found.links) > 10
    # For a split index, entries that were removed since the split are found, too.
    assert set(found.links) >= submodules_listed_by_git(own_project, root)
    assert split or set(found.links) == submodules_listed_by_git(own_project, root)


def test_read_index_handles_index_with_entry_blocks(own_project: Project) -> None:
    root = own_project.root
    own_project.git("config", "index.threads", "4")
    own_project.git("config", "index.version", "4")
    add_entries(own_project, root, [f"d/{number:06}" for number in range(25_000)], "12" * 20)
    assert b"IEOT" in (root / ".git/index").read_bytes()

    found = read_index(str(root / ".git"))

    assert set(found.links) == submodules_listed_by_git(own_project, root)


@pytest.fixture
def index(own_project: Project) -> Path:
    own_project.git("add", "README.md", "notes.txt")
    return own_project.root / ".git/index"


def test_changed_index_is_read_again(own_project: Project, index: Path) -> None:
    assert read_index(str(index.parent)) == Index()
    own_project.git("update-index", "--add", "--cacheinfo", f"160000,{'12' * 20},sub")
    assert read_index(str(index.parent)) == Index(links=("sub",))


def test_missing_shared_index_raises_error(own_project: Project, index: Path) -> None:
    own_project.git("update-index", "--split-index")
    read_index(str(index.parent))
    next(index.parent.glob("sharedindex.*")).unlink()

    with pytest.raises(OSError):
        read_index(str(index.parent))


def wrong_length(content: bytes) -> bytes:
    at = 12 + 60
    return content[:at] + struct.pack(">H", 3) + content[at + 2 :]


def nul_in_name(content: bytes) -> bytes:
    return content.replace(b"README.md", b"READ\0E.md")


def extension_elsewhere(content: bytes) -> bytes:
    """A wrong end of the entries: git would read the extensions from there."""
    entry = b"EOIE" + struct.pack(">II", 24, 12) + bytes(20)
    return content[:-20] + entry + bytes(20)


def endless_extension(content: bytes) -> bytes:
    return content[:-20] + b"TREE" + struct.pack(">I", 4000) + bytes(20)


def other_blocks(content: bytes) -> bytes:
    blocks = b"IEOT" + struct.pack(">IIII", 12, 1, 40, 2)
    return content[:-20] + blocks + bytes(20)


def too_many_entries(content: bytes) -> bytes:
    return content[:8] + struct.pack(">I", 4) + content[12:]


def replaced_by_a_repository(content: bytes) -> bytes:
    entry = bytes(24) + struct.pack(">I", 0o160000) + bytes(32) + bytes(2) + bytes(10)
    return content[:8] + struct.pack(">I", 1) + entry + bytes(20)


@pytest.mark.parametrize(
    "change",
    [wrong_length, nul_in_name, extension_elsewhere, endless_extension, other_blocks,
     too_many_entries, replaced_by_a_repository],
)  # fmt: skip
def test_malformed_index_raises_error(index: Path, change: Callable[[bytes], bytes]) -> None:
    index.write_bytes(change(index.read_bytes()))

    with pytest.raises((UnreadableRepository, struct.error, ValueError, LookupError)):
        read_index(str(index.parent))
