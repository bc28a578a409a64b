"""A desk to write plugins at."""

from pathlib import Path

import pytest

from tests.extensions.plugins.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    folder = tmp_path / "plugins"
    folder.mkdir()
    return Desk(folder)
