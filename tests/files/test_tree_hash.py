"""The hash of a tree changes with any file, however quickly it is taken again."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.files import tree_hash
from dirge_py.files.tree_hash import TreeHash, sha256_of_files
from tests.support.requirements import as_nobody

ROOT = Path(__file__).parents[2]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose content is read, in order."""
    found: list[str] = []
    original = tree_hash.open_beneath

    def noted(anchor: int, path: str, flags: int) -> int:
        found.append(path)
        return original(anchor, path, flags)

    monkeypatch.setattr(tree_hash, "open_beneath", noted)
    return found


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes files count as unchanged for long, as tests cannot set the change time."""
    monkeypatch.setattr(tree_hash, "SETTLED_NS", -(10**12))


def rewrite_in_place(path: Path) -> None:
    status = path.stat()
    path.write_bytes(bytes(reversed(path.read_bytes())))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def make_program(path: Path) -> None:
    path.chmod(0o755)


def replace_by_link(path: Path) -> None:
    content = path.read_bytes()
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    assert path.read_bytes() == content


@pytest.mark.parametrize("change", [rewrite_in_place, make_program, replace_by_link, os.unlink])
def test_every_kind_of_change_changes_the_hash(
    tmp_path: Path, settled: None, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "a"
    path.write_text("one two")
    hashes = TreeHash(str(tmp_path))
    before = hashes.read(["a"])

    change(path)

    assert hashes.read(["a"]).sha256 != before.sha256


def test_second_hash_reads_only_changed_files(
    tmp_path: Path, settled: None, reads: list[str]
) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    hashes = TreeHash(str(tmp_path))
    first = hashes.read(["a", "b", "c"])
    reads.clear()

    (tmp_path / "b").write_text("another")
    second = hashes.read(["a", "b", "c"])

    assert reads == ["b"]
    assert second.files["a"] == first.files["a"] and second.files["b"] != first.files["b"]


def test_recently_changed_files_are_read_again(tmp_path: Path, reads: list[str]) -> None:
    # Two changes within one tick of the clock leave the same size and the same times.
    (tmp_path / "a").write_text("one")
    hashes = TreeHash(str(tmp_path))
    hashes.read(["a"])

    hashes.read(["a"])

    assert reads == ["a", "a"]


def test_file_changed_and_changed_back_is_reported_once(tmp_path: Path, settled: None) -> None:
    for name in "ab":
        (tmp_path / name).write_text("one")
    (tmp_path / "link").symlink_to("a")
    names = ["a", "b", "link"]
    hashes = TreeHash(str(tmp_path))
    first = hashes.read(names)

    status = (tmp_path / "a").stat()
    (tmp_path / "a").write_text("two")
    (tmp_path / "a").write_text("one")
    os.utime(tmp_path / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    second, third = hashes.read(names), hashes.read(names)

    assert first.rewritten == [] and second.rewritten == ["a"] and third.rewritten == []
    assert first.sha256 == second.sha256 == third.sha256


def test_hash_stopped_within_a_file_caches_nothing(tmp_path: Path, settled: None) -> None:
    (tmp_path / "a").write_bytes(b"x" * (3 << 20))
    hashes, whole = TreeHash(str(tmp_path)), TreeHash(str(tmp_path)).read(["a"])
    asked: list[int] = []

    def is_stopped() -> bool:
        asked.append(1)
        return len(asked) > 1

    assert hashes.read(["a"], is_stopped).sha256 != whole.sha256
    assert hashes.read(["a"]).sha256 == whole.sha256


def test_links_are_hashed_by_target_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("one")
    root = tmp_path / "root"
    root.mkdir()
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    hashes = TreeHash(str(root))
    before = hashes.read(["file", "folder/secret", "folder"])

    (outside / "secret").write_text("two")

    assert sorted(before.files) == ["file", "folder"]
    assert hashes.read(["file", "folder/secret", "folder"]).sha256 == before.sha256
    (root / "file").unlink()
    (root / "file").symlink_to("/elsewhere")
    assert hashes.read(["file", "folder"]).sha256 != before.sha256


def test_special_files_are_skipped(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()

    assert TreeHash(str(tmp_path)).read(["pipe", "folder", "missing", "a\0b"]).files == {}


def test_unreadable_files_are_reported(open_tmp_path: Path, tmp_path: Path) -> None:
    (tmp_path / "open").write_text("x")
    (tmp_path / "closed").write_text("x")
    (tmp_path / "closed").chmod(0)
    script = (
        "import sys; from dirge_py.files.tree_hash import TreeHash; "
        "found = TreeHash(sys.argv[1]).read(['open', 'closed']); print(*found.files, *found.unread)"
    )
    command = [*as_nobody(), sys.executable, "-c", script, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert ended.stdout.split() == ["open", "closed"], ended.stderr


TREES = st.dictionaries(
    st.sampled_from(["a", "b/c", "b/d", "é", "x\ny"]),
    st.tuples(st.binary(max_size=3), st.booleans()),
    max_size=4,
)


def grown(root: Path, tree: dict[str, tuple[bytes, bool]]) -> dict[str, str]:
    for name, (content, is_program) in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if is_program else 0o644)
    return TreeHash(str(root)).read([*tree, *reversed(tree)]).files


@settings(max_examples=25, deadline=None)
@given(one=TREES, other=TREES)
def test_trees_with_any_difference_have_different_hashes(one, other) -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        hashes = [grown(Path(first), one), grown(Path(second), other)]

    assert (sha256_of_files(hashes[0]) == sha256_of_files(hashes[1])) == (one == other)
