"""Places that cannot be written: it says so, goes on where it can, and breaks nothing."""

import os
import shutil
from pathlib import Path

import pytest

from tests.files.requirement import as_nobody, small_disk
from tests.frontend.print.product import Product
from tests.providers.server import Say

READ = Say(calls=[("read", {"path": "a.txt"})])
EDIT = Say(calls=[("edit", {"path": "a.txt", "old_text": "one", "new_text": "two"})])


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(b"\0" * 4096):
                pass
        except OSError:
            return


def test_a_full_disk_under_the_session_is_told_and_changes_wait(product: Product) -> None:
    product.configure("[loop.gates]\nresume = 0\n")
    with small_disk(product.state_dir, "size=64k"):
        product.file("a.txt", "one\n")
        # Whoever stops right after a failure is asked about it once.
        product.will(Say(text="first"), READ, EDIT, Say(text="I could not."), Say(text="So be it."))
        product.ask("--session", "kept", "x")
        fill(product.state_dir)

        ran = product.ask("-r", "kept", "y")

        assert ran.exit_code == 0
        assert ran.json["result"] == "I could not."
        assert "memory" in ran.stderr
        assert "of session kept were not saved." in ran.stderr
        assert (product.project / "a.txt").read_text() == "one\n"
        (product.state_dir / "filler").unlink()
        product.will(Say(text="again"))
        assert product.ask("-r", "kept", "z").exit_code == 0


def test_a_full_disk_under_the_project_leaves_the_file_as_it_was(product: Product) -> None:
    shutil.rmtree(product.project)
    with small_disk(product.project, "size=64k"):
        product.file("a.txt", "one\n" + "x" * 8000)
        fill(product.project)
        product.will(READ, EDIT, Say(text="No room."), Say(text="So be it."))

        ran = product.ask("x")

        assert ran.exit_code == 0
        assert "space" in product.sent(2)[-1]["content"].lower()
        assert (product.project / "a.txt").read_text() == "one\n" + "x" * 8000
        assert sorted(path.name for path in product.project.iterdir()) == ["a.txt", "filler"]


def test_a_state_folder_that_cannot_be_made_is_told(product: Product) -> None:
    (product.base / "blocker").write_text("")

    ran = product.ask("x", env={"DIRGE_STATE_DIR": str(product.base / "blocker" / "state")})

    assert ran.exit_code == 1
    assert "blocker" in ran.stderr
    assert "--no-session" in ran.stderr
    assert ran.json["session_id"] is None
    assert product.service.requests == []


@pytest.fixture
def stranger(open_tmp_path: Path, product: Product) -> list[str]:
    """The words before a command that run it as nobody, who may read and not write here."""
    return as_nobody()


def test_a_project_that_cannot_be_written_is_told_to_the_model(
    product: Product, stranger: list[str]
) -> None:
    product.file("a.txt", "one\n")
    os.mkdir(product.state_dir)
    os.chown(product.state_dir, 65534, 65534)
    product.will(READ, EDIT, Say(text="I may not."))

    ran = product.run_apart("-p", "x", prefix=stranger)

    assert (ran.exit_code, ran.stdout) == (0, "I may not.\n")
    assert "denied" in product.sent()[-1]["content"].lower()
    assert (product.project / "a.txt").read_text() == "one\n"
    assert [path.name for path in product.project.iterdir() if path.name != ".git"] == ["a.txt"]


def test_settings_that_may_not_be_read_are_told(product: Product, stranger: list[str]) -> None:
    (product.config_dir / "config.toml").chmod(0o600)

    ran = product.run_apart("-p", "x", prefix=stranger)

    assert ran.exit_code == 2
    assert "config.toml" in ran.stderr


def test_a_home_that_is_missing_does_not_matter(product: Product) -> None:
    product.will(Say(text="pong"))

    assert product.run_forked("-p", "ping", env={"HOME": "/nonexistent"}).stdout == "pong\n"


def test_a_working_folder_that_is_gone_is_told(product: Product) -> None:
    words = ["bash", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "bash"]

    ran = product.run_apart("-p", "x", prefix=words)

    assert ran.exit_code == 2
    assert "folder" in ran.stderr
