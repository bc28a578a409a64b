"""Updates: how dirge was installed, and the notice about a new version."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dirge_py.cli.main import run
from dirge_py.cli.update import install
from dirge_py.config.load import load
from dirge_py.config.schema import Config, config_from
from dirge_py.sdk.update import Installation, find_installation, is_newer, update_notices
from dirge_py.tools.web.package_index import newest_release
from dirge_py.types.errors import DirgeError, ProcessError
from tests.support.web_site import serving

PIPX = Installation(kind="pipx", command=("pipx", "upgrade", "dirge-py"))


@pytest.mark.parametrize(
    ("left", "kind", "command"),
    [
        ("pipx_metadata.json", "pipx", "pipx upgrade dirge-py"),
        ("uv-receipt.toml", "uv tool", "uv tool upgrade dirge-py"),
        ("", "pip", "-m pip install --upgrade dirge-py"),
    ],
)
def test_installation_is_known_by_what_its_installer_left(
    tmp_path: Path, left: str, kind: str, command: str
):
    if left:
        (tmp_path / left).touch()
    found = find_installation(tmp_path, tmp_path, is_editable=False)
    assert found.kind == kind
    assert " ".join(found.command).endswith(command)


def test_checkout_is_updated_by_git(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / ".git").mkdir()
    assert find_installation(tmp_path, tmp_path, is_editable=False).kind == "clone"
    assert run(["update", "--check"]) == 0
    assert "pull --ff-only" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("release", "newer"),
    [
        ("0.2.0", True), ("0.1.1", True), ("1", True), ("0.1", False), ("0.1.0", False),
        ("0.0.9", False), ("0.2.0rc1", False), ("nonsense", False), ("0.10", True),
    ],
)  # fmt: skip
def test_only_a_later_plain_release_is_newer(release: str, newer: bool):
    assert is_newer(release, than="0.1.0") is newer


@pytest.fixture
def config(tmp_path: Path) -> Config:
    folder = {"DIRGE_CONFIG_DIR": str(tmp_path / "c"), "DIRGE_STATE_DIR": str(tmp_path / "s")}
    return load(environment={"HOME": str(tmp_path), **folder})


def notices_at(now_s: float, config: Config, newest: Callable[[str], str]) -> tuple[str, ...]:
    """The notices of a start at this time, whose request has ended."""
    before = set(threading.enumerate())
    found = update_notices(config, installation=PIPX, newest=newest, now_s=lambda: now_s)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    return found


def test_notice_comes_at_a_later_start_and_once_a_day(config: Config):
    day_s = 24 * 3600.0
    calls: list[str] = []

    def newest(url: str) -> str:
        calls.append(url)
        return "99.0"

    assert notices_at(10 * day_s, config, newest) == ()
    (notice,) = notices_at(10 * day_s + 60, config, newest)
    assert "dirge 99.0 is available" in notice
    assert notices_at(10 * day_s + 120, config, newest) == ()
    assert len(calls) == 1
    assert len(notices_at(11 * day_s + 61, config, newest)) == 1
    assert len(calls) == 2


def test_no_index_is_asked_if_switched_off_or_in_a_clone(config: Config):
    def newest(url: str) -> str:
        raise AssertionError(url)

    clone = Installation(kind="clone", command=("git",))
    off = config_from({"update": {"check": False}}).with_origin(config.origin)
    assert update_notices(config, installation=clone, newest=newest) == ()
    assert update_notices(off, installation=PIPX, newest=newest) == ()


def test_request_in_vain_is_not_repeated_on_the_same_day(config: Config):
    calls: list[str] = []

    def newest(url: str) -> str:
        calls.append(url)
        raise DirgeError("offline")

    for now_s in (864_000.0, 864_060.0, 864_000.0 - 7_200.0):
        assert notices_at(now_s, config, newest) == ()
    assert len(calls) == 2, "again only after the clock was set back"


def test_no_index_is_asked_if_the_state_folder_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").touch()
    folder = {"HOME": str(tmp_path), "DIRGE_STATE_DIR": str(tmp_path / "file" / "s")}

    def newest(url: str) -> str:
        raise AssertionError(url)

    before = threading.active_count()
    assert update_notices(load(environment=folder), installation=PIPX, newest=newest) == ()
    assert threading.active_count() == before


def test_installer_runs_outside_of_the_project_and_must_install_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("print('the project has run this')")
    how = Installation(kind="pip", command=(sys.executable, "-m", "pip", "--version"))
    with pytest.raises(ProcessError, match="didn't install 99"):
        install(how, "99.0")
    assert "the project has run this" not in capfd.readouterr().out
    with pytest.raises(ProcessError, match="ended with exit code 3"):
        install(Installation(kind="pip", command=(sys.executable, "-c", "exit(3)")), "99.0")
    with pytest.raises(ProcessError, match="missing-installer cannot be started") as caught:
        install(Installation(kind="pipx", command=("missing-installer", "x")), "99.0")
    assert caught.value.hint == "Run `missing-installer x` yourself."


async def test_newest_release_is_read_from_the_index_and_errors_name_it():
    answer = json.dumps({"info": {"version": "1.2.3"}})
    async with serving({"/json": answer, "/odd": "[]"}) as site:
        url = f"http://{site.place}"
        assert await asyncio.to_thread(newest_release, f"{url}/json") == "1.2.3"
        with pytest.raises(DirgeError, match="answered 404"):
            await asyncio.to_thread(newest_release, f"{url}/none")
        with pytest.raises(DirgeError, match="look like a package index"):
            await asyncio.to_thread(newest_release, f"{url}/odd")
    with pytest.raises(DirgeError, match="No response from"):
        await asyncio.to_thread(newest_release, f"{url}/json")
