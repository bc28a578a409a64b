"""A room to make plans in."""

from pathlib import Path

import pytest

from tests.plan.workroom import Workroom


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workroom:
    room = Workroom(tmp_path)
    monkeypatch.chdir(room.project)
    return room
