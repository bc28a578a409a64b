"""Asking a program something short."""

import os
from pathlib import Path

import pytest

from dirge_py.errors import ProcessError
from dirge_py.processes.brief import run_briefly


@pytest.mark.parametrize("path", [".", "", "sub", "/usr/bin::/bin"])
def test_the_folder_that_is_worked_in_offers_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub"):
        (folder / "wl-copy").write_text("#!/bin/sh\necho pwned\n")
        (folder / "wl-copy").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    with pytest.raises(ProcessError, match="wl-copy cannot be started"):
        run_briefly(["wl-copy"], limit_s=5)

    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{tmp_path}")
    assert run_briefly(["wl-copy"], limit_s=5).out == b"pwned\n"
