"""A room to talk in, and to go back in."""

from pathlib import Path

import pytest

from tests.conversation.room import Room


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(tmp_path)
    # Where files matter, the test keeps them itself: see kept.py.
    room.configure("\n[session]\nsnapshots = false\n")
    monkeypatch.chdir(room.project)
    return room
