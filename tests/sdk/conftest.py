"""Fixtures: a scripted model, and tools that log their calls."""

from pathlib import Path

import pytest

from dirge_py.testing import ScriptedModel


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DIRGE_STATE_DIR", str(tmp_path / "state"))
    return ScriptedModel()
