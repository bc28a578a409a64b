"""Folders that can't be written: a message, and the run continues where it can."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.fake_service import ModelReply
from tests.support.product import Product
from tests.support.requirements import as_nobody, small_disk

READ = ModelReply(calls=[("read", {"path": "a.txt"})])
EDIT = ModelReply(calls=[("edit", {"path": "a.txt", "old_text": "one", "new_text": "two"})])


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(b"\0" * 4096):
                pass
        except OSError:
            return


def test_full_state_disk_is_reported_and_edits_are_refused(product: Product) -> None:
    product.configure("[loop.gates]\nresume = 0\n")
    with small_disk(product.state_dir, "size=64k"):
        product.file("a.txt", "one\n")
        # A run that stops right after a failure is sent back once.
        product.will(
            ModelReply(text="first"),
            READ,
            EDIT,
            ModelReply(text="I could not."),
            ModelReply(text="So be it."),
        )
        product.ask("--session", "kept", "x")
        fill(product.state_dir)

        result = product.ask("-r", "kept", "y")

        assert result.exit_code == 0
        assert result.json["result"] == "I could not."
        assert "memory" in result.stderr
        assert "of session kept were not saved." in result.stderr
        assert (product.project / "a.txt").read_text() == "one\n"
        (product.state_dir / "filler").unlink()
        product.will(ModelReply(text="again"))
        assert product.ask("-r", "kept", "z").exit_code == 0


def test_full_project_disk_leaves_file_unchanged(product: Product) -> None:
    shutil.rmtree(product.project)
    with small_disk(product.project, "size=64k"):
        product.file("a.txt", "one\n" + "x" * 8000)
        fill(product.project)
        product.will(READ, EDIT, ModelReply(text="No room."), ModelReply(text="So be it."))

        result = product.ask("x")

        assert result.exit_code == 0
        assert "space" in product.sent(2)[-1]["content"].lower()
        assert (product.project / "a.txt").read_text() == "one\n" + "x" * 8000
        assert sorted(path.name for path in product.project.iterdir()) == ["a.txt", "filler"]


def test_state_folder_that_cannot_be_created_is_reported(product: Product) -> None:
    (product.base / "blocker").write_text("")

    result = product.ask("x", env={"DIRGE_STATE_DIR": str(product.base / "blocker" / "state")})

    assert result.exit_code == 1
    assert "blocker" in result.stderr
    assert "--no-session" in result.stderr
    assert result.json["session_id"] is None
    assert product.service.requests == []


@pytest.fixture
def stranger(open_tmp_path: Path, product: Product) -> list[str]:
    """A command prefix that runs the command as user nobody, who can read but not write here."""
    return as_nobody()


def test_read_only_project_is_reported_to_model(product: Product, stranger: list[str]) -> None:
    product.file("a.txt", "one\n")
    os.mkdir(product.state_dir)
    os.chown(product.state_dir, 65534, 65534)
    product.will(READ, EDIT, ModelReply(text="I may not."))

    result = product.run_apart("-p", "x", prefix=stranger)

    assert (result.exit_code, result.stdout) == (0, "I may not.\n")
    assert "denied" in product.sent()[-1]["content"].lower()
    assert (product.project / "a.txt").read_text() == "one\n"
    assert [path.name for path in product.project.iterdir() if path.name != ".git"] == ["a.txt"]


def test_unreadable_settings_are_reported(product: Product, stranger: list[str]) -> None:
    (product.config_dir / "config.toml").chmod(0o600)

    result = product.run_apart("-p", "x", prefix=stranger)

    assert result.exit_code == 2
    assert "config.toml" in result.stderr


def test_missing_home_folder_is_tolerated(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    assert product.run_forked("-p", "ping", env={"HOME": "/nonexistent"}).stdout == "pong\n"


def test_deleted_working_folder_is_reported(product: Product) -> None:
    words = ["bash", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "bash"]

    result = product.run_apart("-p", "x", prefix=words)

    assert result.exit_code == 2
    assert "folder" in result.stderr
