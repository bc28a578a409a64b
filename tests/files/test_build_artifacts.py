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
def test_a_product_is_known_by_its_name(path: str) -> None:
    assert is_build_artifact(path)


@pytest.mark.parametrize(
    "path", ["app/main.py", "cache/keys.txt", "main.object", "o", "coverage/report.py", "x.log"]
)
def test_what_somebody_may_have_written_is_none(path: str) -> None:
    assert not is_build_artifact(path)
