"""How messages name the command that starts dirge again."""

from pathlib import Path

import pytest

from dirge_py.lib.paths import own_command


@pytest.fixture
def clone(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program in a clone, which isn't on PATH; the current folder is another one."""
    program = home / "clone" / ".venv" / "bin" / "dirge"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PWD", str(home / "clone"))
    monkeypatch.chdir("/")
    return program


def test_program_outside_path_is_named_by_its_path(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for called in (str(clone), ".venv/bin/dirge", "../clone/.venv/bin/dirge"):
        monkeypatch.setattr("sys.argv", [called])
        assert own_command() == "~/clone/.venv/bin/dirge"


def test_path_with_blank_is_quoted(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = clone.with_name("my bin") / "dirge"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setattr("sys.argv", [str(program)])
    assert own_command() == f"'{program}'"


def test_another_dirge_on_path_is_not_named(
    clone: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = home / "bin" / "dirge"
    other.parent.mkdir()
    monkeypatch.setenv("PATH", str(other.parent))
    monkeypatch.setattr("sys.argv", [str(clone)])
    other.symlink_to(clone)
    assert own_command() == "dirge"

    other.unlink()
    other.touch(mode=0o755)
    assert own_command() == "~/clone/.venv/bin/dirge"
