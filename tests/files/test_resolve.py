import contextlib
import os
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.files.resolve import absolute, resolve
from dirge_py.lib.paths import is_below_any
from dirge_py.types.errors import FileError
from tests.security.sizes import size


def test_dot_dot_after_a_link_is_the_parent_of_its_target(tmp_path: Path):
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "far" / "here").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "deep")

    assert resolve(f"{tmp_path}/link/../here").real == f"{tmp_path}/far/here"


def test_a_dangling_link_leads_to_its_missing_target(tmp_path: Path):
    (tmp_path / "link").symlink_to("gone/file")

    resolved = resolve(f"{tmp_path}/link")

    assert (resolved.real, resolved.kind) == (f"{tmp_path}/gone/file", "missing")


def test_a_link_loop_is_an_error(tmp_path: Path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(FileError, match="40 links"):
        resolve(f"{tmp_path}/a")


def test_path_below_a_file_is_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("x")

    with pytest.raises(FileError, match="not a folder"):
        resolve(f"{tmp_path}/file/x")


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
def test_impossible_file_name_is_refused(path: str):
    with pytest.raises(FileError):
        absolute(path, "/")


def test_dot_dot_after_a_missing_folder_is_refused(tmp_path: Path):
    with pytest.raises(FileError, match="does not exist"):
        resolve(f"{tmp_path}/missing/../x")


def test_a_tilde_is_the_home_folder():
    assert absolute("~/x", "/") == os.path.expanduser("~/x")


def test_path_with_a_common_prefix_is_not_below_the_folder():
    assert not is_below_any("/home/u/project-2/x", ["/home/u/project"])
    assert is_below_any("/home/u/project/x", ["/home/u/project"])
    assert is_below_any("/anything", ["/"])


names = st.sampled_from(["a", "b", "c"])
targets = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=4).map(
    "/".join
)


@settings(max_examples=size(50, 150), deadline=None)
@given(
    links=st.lists(st.tuples(names, names, targets), max_size=6),
    asked=st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=6).map(
        "/".join
    ),
)
def test_resolved_path_is_the_one_that_the_kernel_opens(tmp_path_factory, links, asked):
    base = tmp_path_factory.mktemp("walk")
    for folder in string.ascii_lowercase[:3]:
        (base / folder / "a").mkdir(parents=True)
    for folder, name, target in links:
        if not os.path.lexists(base / folder / name):
            (base / folder / name).symlink_to(target)
    path = f"{base}/{asked}"

    try:
        descriptor = os.open(path, os.O_PATH)
    except OSError:
        descriptor = None
    if descriptor is None:
        with contextlib.suppress(FileError):
            assert not resolve(path).exists
        return
    try:
        assert resolve(path).real == os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
