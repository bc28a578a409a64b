"""The file of a waiting run: its content, and when it is rejected."""

import json
import os
import stat
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.session.recovery import (
    check_call,
    check_continuation,
    continuation_at,
    continuation_of,
    load_continuation,
    parse_continuation,
    save_continuation,
    title_of_call,
)
from dirge_py.session.transcript import undecided_result
from dirge_py.types.errors import SessionError
from dirge_py.types.messages import AssistantMessage, ToolCallBlock, Usage, user_text
from tests.session.test_transcript import answer, chain, deferred, started

USAGE = Usage(input=10, output=5, cache_read=2)
BATCH = AssistantMessage(
    content=tuple(
        ToolCallBlock(id=name, name="bash", arguments={"command": f"make {name}"}) for name in "abc"
    ),
    stop_reason="toolUse",
    usage=USAGE,
)


def paused(*more):
    """A session whose second call waits, followed by `more`."""
    awaits = ("deferred", {"call_ids": ["b", "c"], "description": "bash: ask"})
    header = ("session", {"cwd": "/w"})
    return chain(header, user_text("go"), BATCH, answer("a"), awaits, ("run_end", {}), *more)


def continuation():
    return continuation_of(paused(), session_id="s", project="p-1")


def error_of(records, found=None):
    with pytest.raises(SessionError) as caught:
        check_continuation(found or continuation(), records)
    assert caught.value.hint
    return str(caught.value)


def test_continuation_lists_waiting_and_completed_calls():
    assert continuation().as_json() == {
        "v": 1,
        "session_id": "s",
        "project": "p-1",
        "cwd": "/w",
        "journal_seq": 5,
        "turn": 1,
        "usage": {"input": 10, "output": 5, "cache_read": 2, "cache_write": 0},
        "calls": [
            {
                "id": name,
                "name": "bash",
                "args": {"command": f"make {name}"},
                "title": f"bash: make {name}",
            }
            for name in "abc"
        ],
        "awaiting": "b",
        "completed": ["a"],
        "description": "bash: ask",
    }


def test_saved_continuation_is_loaded_unchanged_and_is_private(tmp_path):
    path = save_continuation(continuation().as_json(), tmp_path / "continuations")

    assert load_continuation(path) == continuation()
    assert path.name.startswith("s-")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_each_pause_writes_its_own_continuation_file(tmp_path):
    first, second = (save_continuation(continuation().as_json(), tmp_path) for _ in range(2))

    assert first != second
    assert sorted(tmp_path.iterdir()) == sorted([first, second])


def test_unwritable_continuation_folder_is_reported(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(SessionError, match="Cannot write the continuation"):
        save_continuation(continuation().as_json(), tmp_path / "file")


def test_session_without_waiting_call_has_no_continuation():
    with pytest.raises(SessionError, match="no call that waits for a decision"):
        continuation_of(chain(user_text("go")), session_id="s", project="p")


def test_in_memory_history_with_waiting_call_has_continuation():
    found = continuation_at([user_text("go"), BATCH, answer("a")], session_id="thread", turn=3)

    assert (found.session_id, found.turn, found.awaiting) == ("thread", 3, "b")
    assert found.completed == ("a",)
    assert continuation_at([user_text("go"), BATCH, *map(answer, "abc")]) is None
    assert continuation_at([user_text("go")]) is None
    assert continuation_at([]) is None


def test_continuation_stays_valid_after_records_without_messages_or_calls():
    quiet = [
        ("mode", {"mode": "plan"}),
        ("model", {"model": "a/b"}),
        ("grant", {"action": "added", "rule": "read:/x"}),
        ("notice", {"content": "hm"}),
        ("run_start", {"run_id": "r"}),
        ("from the future", {}),
    ]

    check_continuation(continuation(), paused(*quiet))
    check_call(continuation(), "b")


@pytest.mark.parametrize(
    "later",
    [
        (user_text("never mind"),),
        (undecided_result(BATCH.calls[1]), user_text("never mind")),
        (user_text("never mind"), BATCH, started("b"), answer("b")),
        (("branch", {}),),
        (("context", {"messages": []}),),
    ],
    ids=["prompt", "call skipped by a prompt", "reused call id", "branch", "context"],
)
def test_continuation_is_stale_after_new_prompt_branch_or_context(later):
    assert "stale" in error_of(paused(*later))


@pytest.mark.parametrize(
    "later",
    [(started("b"),), (started("b"), answer("b")), (answer("b"), deferred("c"))],
    ids=["call started", "call answered", "next call waiting"],
)
def test_continuation_can_be_used_only_once(later):
    assert "used already: 'bash: make b'" in error_of(paused(*later))


def test_continuation_with_changed_call_arguments_is_rejected():
    calls = [dict(call) for call in continuation().calls]
    calls[1]["args"] = {"command": "rm -rf ~"}

    assert "does not fit" in error_of(paused(), replace(continuation(), calls=tuple(calls)))


@pytest.mark.parametrize(
    "changed",
    [
        {"description": "bash: harmless"},
        {"cwd": "/elsewhere"},
        {"turn": 7},
        {"usage": Usage(input=1)},
        {"completed": ()},
        {"journal_seq": 3},
        {"journal_seq": 99},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_continuation_with_any_changed_field_is_rejected(changed):
    assert "does not fit" in error_of(paused(), replace(continuation(), **changed))


@pytest.mark.parametrize("call", ["a", "b", "c"])
def test_continuation_with_changed_call_title_is_rejected(call):
    calls = [
        {**one, "title": "bash: git status"} if one["id"] == call else one
        for one in continuation().calls
    ]

    assert "does not fit" in error_of(paused(), replace(continuation(), calls=tuple(calls)))


def session_with_input(*files):
    """A session with a waiting command that has input; `files` come from its decision, if any."""
    arguments = {"input": "yes", "command": "make a"}
    asks = AssistantMessage(
        content=(ToolCallBlock(id="a", name="bash", arguments=arguments),), stop_reason="toolUse"
    )
    decision = {"call_id": "a", "effect": "defer", **({"files": files[0]} if files else {})}
    waits = ("deferred", {"call_ids": ["a"], "description": "bash: ask"})
    return chain(("session", {"cwd": "/w"}), user_text("go"), asks, ("decision", decision), waits)


def continuation_with_title(records, title):
    found = continuation_of(records, session_id="s", project="p-1")
    return replace(found, calls=tuple({**call, "title": title} for call in found.calls))


def test_call_title_written_by_earlier_version_is_accepted():
    for title in ("bash: make a", "bash: yes"):
        check_continuation(
            continuation_with_title(session_with_input(), title), session_with_input()
        )
    assert "does not fit" in error_of(
        session_with_input(), continuation_with_title(session_with_input(), "bash: ls")
    )


def test_call_title_of_earlier_version_is_rejected_for_decision_of_this_version():
    check_continuation(
        continuation_with_title(session_with_input({}), "bash: make a"), session_with_input({})
    )
    assert "does not fit" in error_of(
        session_with_input({}), continuation_with_title(session_with_input({}), "bash: yes")
    )


@pytest.mark.parametrize("place", ["top", "call", "usage"])
def test_continuation_with_unknown_key_is_rejected(tmp_path, place):
    whole = continuation().as_json()
    inner = {"top": whole, "call": whole["calls"][1], "usage": whole["usage"]}[place]
    inner["label"] = "git status"

    assert "dirge did not write" in load_error(tmp_path, json.dumps(whole).encode())


def test_continuation_with_duplicate_key_is_rejected(tmp_path):
    text = json.dumps(continuation().as_json())

    doubled = text.replace(
        '"title": "bash: make b"', '"title": "git status", "title": "bash: make b"'
    )

    assert "duplicate key" in load_error(tmp_path, doubled.encode())


def test_continuation_cannot_approve_a_different_call():
    assert "does not fit" in error_of(paused(), replace(continuation(), awaiting="c"))
    with pytest.raises(SessionError, match="'b', not about 'c'"):
        check_call(continuation(), "c")


def test_continuation_is_rejected_when_session_has_no_open_calls():
    assert "does not fit" in error_of(chain(user_text("go")))


@pytest.mark.parametrize("version", [0, 2, 99])
def test_continuation_of_another_format_version_is_rejected(version):
    with pytest.raises(SessionError, match=f"format {version}"):
        parse_continuation({**continuation().as_json(), "v": version})


@pytest.mark.parametrize("name", ["../../x", "", "a/b", ".."])
def test_continuation_with_path_as_session_id_is_rejected(name):
    with pytest.raises(SessionError, match="is not a valid session id"):
        parse_continuation({**continuation().as_json(), "session_id": name})


def load_error(tmp_path, content):
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(SessionError) as caught:
        load_continuation(path)
    assert caught.value.hint
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\0\xff", b"[]", b'{"v":"1"}', b"[" * 100_000, b"null"])
def test_continuation_file_with_garbage_is_rejected(tmp_path, content):
    assert "cannot be used" in load_error(tmp_path, content)


@pytest.mark.parametrize("name", ["session_id", "journal_seq", "calls", "awaiting", "completed"])
def test_missing_key_of_continuation_is_named_in_error(tmp_path, name):
    whole = continuation().as_json()
    del whole[name]

    assert name in load_error(tmp_path, json.dumps(whole).encode())


@given(st.integers(0, 400))
def test_truncated_continuation_file_is_rejected(tmp_path_factory, length):
    content = json.dumps(continuation().as_json()).encode()
    assert "cannot be used" in load_error(tmp_path_factory.mktemp("cut"), content[:length])


@given(st.recursive(st.none() | st.integers() | st.text(max_size=3), st.lists, max_leaves=3))
def test_invalid_value_of_any_continuation_key_raises_error_with_message(value):
    for name in continuation().as_json():
        broken = {**continuation().as_json(), name: value}
        try:
            parse_continuation(broken)
        except (ValueError, SessionError) as error:
            assert str(error)


def test_pipe_folder_or_missing_continuation_file_is_rejected_without_blocking(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    for name in ("pipe", "missing", "link", "."):
        with pytest.raises(SessionError, match="cannot be read"):
            load_continuation(tmp_path / name)


def test_continuation_file_of_another_user_is_rejected(tmp_path, monkeypatch):
    path = save_continuation(continuation().as_json(), tmp_path)
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)

    with pytest.raises(SessionError, match="another user"):
        load_continuation(path)


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({"command": "make  test\n"}, "bash: make test"),
        ({"timeout": 3, "command": "ls"}, "bash: ls"),
        ({}, "bash"),
        ({"command": " "}, "bash"),
        ({"command": "# build it\n\n  # all\nmake # now\n# end"}, "bash: make # now # end"),
        ({"command": "# nothing\n# to do"}, "bash: # nothing # to do"),
        ({"path": "# a.md\nb"}, "bash: # a.md b"),
        ("not parsed", "bash: not parsed"),
        ({"command": "x" * 200}, "bash: " + "x" * 73 + "…"),
    ],
)
def test_call_title_is_one_line(arguments, title):
    assert title_of_call(ToolCallBlock(id="c", name="bash", arguments=arguments)) == title


def test_store_saves_continuations_beside_sessions(store, tmp_path):
    journal = store.create("s")
    for record in paused()[1:]:
        journal.append(record.type, record.data)
    journal.close()

    path = store.keep_continuation("s")

    assert path.parent == tmp_path / "state" / "continuations"
    assert load_continuation(path) == store.continuation("s")
    check_continuation(load_continuation(path), store.events_since("s", 0))
