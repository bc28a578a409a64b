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


def test_a_continuation_tells_what_waits_and_what_is_done():
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


def test_what_is_written_is_read_again(tmp_path):
    path = save_continuation(continuation().as_json(), tmp_path / "continuations")

    assert load_continuation(path) == continuation()
    assert path.name.startswith("s-")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_each_pause_has_a_file_of_its_own(tmp_path):
    first, second = (save_continuation(continuation().as_json(), tmp_path) for _ in range(2))

    assert first != second
    assert sorted(tmp_path.iterdir()) == sorted([first, second])


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(SessionError, match="Can't write the continuation"):
        save_continuation(continuation().as_json(), tmp_path / "file")


def test_a_session_that_waits_for_nothing_has_no_continuation():
    with pytest.raises(SessionError, match="waits for no decision"):
        continuation_of(chain(user_text("go")), session_id="s", project="p")


def test_a_history_in_memory_has_one_too():
    found = continuation_at([user_text("go"), BATCH, answer("a")], session_id="thread", turn=3)

    assert (found.session_id, found.turn, found.awaiting) == ("thread", 3, "b")
    assert found.completed == ("a",)
    assert continuation_at([user_text("go"), BATCH, *map(answer, "abc")]) is None
    assert continuation_at([user_text("go")]) is None
    assert continuation_at([]) is None


def test_it_fits_as_long_as_nothing_was_said_or_run():
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
    ids=["prompt", "passed over", "the same id again", "branch", "context"],
)
def test_it_is_stale_once_the_session_went_on(later):
    assert "stale" in error_of(paused(*later))


@pytest.mark.parametrize(
    "later",
    [(started("b"),), (started("b"), answer("b")), (answer("b"), deferred("c"))],
    ids=["begun", "answered", "waiting for the next"],
)
def test_it_can_be_used_once(later):
    assert "used already: 'bash: make b'" in error_of(paused(*later))


def test_a_call_that_somebody_changed_in_the_file_is_not_run():
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
def test_nothing_that_somebody_decides_by_can_be_changed(changed):
    assert "does not fit" in error_of(paused(), replace(continuation(), **changed))


@pytest.mark.parametrize("call", ["a", "b", "c"])
def test_a_title_that_somebody_changed_in_the_file_is_refused(call):
    calls = [
        {**one, "title": "bash: git status"} if one["id"] == call else one
        for one in continuation().calls
    ]

    assert "does not fit" in error_of(paused(), replace(continuation(), calls=tuple(calls)))


def fed(*files):
    """A session with a waiting command that has input; `files` of the decision, if any."""
    arguments = {"input": "yes", "command": "make a"}
    asks = AssistantMessage(
        content=(ToolCallBlock(id="a", name="bash", arguments=arguments),), stop_reason="toolUse"
    )
    decision = {"call_id": "a", "effect": "defer", **({"files": files[0]} if files else {})}
    waits = ("deferred", {"call_ids": ["a"], "description": "bash: ask"})
    return chain(("session", {"cwd": "/w"}), user_text("go"), asks, ("decision", decision), waits)


def titled(records, title):
    found = continuation_of(records, session_id="s", project="p-1")
    return replace(found, calls=tuple({**call, "title": title} for call in found.calls))


def test_a_title_of_an_earlier_version_fits():
    for title in ("bash: make a", "bash: yes"):
        check_continuation(titled(fed(), title), fed())
    assert "does not fit" in error_of(fed(), titled(fed(), "bash: ls"))


def test_a_title_of_an_earlier_version_does_not_fit_a_wait_of_this_one():
    check_continuation(titled(fed({}), "bash: make a"), fed({}))
    assert "does not fit" in error_of(fed({}), titled(fed({}), "bash: yes"))


@pytest.mark.parametrize("place", ["top", "call", "usage"])
def test_a_member_that_dirge_did_not_write_is_refused(tmp_path, place):
    whole = continuation().as_json()
    inner = {"top": whole, "call": whole["calls"][1], "usage": whole["usage"]}[place]
    inner["label"] = "git status"

    assert "dirge did not write" in unusable(tmp_path, json.dumps(whole).encode())


def test_a_member_that_stands_there_twice_is_refused(tmp_path):
    text = json.dumps(continuation().as_json())

    doubled = text.replace(
        '"title": "bash: make b"', '"title": "git status", "title": "bash: make b"'
    )

    assert "duplicate key" in unusable(tmp_path, doubled.encode())


def test_another_call_cannot_be_let_through():
    assert "does not fit" in error_of(paused(), replace(continuation(), awaiting="c"))
    with pytest.raises(SessionError, match="'b', not about 'c'"):
        check_call(continuation(), "c")


def test_a_session_without_open_calls_fits_no_continuation():
    assert "does not fit" in error_of(chain(user_text("go")))


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_format_is_refused(version):
    with pytest.raises(SessionError, match=f"format {version}"):
        parse_continuation({**continuation().as_json(), "v": version})


@pytest.mark.parametrize("name", ["../../x", "", "a/b", ".."])
def test_a_session_id_that_is_a_path_is_refused(name):
    with pytest.raises(SessionError, match="is not a valid session id"):
        parse_continuation({**continuation().as_json(), "session_id": name})


def unusable(tmp_path, content):
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(SessionError) as caught:
        load_continuation(path)
    assert caught.value.hint
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\0\xff", b"[]", b'{"v":"1"}', b"[" * 100_000, b"null"])
def test_garbage_is_told(tmp_path, content):
    assert "cannot be used" in unusable(tmp_path, content)


@pytest.mark.parametrize("name", ["session_id", "journal_seq", "calls", "awaiting", "completed"])
def test_a_missing_member_is_told(tmp_path, name):
    whole = continuation().as_json()
    del whole[name]

    assert name in unusable(tmp_path, json.dumps(whole).encode())


@given(st.integers(0, 400))
def test_a_file_that_was_cut_off_is_never_used(tmp_path_factory, length):
    content = json.dumps(continuation().as_json()).encode()
    assert "cannot be used" in unusable(tmp_path_factory.mktemp("cut"), content[:length])


@given(st.recursive(st.none() | st.integers() | st.text(max_size=3), st.lists, max_leaves=3))
def test_whatever_stands_in_a_member_it_is_told_in_words(value):
    for name in continuation().as_json():
        broken = {**continuation().as_json(), name: value}
        try:
            parse_continuation(broken)
        except (ValueError, SessionError) as error:
            assert str(error)


def test_what_is_no_file_is_told_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    for name in ("pipe", "missing", "link", "."):
        with pytest.raises(SessionError, match="cannot be read"):
            load_continuation(tmp_path / name)


def test_a_file_of_another_user_is_refused(tmp_path, monkeypatch):
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
        ("not parsed", "bash: not parsed"),
        ({"command": "x" * 200}, "bash: " + "x" * 73 + "…"),
    ],
)
def test_a_call_has_a_title_of_one_line(arguments, title):
    assert title_of_call(ToolCallBlock(id="c", name="bash", arguments=arguments)) == title


def test_the_store_keeps_continuations_beside_the_sessions(store, tmp_path):
    journal = store.create("s")
    for record in paused()[1:]:
        journal.append(record.type, record.data)
    journal.close()

    path = store.keep_continuation("s")

    assert path.parent == tmp_path / "state" / "continuations"
    assert load_continuation(path) == store.continuation("s")
    check_continuation(load_continuation(path), store.events_since("s", 0))
