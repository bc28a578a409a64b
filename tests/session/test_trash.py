import multiprocessing
import os

import pytest

from dirge_py.session.store import Trash
from dirge_py.types.errors import SessionBusy, SessionError
from tests.support.stored_sessions import exchange, record

DAY_S = 24 * 60 * 60


@pytest.fixture
def trash(tmp_path, clock):
    return Trash(tmp_path / "state", clock=clock)


def everything(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def kept(store):
    """A session with every kind of file, beside another one."""
    record(store, "20261120-aaa111", exchange("fix it", "Done."))
    record(store, "20261120-bbb222", exchange("and this", "Done."))
    output = store.folder / "20261120-aaa111" / "output"
    output.mkdir(parents=True)
    (output / "1.txt").write_text("long output")
    (store.folder / "20261120-aaa111.damaged").write_bytes(b"\0\0")
    return everything(store.folder)


def test_deleting_session_moves_all_its_files_and_no_others_to_trash(store, trash, kept):
    where = trash.add(store, "20261120-aaa111")

    assert where.name == f"20261118-{store.folder.name}-20261120-aaa111"
    assert set(everything(store.folder)) == {"20261120-bbb222.jsonl"}
    assert set(everything(where)) == {
        "20261120-aaa111.jsonl",
        "20261120-aaa111.damaged",
        "20261120-aaa111/output/1.txt",
    }
    assert where.stat().st_mode & 0o777 == where.parent.stat().st_mode & 0o777 == 0o700


def test_restoring_deleted_session_brings_back_exactly_its_files(store, trash, kept):
    trash.add(store, "20261120-aaa111")

    assert trash.restore(store, "aaa") == "20261120-aaa111"

    assert everything(store.folder) == kept
    assert trash.sessions_of(store.folder.name) == []


def test_restore_picks_latest_of_two_deletions_on_same_day(store, trash):
    for text in ("first", "second"):
        record(store, "s", exchange(text, "Done."))
        trash.add(store, "s")

    trash.restore(store, "s")

    assert store.read("s").description.title == "second"
    with pytest.raises(SessionError, match="A new session s already exists"):
        trash.restore(store, "s")
    trash.add(store, "s")
    assert len(trash.sessions_of(store.folder.name)) == 2


def test_deleted_session_is_removed_from_trash_after_a_week(store, trash, kept, clock):
    trash.add(store, "20261120-aaa111")
    clock.now += 7 * DAY_S
    trash.empty_old()
    assert len(trash.sessions_of(store.folder.name)) == 1

    clock.now += DAY_S
    trash.empty_old()

    assert trash.sessions_of(store.folder.name) == []
    assert list((store.folder.parents[1] / "trash").iterdir()) == []


def test_emptying_trash_removes_only_deleted_sessions(store, trash, tmp_path, clock):
    (tmp_path / "treasure").mkdir()
    (tmp_path / "treasure/gold").touch()
    folder = tmp_path / "state/trash"
    folder.mkdir(parents=True)
    (folder / "notes").mkdir()
    (folder / "20200101-old-s").symlink_to(tmp_path / "treasure")
    (folder / "99999999-odd-s").mkdir()

    trash.empty_old()

    assert (tmp_path / "treasure/gold").exists()
    assert sorted(path.name for path in folder.iterdir()) == [
        "20200101-old-s",
        "99999999-odd-s",
        "notes",
    ]


def test_session_in_use_is_neither_deleted_nor_renamed(store, trash, kept):
    journal = store.open("20261120-aaa111")

    with pytest.raises(SessionBusy, match="in use by process") as deleted:
        trash.add(store, "20261120-aaa111")
    with pytest.raises(SessionBusy, match="in use by process") as renamed:
        store.rename("20261120-aaa111", "other")

    journal.close()
    assert everything(store.folder) == kept
    hints = {error.value.hint for error in (deleted, renamed)}
    assert hints == {"End the other dirge, then try again."}


@pytest.mark.parametrize("name", ["../../x", ".hidden", "", "..", "a/b"])
def test_session_name_with_path_is_rejected_by_delete_and_restore(
    store, trash, kept, tmp_path, name
):
    outside = tmp_path / "x.jsonl"
    outside.touch()

    with pytest.raises(SessionError):
        trash.add(store, name)
    with pytest.raises(SessionError):
        trash.restore(store, name)

    assert outside.exists()
    assert {k: v for k, v in everything(store.folder).items() if not k.endswith(".lock")} == kept


def test_two_processes_deleting_one_session_delete_it_once(store, trash, kept):
    context = multiprocessing.get_context("fork")
    outcomes = context.Queue()

    def delete():
        try:
            outcomes.put(trash.add(store, "20261120-aaa111").name)
        except SessionError:
            outcomes.put(None)

    both = [context.Process(target=delete) for _ in range(2)]
    for each in both:
        each.start()
    found = [outcomes.get(timeout=30) for _ in both]
    for each in both:
        each.join()

    assert found.count(None) == 1
    assert len(trash.sessions_of(store.folder.name)) == 1
    assert not os.path.lexists(store.folder / "20261120-aaa111.lock")


def test_restoring_ambiguous_or_unknown_session_fails(store, trash, kept):
    trash.add(store, "20261120-aaa111")
    trash.add(store, "20261120-bbb222")

    with pytest.raises(SessionError, match="matches 2 deleted sessions"):
        trash.restore(store, "2026")
    with pytest.raises(SessionError, match="No deleted session"):
        trash.restore(store, "zzz")


def make_old(store, session_id, clock, days):
    at = clock.now - days * DAY_S
    os.utime(store.folder / f"{session_id}.jsonl", (at, at))


def test_unused_sessions_go_to_trash_and_others_stay(store, trash, kept, clock):
    make_old(store, "20261120-aaa111", clock, 31)
    make_old(store, "20261120-bbb222", clock, 29)
    output = store.folder / "20261120-aaa111" / "output" / "1.txt"
    os.utime(output, (0, 0))

    trash.add_unused(30)

    assert set(everything(store.folder)) == {"20261120-bbb222.jsonl"}
    assert [name for name, _ in trash.sessions_of(store.folder.name)] == ["20261120-aaa111"]


def test_unused_session_that_is_open_stays(store, trash, kept, clock):
    make_old(store, "20261120-aaa111", clock, 31)
    journal = store.open("20261120-aaa111")
    try:
        trash.add_unused(30)
        assert "20261120-aaa111.jsonl" in everything(store.folder)
    finally:
        journal.close()


def test_restored_session_is_not_deleted_again(store, trash, kept, clock):
    make_old(store, "20261120-aaa111", clock, 31)
    make_old(store, "20261120-bbb222", clock, 1)
    trash.add_unused(30)
    trash.restore(store, "20261120-aaa111")

    trash.add_unused(30)

    assert everything(store.folder) == kept
