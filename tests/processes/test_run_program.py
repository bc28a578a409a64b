"""Running a program for a short answer."""

import os
from pathlib import Path

import pytest

from dirge_py.processes.programs import find_inside, find_program, program_of_person, run_program
from dirge_py.types.errors import ProcessError


def write_program(path: Path, text: str = "#!/bin/sh\necho pwned\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("path", [".", "", "sub", "/usr/bin::/bin"])
def test_run_program_never_runs_program_from_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        write_program(folder / "wl-copy")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    with pytest.raises(ProcessError, match="wl-copy cannot be started"):
        run_program(["wl-copy"], limit_s=5)

    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{tmp_path}{os.pathsep}{tmp_path}/sub")
    with pytest.raises(ProcessError, match=f"is in the project, {tmp_path}/wl-copy"):
        run_program(["wl-copy"], limit_s=5)


@pytest.mark.parametrize("way", ["folder", "folder link", "program link", "link in the project"])
def test_symlink_does_not_make_project_program_a_user_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    project, others = tmp_path / "project", tmp_path / "others"
    inside = write_program(project / ".venv" / "bin" / "wl-copy")
    (project / ".git").mkdir()
    (project / "work").mkdir()
    others.mkdir()
    folder = inside.parent
    if way == "folder link":
        folder = others / "bin"
        folder.symlink_to(inside.parent)
    elif way == "program link":
        folder = others
        (others / "wl-copy").symlink_to(inside)
    elif way == "link in the project":
        # It could be another program under this name: `sh wl-copy x` runs the file `x`.
        inside.unlink()
        inside.symlink_to("/bin/sh")
    monkeypatch.chdir(project / "work")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/nowhere")

    assert find_program("wl-copy") is None
    assert find_inside("wl-copy") == f"{folder}/wl-copy"
    with pytest.raises(ProcessError, match="the only one on the PATH is in the project"):
        program_of_person("wl-copy")


def test_user_program_is_found_after_project_program_of_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "project" / "bin" / "wl-copy")
    theirs = write_program(tmp_path / "theirs" / "wl-copy", "#!/bin/sh\necho fine\n")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PATH", f"{tmp_path}/project/bin{os.pathsep}{tmp_path}/theirs")

    assert run_program(["wl-copy"], limit_s=5).out == b"fine\n"
    assert program_of_person("wl-copy") == str(theirs)
    assert program_of_person("./bin/wl-copy") == "./bin/wl-copy"


def test_programs_in_home_folder_used_as_project_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    write_program(tmp_path / ".local" / "bin" / "wl-copy", "#!/bin/sh\necho fine\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/.local/bin")

    assert run_program(["wl-copy"], limit_s=5).out == b"fine\n"
