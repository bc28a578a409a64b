import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.session.ids import check_session_id, new_session_id, project_id, project_root
from dirge_py.session.index.sources import sessions_in
from dirge_py.session.journal import read_journal
from dirge_py.session.recorder import Recorder
from dirge_py.session.segments import read_from, segment_numbers
from dirge_py.session.store import Store
from dirge_py.types.errors import SessionBusy, SessionError
from dirge_py.types.events import AgentEnd, MessageEnd
from dirge_py.types.messages import AssistantMessage, TextBlock, UserMessage, user_text
from dirge_py.types.outcomes import Done


def record_prompts(store, session_id, *texts):
    journal = store.open_or_create(session_id)
    recorder = Recorder(journal, clock=store._clock)
    recorder.load()
    for text in texts:
        recorder.sink(MessageEnd(user_text(text)))
    recorder.close()
    return journal


def texts_of(store, session_id):
    return [message.text for message in store.read(session_id).messages]


def test_session_journal_is_stored_in_folder_of_its_project(store, tmp_path, project):
    record_prompts(store, "s", "hi")

    assert (tmp_path / "state/sessions" / project_id(project) / "s.jsonl").is_file()


def test_session_files_and_folders_are_private_to_owner(store, tmp_path):
    record_prompts(store, "s", "hi")

    for folder, _, files in os.walk(tmp_path / "state"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600


def test_session_header_holds_folder_project_root_and_version(store, project):
    record_prompts(store, "s", "hi")

    header = read_journal(store.folder / "s.jsonl").records[0].data

    assert header == {
        "id": "s",
        "created": header["created"],
        "cwd": str(project),
        "project_root": str(project),
        "app_version": "1.2.3",
    }


def test_listing_and_finding_sessions_creates_no_files(store, tmp_path):
    assert store.list() == []
    assert store.newest() is None
    with pytest.raises(SessionError):
        store.open("s")

    assert not (tmp_path / "state").exists()


def test_session_is_found_by_id_or_unique_prefix(store):
    # G17: an id may be shorter than the usual prefix
    for session_id in ("a", "20261120-b3k7qx", "20261120-b4aaaa", "20261121-c00000"):
        record_prompts(store, session_id, "hi")

    assert store.find("a") == "a"
    assert store.find("20261120-b3") == "20261120-b3k7qx"
    assert store.find("b3k") == "20261120-b3k7qx"
    assert store.find("c") == "20261121-c00000"


def test_ambiguous_session_prefix_error_names_five_newest_sessions(store):
    for n in range(7):
        record_prompts(store, f"x{n}", "hi")

    with pytest.raises(SessionError) as ambiguous:
        store.open("x")

    message = str(ambiguous.value)
    assert message == "'x' matches 7 sessions: x2, x3, x4, x5, x6 and 2 older."


def test_complete_session_id_is_never_ambiguous(store):
    record_prompts(store, "x", "hi")
    record_prompts(store, "xy", "hi")

    assert store.find("x") == "x"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "a/b",
            "a\\b",
            "a b",
            "a\n",
            "é",
            "x" * 129,
            "a\0b",
        ),
        *("s.jsonl", "s.lock", "s.damaged"),
    ],
)
def test_invalid_session_ids_are_rejected_and_create_no_files(store, tmp_path, name):
    for attempt in (store.open, store.find, store.read):
        with pytest.raises(SessionError):
            attempt(name)
    for attempt in (store.open_or_create, store.create):
        if name:
            with pytest.raises(SessionError):
                attempt(name)

    assert not [at for at in tmp_path.rglob("*") if at.is_file()]


@given(st.text("abcXYZ019._-", min_size=1, max_size=128))
def test_any_name_of_allowed_characters_is_valid_session_id(name):
    if name not in (".", "..") and not name.endswith((".jsonl", ".lock", ".damaged")):
        assert check_session_id(name) == name


def test_creating_existing_session_id_fails(store):
    record_prompts(store, "s", "hi")

    with pytest.raises(SessionError, match="already exists"):
        store.create("s")


def test_creating_session_that_is_being_written_raises_session_busy(store):
    journal = store.create("s")

    with pytest.raises(SessionBusy):
        store.create("s")
    journal.close()


@given(st.lists(st.floats(0, 4e9), min_size=2, max_size=5))
def test_session_ids_sort_by_creation_time(moments):
    ids = [new_session_id(moment)[:-2] for moment in sorted(moments)]

    assert ids == sorted(ids)
    assert all(len(session_id) == 13 for session_id in ids)


def test_session_ids_created_at_same_instant_differ(store):
    journals = [store.create() for _ in range(60)]

    assert len({journal.id for journal in journals}) == 60
    for journal in journals:
        journal.close()


def test_project_root_is_enclosing_git_work_tree(tmp_path):
    nested = tmp_path / "My Projéct!" / "src" / "deep"
    nested.mkdir(parents=True)
    (tmp_path / "My Projéct!" / ".git").write_text("gitdir: elsewhere")
    link = tmp_path / "link"
    link.symlink_to(nested)

    assert project_root(link) == tmp_path / "My Projéct!"
    assert project_id(link) == project_id(tmp_path / "My Projéct!")
    assert project_id(nested).startswith("my-proj-ct-")
    assert project_id(tmp_path) != project_id(nested)


def test_newest_session_is_the_last_used_one(store, clock):
    for session_id in ("a", "b", "a"):
        clock.now += 10
        record_prompts(store, session_id, "hi")

    assert [summary.id for summary in store.list()] == ["a", "b"]
    assert store.newest().id == "a"


def test_session_list_shows_title_times_message_count_model_and_folder(store, clock, project):
    recorder = Recorder(store.create("s"), clock=clock)
    recorder.note_model("work/big")
    recorder.sink(MessageEnd(user_text("Why does\n  the build fail? " + "x" * 100)))
    recorder.sink(MessageEnd(AssistantMessage(content=(TextBlock("because " * 5000),))))
    clock.now += 60
    recorder.note_model("work/small")
    recorder.sink(AgentEnd(messages=(), outcome=Done()))
    recorder.sink(MessageEnd(user_text("and now?")))
    recorder.close()

    summary = store.newest()

    assert summary.title == ("Why does the build fail? " + "x" * 100)[:79] + "…"
    assert (summary.updated - summary.started).total_seconds() == 60
    assert (summary.id, summary.messages, summary.model) == ("s", 3, "work/small")
    assert summary.cwd == str(project)


def test_session_killed_in_first_run_is_listed(store):
    recorder = Recorder(store.create("s"))
    recorder.sink(MessageEnd(user_text("hi")))
    recorder.sink(MessageEnd(AssistantMessage(content=(TextBlock("x" * 100_000),))))

    (summary,) = store.list()
    recorder.close()

    assert (summary.title, summary.messages) == ("hi", 2)


def test_session_list_leaves_out_empty_files_folders_and_links(store, tmp_path):
    record_prompts(store, "s", "hi")
    (store.folder / "empty.jsonl").write_bytes(b"")
    (store.folder / "folder.jsonl").mkdir()
    (store.folder / "link.jsonl").symlink_to(store.folder / "s.jsonl")
    (store.folder / "rubbish.jsonl").write_bytes(b"\0\xff" * 5000)

    assert {summary.id for summary in store.list()} == {"s", "rubbish"}


def test_session_with_very_long_first_prompt_is_listed_with_shortened_title(store):
    record_prompts(store, "s", "Why? " + "x" * 1_000_000, "and now?")

    [summary] = store.list()

    assert (summary.id, summary.title, summary.messages) == ("s", "Why? " + "x" * 74 + "…", 2)


def test_session_list_reads_only_start_and_end_of_journal(store, monkeypatch):
    recorder = Recorder(store.create("s"))
    recorder.sink(MessageEnd(user_text("x" * 500_000)))
    recorder.sink(AgentEnd(messages=(), outcome=Done()))
    recorder.close()
    read = []

    def counted(*place):
        found = read_from(*place)
        read.append(len(found))
        return found

    monkeypatch.setattr("dirge_py.session.index.sources.read_from", counted)

    store.list()

    assert sum(read) == 24 * 1024
    assert len(read) == 2


def test_session_is_listed_with_its_latest_title(store):
    recorder = Recorder(store.create("s"))
    recorder.sink(MessageEnd(user_text("hi")))
    recorder.note("title", {"title": "the parser"})
    recorder.close()

    assert store.newest().title == "the parser"


def test_fork_and_original_session_grow_independently(store):
    record_prompts(store, "s", "one", "two")

    fork = store.fork("s", "f")
    fork.close()
    record_prompts(store, "f", "three")
    record_prompts(store, "s", "four")

    assert texts_of(store, "f") == ["one", "two", "three"]
    assert texts_of(store, "s") == ["one", "two", "four"]
    assert store.read("f").description.forked_from == "s"
    assert store.read("f").description.title == "one"


def test_fork_keeps_record_ids_and_times(store, clock):
    record_prompts(store, "s", "one", "two")
    clock.now += 3600

    store.fork("s", "f").close()

    original = read_journal(store.folder / "s.jsonl").records[1:]
    copied = read_journal(store.folder / "f.jsonl").records[1:-1]
    assert [(r.id, r.ts, r.data) for r in copied] == [(r.id, r.ts, r.data) for r in original]


def test_fork_at_record_ends_at_that_record(store):
    record_prompts(store, "s", "one", "two", "three")
    second = store.read("s").record_ids[1]

    store.fork("s", "f", at=second).close()

    assert texts_of(store, "f") == ["one", "two"]


def test_session_in_use_can_be_forked_and_read(store):
    journal = store.create("s")
    recorder = Recorder(journal)
    recorder.sink(MessageEnd(user_text("hi")))

    fork = store.open("s", fork=True)

    assert fork.id != "s"
    assert texts_of(store, "s") == texts_of(store, fork.id) == ["hi"]
    fork.close()
    recorder.close()


def test_fork_at_unknown_record_fails_and_leaves_no_files(store):
    record_prompts(store, "s", "hi")
    before = sorted(store.folder.iterdir())

    with pytest.raises(SessionError):
        store.fork("s", "f", at="nowhere")

    assert sorted(store.folder.iterdir()) == before


def test_fork_copies_assets_of_original_session(store):
    record_prompts(store, "s", "hi")
    assets = store.folder / "s" / "assets"
    assets.mkdir(parents=True)
    (assets / "a1").write_bytes(b"png")

    store.fork("s", "f").close()

    assert (store.folder / "f" / "assets" / "a1").read_bytes() == b"png"


def test_state_folder_that_cannot_be_created_raises_error_with_hint(project, tmp_path):
    (tmp_path / "state").write_text("a file in the way")

    with pytest.raises(SessionError) as refused:
        Store(tmp_path / "state", project).create()

    assert "--no-session" in refused.value.hint


def test_reading_damaged_session_changes_no_file(store):
    record_prompts(store, "s", "hi")
    path = store.folder / "s.jsonl"
    path.write_bytes(path.read_bytes() + b'{"v":1,"seq":9')
    before = {at.name: at.read_bytes() for at in store.folder.iterdir()}

    assert isinstance(store.read("s").messages[0], UserMessage)

    assert {at.name: at.read_bytes() for at in store.folder.iterdir()} == before


def test_session_deleted_during_listing_is_left_out(store, monkeypatch):
    def delete_first(first):
        first.unlink(missing_ok=True)
        return segment_numbers(first)

    record_prompts(store, "gone", "hi")
    record_prompts(store, "stays", "hi")
    (store.folder / "gone").mkdir()
    monkeypatch.setattr("dirge_py.session.index.sources.segment_numbers", delete_first)

    assert [summary.id for summary in store.list()] == ["stays"]
    assert list(sessions_in(store.folder)) == ["stays"]
