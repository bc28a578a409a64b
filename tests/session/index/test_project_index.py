"""The index of sessions as a front end gets it."""

from pathlib import Path

from dirge_py.config.load import load
from dirge_py.sdk.sessions import open_store
from dirge_py.session.index.session_index import SessionIndex
from tests.session.conftest import Clock
from tests.support.stored_sessions import exchange, record


def test_index_of_configured_store_lists_and_finds_its_sessions(tmp_path: Path) -> None:
    environment = {"DIRGE_CONFIG_DIR": str(tmp_path), "DIRGE_STATE_DIR": str(tmp_path / "state")}
    config = load(environment=environment)
    store = open_store(config, tmp_path)
    store._clock = Clock()
    record(store, "s", exchange("fix the parser", "Done."))

    index = SessionIndex(tmp_path / "state", store.folder.name)

    assert [one.id for one in index.sessions()] == ["s"]
    assert [one.session_id for one in index.search(["parser"])] == ["s", "s"]
