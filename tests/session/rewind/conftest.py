"""The fixture `project`, without snapshots of its own."""

from pathlib import Path

import pytest

from tests.support.project import ScriptedProject


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(tmp_path)
    # Where files matter, the test takes snapshots itself: see rewind_driver.py.
    project.configure("\n[session]\nsnapshots = false\n")
    monkeypatch.chdir(project.folder)
    return project
