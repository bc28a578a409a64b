"""The fixture `plugin_folder`: an empty folder for plugins."""

from pathlib import Path

import pytest

from tests.support.plugins import PluginFolder


@pytest.fixture
def plugin_folder(tmp_path: Path) -> PluginFolder:
    folder = tmp_path / "plugins"
    folder.mkdir()
    return PluginFolder(folder)
