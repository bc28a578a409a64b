"""Sessions of an earlier version: listed, shown, searched, continued, rewound."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.compatibility.model_service import says
from tests.compatibility.old_homes import OldHome

Homes = Callable[[str], OldHome]

LAST_ANSWERS = {
    "tools": "3.",
    "branches": "Another second answer.",
    "compacted": "After the summary.",
    "segments": "Still long.",
    "prompted": "I am careful.",
    "granted": "Granted.",
}


@pytest.fixture
def sessions(home: Homes) -> OldHome:
    return home("sessions")


def test_old_sessions_are_listed_unchanged(sessions: OldHome) -> None:
    before = json.loads(sessions.kept("listed.json"))["sessions"]
    now = json.loads(sessions.run("sessions", "list", "--json"))["sessions"]
    assert holds(now, before)
    assert len(now) == len(before) == len(LAST_ANSWERS) + 1


def test_old_session_exports_unchanged(sessions: OldHome) -> None:
    before = json.loads(sessions.kept("exported.json"))
    assert holds(sessions.export("tools"), before)
    markdown = sessions.run("sessions", "export", "tools", "--format", "md")
    assert markdown == sessions.kept("exported.md")


def test_search_finds_text_of_old_sessions(sessions: OldHome) -> None:
    found = json.loads(sessions.run("sessions", "search", "beta.txt", "there", "--json"))
    assert "tools" in json.dumps(found)


@pytest.mark.parametrize("name", LAST_ANSWERS)
def test_old_session_continues_with_its_history(sessions: OldHome, name: str) -> None:
    said = len(sessions.export(name)["messages"])
    sessions.service.will(says("It goes on."))
    result = sessions.ask("--resume", name, "Go on.")
    assert (result["result"], result["session_id"]) == ("It goes on.", name)
    assert sessions.sent_texts[-2:] == [LAST_ANSWERS[name], "Go on."]
    messages = sessions.export(name)["messages"]
    assert len(messages) == said + 2


def test_history_of_an_old_session_is_sent_unchanged(sessions: OldHome) -> None:
    sessions.service.will(says("It goes on."))
    sessions.ask("--resume", "tools", "Go on.")
    called = [call["function"]["name"] for m in sessions.sent for call in m.get("tool_calls", ())]
    assert called == ["read", "grep", "edit", "todo", "memory", "bash", "write"]
    results = [message["content"] for message in sessions.sent if message["role"] == "tool"]
    assert results[0] == "alpha.txt: lines 1-1 of 1\n\n1: one"
    assert len(results) == len(called)
    prompt = sessions.sent[0]["content"]
    for line in ("Notes are in alpha.txt.", "I like short answers.", "Keep the notes in order."):
        assert line in prompt


def test_old_session_restores_its_todo_list(sessions: OldHome) -> None:
    assert "[ ] order beta" in sessions.run("-p", "--resume", "tools", "/todos")


def test_cost_of_an_old_session_is_counted(sessions: OldHome) -> None:
    result = sessions.run("-p", "--resume", "tools", "/cost")
    assert "960" in result  # 8 requests of 120 tokens
    assert "$0.0030" in result


def test_old_session_restores_its_prompt_and_mode(sessions: OldHome) -> None:
    sessions.service.will(says("Careful."))
    result = sessions.run("-p", "--output-format", "stream-json", "--resume", "prompted", "Go on.")
    assert json.loads(result.splitlines()[0])["permissionMode"] == "plan"
    assert "Be careful with notes." in sessions.sent[0]["content"]


def test_grants_of_an_old_session_are_not_restored(sessions: OldHome) -> None:
    (sessions.project / "granted.txt").unlink()
    sessions.service.will(says("Again.", ("bash", {"command": "touch granted.txt"})), says("No."))
    result = sessions.ask("--resume", "granted", "Again.")
    assert [denied["tool_name"] for denied in result["permission_denials"]] == ["bash"]
    assert not (sessions.project / "granted.txt").exists()


def test_old_compaction_replaces_the_messages_it_summarized(sessions: OldHome) -> None:
    sessions.service.will(says("It goes on."))
    sessions.ask("--resume", "compacted", "Go on.")
    sent = "\n".join(sessions.sent_texts)
    assert "alpha.txt was written and changed." in sent
    assert "Answer 1." not in sent
    assert "Question 0." in sessions.run("-p", "--resume", "compacted", "/compact show")


def test_old_compaction_can_be_undone(sessions: OldHome) -> None:
    sessions.run("-p", "--resume", "compacted", "/compact --undo")
    sessions.service.will(says("It goes on."))
    sessions.ask("--resume", "compacted", "Go on.")
    assert any("Answer 1." in text for text in sessions.sent_texts)


def test_long_results_of_earlier_segments_are_sent_whole(sessions: OldHome) -> None:
    sessions.service.will(says("It goes on."))
    sessions.ask("--resume", "segments", "Go on.")
    assert any("line 0 of it" in text and "line 1599 of it" in text for text in sessions.sent_texts)


def test_branches_of_an_old_session_are_shown_and_can_be_opened(sessions: OldHome) -> None:
    drawn = sessions.run("-p", "--resume", "branches", "/tree")
    before = sessions.kept("tree.txt").splitlines()
    left = next(line.split()[0] for line in before if "Second question." in line)
    for line in before:
        short_id = line.removeprefix("▸").split()[0]
        assert short_id in drawn
    without_files_of_a_person(sessions)
    sessions.service.will(says("Here I am."))
    sessions.run("--line", "--resume", "branches", stdin=f"/tree {left}\nGo on here.\n")
    assert sessions.sent_texts == [
        "First question.",
        "First answer.",
        "Second question.",
        "Second answer.",
        "Go on here.",
    ]


def test_forking_an_old_session_leaves_it_unchanged(sessions: OldHome) -> None:
    (journal,) = sessions.state.glob("sessions/*/tools.jsonl")
    before = journal.read_bytes()
    sessions.service.will(says("Elsewhere."))
    result = sessions.ask("--resume", "tools", "--fork-session", "Go on elsewhere.")
    assert result["session_id"] != "tools"
    assert sessions.sent_texts[-2:] == ["3.", "Go on elsewhere."]
    assert journal.read_bytes() == before


def test_rewind_of_an_old_session_restores_conversation_and_files(sessions: OldHome) -> None:
    without_files_of_a_person(sessions)
    sessions.run("--line", "--resume", "tools", stdin="/rewind 3\n1\n")
    assert (sessions.project / "alpha.txt").read_text() == "one\n"
    assert not (sessions.project / "beta.txt").exists()
    assert sessions.export("tools")["messages"] == []
    sessions.run("--line", "--resume", "tools", stdin="/redo\n")
    assert (sessions.project / "alpha.txt").read_text() == "three\n"
    assert (sessions.project / "beta.txt").read_text() == "beta\n"


def test_deleted_old_session_can_be_restored(sessions: OldHome) -> None:
    sessions.run("sessions", "delete", "--undo", "trashed")
    sessions.service.will(says("Back."))
    sessions.ask("--resume", "trashed", "Are you back?")
    assert "A prompt in the bin." in sessions.sent_texts


def test_old_sessions_need_no_repair(sessions: OldHome) -> None:
    before = {path: path.read_bytes() for path in sessions.state.glob("sessions/**/*.jsonl")}
    sessions.run("sessions", "repair", "--all")
    assert {path: path.read_bytes() for path in before} == before
    assert not list(sessions.state.rglob("*.damaged"))


def without_files_of_a_person(sessions: OldHome) -> None:
    """Remove the user's files, so that rewinding asks no further question."""
    for name in ("granted.txt", "long.txt"):
        (sessions.project / name).unlink()


def holds(now: Any, before: Any) -> bool:
    """Whether all old members still exist; objects may have more."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(
            name in now and holds(now[name], value) for name, value in before.items()
        )
    if isinstance(before, list):
        return isinstance(now, list) and len(now) == len(before) and all(map(holds, now, before))
    return bool(now == before)
