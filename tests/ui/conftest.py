"""The fixture `project`, in the test's home."""

from pathlib import Path

import pytest

from tests.support import entry_point_cache
from tests.support.project import ScriptedProject

entry_point_cache.share()


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(home)
    monkeypatch.chdir(project.folder)
    return project
