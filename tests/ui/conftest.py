"""A place to work in, and one model for all conversations of a test."""

from pathlib import Path

import pytest

from tests.conversation.room import Room
from tests.ui import entry_points

entry_points.share()


@pytest.fixture
def room(home: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(home)
    monkeypatch.chdir(room.project)
    return room
