"""The fixture `project`, in the test's home."""

from pathlib import Path

import pytest

from tests.support.project import ScriptedProject


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(home)
    monkeypatch.chdir(project.folder)
    return project
