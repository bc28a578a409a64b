"""Detecting files that other users can write or read."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dirge_py.files.safe_read import read_regular
from dirge_py.lib.own_file import UnsafeFile, readable_by_others, weakness_of
from tests.support.product import ROOT
from tests.support.requirements import as_nobody, lacking, require_root_tools

NOBODY = 65534
STRANGER = 1000
SEEN = """
import json, sys
from dirge_py.lib.own_file import readable_by_others, weakness_of
found = [getattr(look(sys.argv[1]), "words", "") for look in (weakness_of, readable_by_others)]
print(json.dumps(found))
"""


def seen_by(prefix: Sequence[str], file: Path) -> list[str]:
    """The weakness of the file as another user's process reports it."""
    command = [*prefix, sys.executable, "-c", SEEN, str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    found: list[str] = json.loads(ended.stdout)
    return found


@pytest.fixture
def file(open_tmp_path: Path, tmp_path: Path) -> Path:
    """A file in a folder that everybody may enter."""
    made = tmp_path / "own/file"
    made.parent.mkdir(mode=0o755)
    made.write_text("x\n")
    made.chmod(0o644)
    return made


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o755, 0o444])
def test_a_file_that_only_its_owner_writes_is_ones_own(file: Path, mode: int) -> None:
    file.chmod(mode)

    assert weakness_of(str(file)) is None
    assert read_regular(file, 10, is_own=True) == b"x\n"


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o646, 0o777])
def test_a_file_that_all_can_write_is_not(file: Path, mode: int) -> None:
    file.chmod(mode)

    found = weakness_of(str(file))

    assert found is not None
    assert (found.words, found.fix) == ("can be written by other users", f"chmod go-w {file}")
    with pytest.raises(UnsafeFile, match="can be written by other users"):
        read_regular(file, 10, is_own=True)


def test_a_folder_in_which_all_can_put_files_counts_for_its_files(file: Path) -> None:
    file.parent.chmod(0o777)
    found = weakness_of(str(file))
    assert found is not None
    assert found.fix == f"chmod go-w {file.parent}"

    # In a folder like /tmp nobody replaces the files of others.
    file.parent.chmod(0o1777)
    assert weakness_of(str(file)) is None


def test_a_link_is_judged_by_its_own_folder_and_by_that_of_its_file(file: Path) -> None:
    link = file.parent.parent / "links/link"
    link.parent.mkdir()
    link.symlink_to(file)
    assert weakness_of(str(link)) is None

    link.parent.chmod(0o777)
    assert weakness_of(str(link)) is not None

    link.parent.chmod(0o755)
    file.parent.chmod(0o777)
    assert weakness_of(str(link)) is not None


def test_the_owner_has_to_be_oneself_or_root(file: Path) -> None:
    nobody = as_nobody()
    owned = {}
    for uid in (0, NOBODY, STRANGER):
        os.chown(file, uid, uid)
        owned[uid] = seen_by(nobody, file)[0]

    assert owned[0] == owned[NOBODY] == ""
    assert "belongs to another user" in owned[STRANGER]


def test_a_folder_of_another_user_counts_for_its_files(file: Path) -> None:
    os.chown(file.parent, STRANGER, STRANGER) if os.geteuid() == 0 else lacking("root")

    assert "belongs to another user" in seen_by(as_nobody(), file)[0]


def member_of_a_group_of_its_own() -> tuple[list[str], int]:
    """A command prefix for a user with a private group; the user's id."""
    require_root_tools("setpriv")
    try:
        user = pwd.getpwnam("daemon")
    except KeyError:
        lacking("the user daemon")
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *ids], user.pw_uid


def test_a_group_without_other_members_may_write(file: Path) -> None:
    as_nobody()  # skips where another user cannot run this Python
    prefix, user = member_of_a_group_of_its_own()
    group = pwd.getpwuid(user).pw_gid
    os.chown(file.parent, user, group)
    file.parent.chmod(0o775)
    file.chmod(0o664)

    os.chown(file, user, group)
    assert seen_by(prefix, file)[0] == ""
    os.chown(file, user, STRANGER)
    assert seen_by(prefix, file)[0] == "can be written by other users"


def test_a_file_that_others_can_read_is_told_where_they_can_reach_it(file: Path) -> None:
    found = readable_by_others(str(file))
    assert found is not None
    assert (found.words, found.fix) == ("can be read by other users", f"chmod go-rwx {file}")

    file.parent.chmod(0o700)
    assert readable_by_others(str(file)) is None

    file.parent.chmod(0o755)
    file.chmod(0o600)
    assert readable_by_others(str(file)) is None


def test_a_secret_that_root_hands_to_all_is_as_it_is(file: Path) -> None:
    nobody = as_nobody()
    file.chmod(0o444)

    assert seen_by(nobody, file) == ["", ""]
