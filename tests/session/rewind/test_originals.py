"""Every change that a tool makes can be undone, also of files that snapshots leave out."""

from pathlib import Path
from typing import Any

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.permission.rules import Mode
from dirge_py.types.events import SystemNotice
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.questions import PermissionAnswer
from tests.conversation.room import Room
from tests.repository import new_repository

MIB = 1 << 20
YES = PermissionAnswer(effect="allow")


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(tmp_path)
    keep_files(room)
    new_repository(room.project)
    put(room, ".gitignore", "ignored\nbuild/\n")
    put(room, "ignored", "old\n")
    put(room, "plain", "old\n")
    monkeypatch.chdir(room.project)
    return room


def keep_files(room: Room, mode: Mode = "standard", more: str = "snapshot_file_mb = 1") -> None:
    room.configure(f'\n[session]\n{more}\n[permission]\nmode = "{mode}"\n')


def put(room: Room, name: str, text: str) -> Path:
    path = room.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def files(room: Room) -> dict[str, str]:
    return {
        str(path.relative_to(room.project)): path.read_text()
        for path in sorted(room.project.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(room.project).parts
    }


async def do(talk: Conversation, room: Room, *calls: tuple[str, dict[str, Any]]) -> str:
    """One prompt for which the model makes these calls; what it was told about the last."""
    for name, arguments in calls:
        room.model.will_call(name, **arguments)
    room.model.will_say("Done.")
    await talk.send("go")
    told = [message for message in talk.messages if isinstance(message, ToolResultMessage)]
    return told[-1].text


def read(name: str) -> tuple[str, dict[str, Any]]:
    return "read", {"path": name}


def patch(action: str, name: str, **more: str) -> tuple[str, dict[str, Any]]:
    return "apply_patch", {"operations": [{"action": action, "path": name, **more}]}


EDIT = ("edit", {"path": "ignored", "old_text": "old", "new_text": "new"})
WRITE = ("write", {"path": "ignored", "content": "new\n"})
UPDATE = patch("update", "ignored", old_text="old", new_text="new")
DELETE = patch("delete", "ignored")
RENAME = patch("rename", "ignored", new_path="build/moved")


@pytest.mark.parametrize("call", [EDIT, WRITE, UPDATE])
async def test_an_ignored_file_that_was_changed_unasked_comes_back(room: Room, call: Any) -> None:
    before = files(room)
    async with room.open() as talk:
        await do(talk, room, read("ignored"), call)
        after = files(room)
        assert (after["ignored"], room.person.asked) == ("new\n", [])

        undone = await talk.timeline.undo()
        assert (files(room), undone.done, undone.left_out) == (before, ("ignored",), ())
        await talk.timeline.redo()
        assert files(room) == after


@pytest.mark.parametrize("call", [DELETE, RENAME])
async def test_removing_an_ignored_file_asks_and_can_be_undone(room: Room, call: Any) -> None:
    before = files(room)
    async with room.open() as talk:
        denied = await do(talk, room, read("ignored"), call)
        assert "Permission denied" in denied
        assert files(room) == before
        [request] = room.person.asked
        assert "no snapshot holds" in " ".join(claim.reason for claim in request.claims)

        room.person.answer = YES
        await do(talk, room, call)
        assert "ignored" not in files(room)

        await talk.timeline.undo()
        assert files(room)["ignored"] == "old\n"
        await talk.timeline.redo()
        assert "ignored" not in files(room)


async def test_under_yolo_nothing_is_asked_and_the_file_comes_back(room: Room) -> None:
    keep_files(room, "yolo")
    async with room.open() as talk:
        await do(talk, room, read("ignored"), DELETE)
        assert (room.person.asked, "ignored" in files(room)) == ([], False)

        await talk.timeline.undo()

    assert files(room)["ignored"] == "old\n"


async def test_what_snapshots_hold_is_removed_unasked(room: Room) -> None:
    async with room.open() as talk:
        await do(talk, room, read("plain"), patch("delete", "plain"))
        assert (room.person.asked, "plain" in files(room)) == ([], False)

        await talk.timeline.undo()

    assert files(room)["plain"] == "old\n"


async def test_it_comes_back_after_several_runs_and_a_restart(room: Room) -> None:
    async with room.open() as talk:
        await do(talk, room, read("plain"))
        await do(talk, room, read("ignored"), EDIT)
        await do(talk, room, ("edit", {"path": "ignored", "old_text": "new", "new_text": "newer"}))
    async with room.open("newest") as talk:
        prompts = talk.timeline.prompts()
        counts = await talk.timeline.changed_since(prompts)
        assert [counts[prompt.id] for prompt in prompts] == [1, 1, 1]

        await talk.timeline.rewind(prompts[-1].id)

        assert files(room)["ignored"] == "old\n"


async def test_what_the_person_made_of_it_later_is_theirs(room: Room) -> None:
    async with room.open() as talk:
        await do(talk, room, read("ignored"), EDIT)
        put(room, "ignored", "mine\n")
        await do(talk, room, read("plain"))

        moved = await talk.timeline.rewind(talk.timeline.prompts()[-1].id)

    assert (moved.kept, files(room)["ignored"]) == (("ignored",), "mine\n")


@pytest.mark.parametrize("call", ["edit", "delete"])
async def test_a_file_too_large_for_snapshots_comes_back(room: Room, call: str) -> None:
    large = put(room, "large", "old\n" + "x" * MIB)
    changes = {
        "edit": ("edit", {"path": "large", "old_text": "old", "new_text": "new"}),
        "delete": patch("delete", "large"),
    }
    room.person.answer = YES
    async with room.open() as talk:
        await do(talk, room, read("large"), changes[call])
        assert len(room.person.asked) == (call == "delete")
        after = large.read_text() if large.exists() else None
        assert after != "old\n" + "x" * MIB

        await talk.timeline.undo()
        assert large.read_text() == "old\n" + "x" * MIB
        await talk.timeline.redo()
        assert (large.read_text() if large.exists() else None) == after


@pytest.mark.parametrize("call", [EDIT, DELETE])
async def test_a_copy_is_kept_of_what_no_snapshot_can_hold(room: Room, call: Any) -> None:
    new_repository(room.project / "nested")
    put(room, "nested/ignored", "old\n")
    name, arguments = call
    arguments = {**arguments, "path": "nested/ignored"} if name == "edit" else None
    call = (name, arguments) if arguments else patch("delete", "nested/ignored")
    room.person.answer = YES
    told: list[str] = []
    async with room.open() as talk:
        talk.subscribe(lambda e: told.append(e.content) if isinstance(e, SystemNotice) else None)
        await do(talk, room, read("nested/ignored"), call)
        reasons = [claim.reason for asked in room.person.asked for claim in asked.claims]
        assert any("a copy is kept first" in reason for reason in reasons) == (name != "edit")
        await do(talk, room, read("plain"))

    [copy] = room.state_dir.glob("copies/*/*-ignored")
    assert (copy.read_text(), copy.stat().st_mode & 0o777) == ("old\n", 0o600)
    assert any(str(copy) in text for text in told)


async def test_with_snapshots_turned_off_removing_asks_and_editing_does_not(room: Room) -> None:
    keep_files(room, more="snapshots = false")
    async with room.open() as talk:
        await do(talk, room, read("plain"), patch("update", "plain", content="new\n"))
        assert room.person.asked == []
        await do(talk, room, patch("delete", "plain"))

    [request] = room.person.asked
    assert "this cannot be undone" in " ".join(claim.reason for claim in request.claims)
    assert not (room.state_dir / "copies").exists()
