import pytest

from dirge_py.session.store import Store


class Clock:
    """Seconds since 1970 that change only when set."""

    def __init__(self, now: float = 1_795_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def store(tmp_path, project, clock):
    return Store(tmp_path / "state", project, app_version="1.2.3", clock=clock)
