"""Large results in separate files, transparent to readers of a session."""

import hashlib
import os
import stat

import pytest

from dirge_py.session.journal import Journal, read_journal
from dirge_py.session.recorder import Recorder
from dirge_py.types.errors import SessionError
from dirge_py.types.events import ContextReplaced, MessageEnd
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    user_text,
)

LONG = "a line – é😀\n" * 3000


def result(text=LONG, **details):
    return ToolResultMessage(
        tool_call_id="c", tool_name="bash", content=(TextBlock(text),), details=details
    )


def record_results(store, *results, session_id="s"):
    recorder = Recorder(store.open_or_create(session_id))
    for answer in results:
        recorder.sink(MessageEnd(user_text("run it")))
        call = ToolCallBlock(id="c", name="bash", arguments={})
        recorder.sink(MessageEnd(AssistantMessage(content=(call,))))
        recorder.sink(MessageEnd(answer))
    recorder.close()


def blobs_of(store, session_id="s"):
    return sorted((store.folder / session_id / "blobs").iterdir())


def results_of(store, session_id="s"):
    return [m for m in store.read(session_id).messages if isinstance(m, ToolResultMessage)]


def test_large_tool_result_is_stored_in_private_blob_named_by_its_hash(store):
    record_results(store, result(diff=LONG + "!"), result())

    named = {path.name: path.read_bytes() for path in blobs_of(store)}
    contents = [LONG.encode(), (LONG + "!").encode()]
    assert named == {hashlib.sha256(content).hexdigest(): content for content in contents}
    assert {stat.S_IMODE(path.stat().st_mode) for path in blobs_of(store)} == {0o600}
    assert stat.S_IMODE((store.folder / "s/blobs").stat().st_mode) == 0o700
    assert (store.folder / "s.jsonl").stat().st_size < 6000


def test_large_tool_result_is_read_back_unchanged(store):
    odd = result("x" * 20_000 + "half a pair \ud83d", at=["deep", {"down": "y" * 20_000}])
    record_results(store, odd, result())

    assert results_of(store) == [odd, result()]


def test_tool_result_up_to_size_limit_is_stored_in_its_record(store):
    record_results(store, result("x" * 16 * 1024))

    assert not (store.folder / "s").exists()
    assert results_of(store) == [result("x" * 16 * 1024)]


def test_large_tool_results_in_replaced_context_are_stored_as_blobs(store):
    recorder = Recorder(store.open_or_create("s"))
    call = ToolCallBlock(id="c", name="bash", arguments={})
    replaced = (user_text("x" * 20_000), AssistantMessage(content=(call,)), result())
    recorder.sink(MessageEnd(user_text("hi")))
    recorder.sink(ContextReplaced(messages=replaced))
    recorder.close()

    assert store.read("s").messages == replaced
    assert [path.read_text() for path in blobs_of(store)] == [LONG]


@pytest.mark.parametrize("damage", ["missing", "changed", "cut", "link"])
def test_missing_or_changed_blob_is_replaced_by_remark(store, damage):
    record_results(store, result())
    [blob] = blobs_of(store)
    if damage in ("missing", "link"):
        blob.unlink()
    if damage == "link":
        blob.symlink_to("/etc/passwd")
    elif damage == "changed":
        blob.write_bytes(blob.read_bytes().replace(b"a", b"b", 1))
    elif damage == "cut":
        blob.write_bytes(blob.read_bytes()[:-1])

    [damaged_result] = results_of(store)

    assert damaged_result.content[0].text.startswith("[This output is gone: blobs/")


def test_damaged_blob_is_rewritten_when_same_result_is_recorded_again(store):
    record_results(store, result())
    [blob] = blobs_of(store)
    blob.write_bytes(b"x" * blob.stat().st_size)

    record_results(store, result())

    assert results_of(store)[0] == result()


def test_forged_blob_references_in_record_are_ignored(store):
    journal = store.open_or_create("s")
    forged = {"at": ["content"], "sha256": "../../../../etc/passwd", "bytes": 1}
    for blobs in ([forged], [{"at": ["no"], "sha256": "0" * 64}], [7], ["x"], [{}]):
        message = {"role": "toolResult", "tool_call_id": "c", "content": "text", "blobs": blobs}
        journal.append("message", message)
    journal.close()

    records = read_journal(store.folder / "s.jsonl").records[1:]

    assert [record.data["content"] for record in records] == ["text"] * 5


def test_fork_keeps_blobs_after_original_session_is_deleted(store):
    record_results(store, result())

    store.fork("s", "f").close()
    (store.folder / "s.jsonl").unlink()
    [original] = blobs_of(store)
    original.unlink()

    assert results_of(store, "f") == [result()]
    assert original.name == blobs_of(store, "f")[0].name


def test_blob_that_cannot_be_written_leaves_journal_unchanged(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "s.jsonl")
    journal.append("a", None)
    before = (tmp_path / "s.jsonl").read_bytes()
    (tmp_path / "s").write_text("in the way")

    message = {"role": "toolResult", "tool_call_id": "c", "content": LONG}
    with pytest.raises(SessionError, match="cannot be saved"):
        journal.append("message", message)
    unchanged = (tmp_path / "s.jsonl").read_bytes() == before
    (tmp_path / "s").unlink()
    journal.append("message", message)
    journal.close()

    assert unchanged
    assert read_journal(tmp_path / "s.jsonl").records[-1].data == message
    assert os.listdir(tmp_path / "s/blobs") == [hashlib.sha256(LONG.encode()).hexdigest()]
