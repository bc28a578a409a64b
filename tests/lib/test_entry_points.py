"""Entry points of installed packages are found with and without the standard library's search."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from dirge_py.lib.entry_points import entry_points_of


@pytest.mark.parametrize("group", ["pytest11", "console_scripts", "dirge.nothing"])
def test_entry_points_are_those_of_the_standard_library(group: str) -> None:
    assert set(entry_points_of(group)) == set(metadata.entry_points(group=group))


def test_search_in_vain_imports_nothing() -> None:
    code = """
import sys
from dirge_py.lib.entry_points import entry_points_of
assert entry_points_of("dirge.nothing") == ()
sys.exit("importlib.metadata" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_plugin_in_an_archive_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "plugins.zip"
    with ZipFile(archive, "w") as file:
        file.writestr(
            "one-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: one\nVersion: 1.0"
        )
        file.writestr("one-1.0.dist-info/entry_points.txt", "[dirge.nothing]\na = one:register\n")
    monkeypatch.syspath_prepend(str(archive))

    assert [each.name for each in entry_points_of("dirge.nothing")] == ["a"]
