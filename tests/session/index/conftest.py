import pytest

from dirge_py.session.index.session_index import SessionIndex


@pytest.fixture
def index(tmp_path, store):
    return SessionIndex(tmp_path / "state", store.folder.name)
