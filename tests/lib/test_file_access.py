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
def test_file_writable_only_by_its_owner_is_safe(file: Path, mode: int) -> None:
    file.chmod(mode)

    assert weakness_of(str(file)) is None
    assert read_regular(file, 10, is_own=True) == b"x\n"


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o646, 0o777])
def test_world_writable_file_is_unsafe(file: Path, mode: int) -> None:
    file.chmod(mode)

    found = weakness_of(str(file))

    assert found is not None
    assert (found.words, found.fix) == ("can be written by other users", f"chmod go-w {file}")
    with pytest.raises(UnsafeFile, match="can be written by other users"):
        read_regular(file, 10, is_own=True)


def test_file_in_a_world_writable_folder_is_unsafe(file: Path) -> None:
    file.parent.chmod(0o777)
    found = weakness_of(str(file))
    assert found is not None
    assert found.fix == f"chmod go-w {file.parent}"

    # In a folder like /tmp nobody replaces the files of others.
    file.parent.chmod(0o1777)
    assert weakness_of(str(file)) is None


def test_link_is_checked_with_its_folder_and_that_of_its_target(file: Path) -> None:
    link = file.parent.parent / "links/link"
    link.parent.mkdir()
    link.symlink_to(file)
    assert weakness_of(str(link)) is None

    link.parent.chmod(0o777)
    assert weakness_of(str(link)) is not None

    link.parent.chmod(0o755)
    file.parent.chmod(0o777)
    assert weakness_of(str(link)) is not None


def test_file_owned_by_another_user_is_unsafe(file: Path) -> None:
    nobody = as_nobody()
    owned = {}
    for uid in (0, NOBODY, STRANGER):
        os.chown(file, uid, uid)
        owned[uid] = seen_by(nobody, file)[0]

    assert owned[0] == owned[NOBODY] == ""
    assert "belongs to another user" in owned[STRANGER]


def test_file_in_a_folder_of_another_user_is_unsafe(file: Path) -> None:
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


def test_write_access_of_a_group_without_other_members_is_safe(file: Path) -> None:
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


def test_readable_secret_is_reported_if_others_can_reach_it(file: Path) -> None:
    found = readable_by_others(str(file))
    assert found is not None
    assert (found.words, found.fix) == ("can be read by other users", f"chmod go-rwx {file}")

    file.parent.chmod(0o700)
    assert readable_by_others(str(file)) is None

    file.parent.chmod(0o755)
    file.chmod(0o600)
    assert readable_by_others(str(file)) is None


def test_readable_secret_owned_by_root_is_not_reported(file: Path) -> None:
    nobody = as_nobody()
    file.chmod(0o444)

    assert seen_by(nobody, file) == ["", ""]
