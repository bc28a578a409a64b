"""The fixture `project`: a project for plans."""

from pathlib import Path

import pytest

from tests.support.plan_project import PlanProject


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlanProject:
    project = PlanProject(tmp_path)
    monkeypatch.chdir(project.folder)
    return project
