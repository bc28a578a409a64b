from datetime import UTC, datetime
from pathlib import Path

from dirge_py.sdk.sessions import changes_since
from dirge_py.session.history import LoadedSession, SessionDescription

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def session_begun_in(cwd: str, *, updated: str) -> LoadedSession:
    return LoadedSession(description=SessionDescription(cwd=cwd, updated=updated))


def test_g07_session_resumed_in_another_folder_names_its_first_folder() -> None:
    loaded = session_begun_in("/there", updated="2026-03-02T11:00:00.000Z")

    notices = list(changes_since(loaded, cwd=Path("/here"), now=NOON))

    assert notices == ["this session was started in /there and continues in /here."]


def test_g07_session_resumed_after_a_day_names_its_age() -> None:
    loaded = session_begun_in("/here", updated="2026-03-01T11:00:00.000Z")

    notices = list(changes_since(loaded, cwd=Path("/here"), now=NOON))

    assert notices == ["this session was last used a day ago; files may have changed since."]


def test_new_session_has_no_notices() -> None:
    assert list(changes_since(LoadedSession(), cwd=Path("/here"), now=NOON)) == []
