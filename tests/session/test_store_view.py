"""Viewing a session that another process writes."""

import os

import pytest

from dirge_py.sdk.options import SessionChoice
from dirge_py.sdk.sessions import open_journal, refuse_to_send
from dirge_py.session.recorder import Recorder
from dirge_py.types.errors import SessionError
from dirge_py.types.events import MessageEnd
from dirge_py.types.messages import user_text

VIEW = SessionChoice(kind="view", id="s")


@pytest.fixture
def writer(store):
    """A process that writes the session `s`."""
    recorder = Recorder(store.create("s"))
    recorder.sink(MessageEnd(user_text("one")))
    yield recorder
    recorder.close()


def files_of(store):
    return {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}


def test_session_in_use_can_be_viewed_and_notice_names_writing_process(store, writer):
    before = files_of(store)

    shown = store.view("s")

    assert [message.text for message in shown.messages] == ["one"]
    why = f"because process {os.getpid()} uses it"
    assert shown.notices == (
        f"Session s is read-only {why}; `--fork-session` or /sessions continues it.",
    )
    assert files_of(store) == before


def test_view_shows_messages_written_since_last_view(store, writer):
    store.view("s")
    writer.sink(MessageEnd(user_text("two")))

    assert [message.text for message in store.view("s").messages] == ["one", "two"]


def test_session_without_writer_can_be_viewed(store, writer):
    writer.close()

    assert "because you opened it only to view it" in store.view("s").notices[0]


def test_viewing_unknown_session_fails(store):
    with pytest.raises(SessionError, match="no session"):
        store.view("s")


async def test_view_choice_opens_no_journal_and_refuses_to_send(store, writer):
    journal, notices = open_journal(store, VIEW)
    [refuse] = refuse_to_send(store, VIEW)

    assert (journal, notices) == (None, ())
    assert "read-only because process" in (await refuse(user_text("go on")) or "")


def test_new_and_named_session_choices_may_send(store):
    for choice in (SessionChoice(), SessionChoice(kind="named", id="s")):
        assert refuse_to_send(store, choice) == ()
