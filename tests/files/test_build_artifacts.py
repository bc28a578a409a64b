"""Build artifacts, recognised by name."""

import pytest

from dirge_py.files.walk import is_build_artifact


@pytest.mark.parametrize(
    "path",
    [
        "app/__pycache__/main.cpython-311.pyc",
        ".pytest_cache/v/cache/lastfailed",
        "main.o",
        "build/Main.class",
        ".coverage",
        ".coverage.host.123",
        "coverage.xml",
    ],
)
def test_build_artifacts_are_recognized_by_name(path: str) -> None:
    assert is_build_artifact(path)


@pytest.mark.parametrize(
    "path", ["app/main.py", "cache/keys.txt", "main.object", "o", "coverage/report.py", "x.log"]
)
def test_files_that_people_write_are_no_build_artifacts(path: str) -> None:
    assert not is_build_artifact(path)
