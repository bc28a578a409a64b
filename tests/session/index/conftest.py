import pytest

from dirge_py.session.index.index import SessionIndex
from tests.session.conftest import clock, project, store

__all__ = ["clock", "project", "store"]


@pytest.fixture
def index(tmp_path, store):
    return SessionIndex(tmp_path / "state", store.folder.name)
