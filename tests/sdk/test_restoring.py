"""What a resumed session gets back."""

import asyncio
from pathlib import Path

import pytest

from dirge_py.config.load import load
from dirge_py.config.sources import Overrides
from dirge_py.conversation.conversation import Conversation
from dirge_py.files.workspace import Workspace
from dirge_py.permission.rules import Mode
from dirge_py.sdk.build import build
from dirge_py.sdk.options import BuildOptions, SessionChoice
from dirge_py.sdk.sessions import queued_again, restore
from dirge_py.session.drafts import MAX_DRAFT_CHARS, decode_queue, encode_queue
from dirge_py.session.history import LoadedSession, SessionChoices
from dirge_py.session.journal import read_journal
from dirge_py.session.record import Record
from dirge_py.session.tree import records_to_fork
from dirge_py.tools.todo_list import TodoItem, TodoList
from dirge_py.types.errors import DirgeError, FileError
from dirge_py.types.events import MessageEnd
from dirge_py.types.messages import user_text
from tests.conversation.room import Room, when


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    room = Room(tmp_path)
    monkeypatch.chdir(room.project)
    return room


def settings(room: Room) -> dict[str, object]:
    records = read_journal(room.journal).records
    return {r.data["name"]: r.data["value"] for r in records if r.type == "setting"}


def give_back(room: Room, talk: Conversation, loaded: LoadedSession) -> tuple[TodoList, Workspace]:
    todo, workspace = TodoList(), Workspace([room.project], room.project)
    restore(
        talk,
        loaded,
        recorder=talk.session.recorder,
        todo=todo,
        workspace=workspace,
        cwd=room.project,
        typed_dir=room.state_dir / "typed",
        redact=str,
    )
    return todo, workspace


async def test_what_was_queued_is_kept_until_it_is_history(room: Room) -> None:
    gate, said = asyncio.Event(), asyncio.Event()
    room.model.will_say("first", wait=gate.wait).will_say("second").will_say("third")
    async with room.open() as talk:
        talk.follow_up("before anything was said")
        talk.subscribe(when(MessageEnd, said.set))
        run = talk.send("go")
        await asyncio.wait_for(said.wait(), 10)
        talk.steer("and quickly")
        kept = decode_queue(settings(room)["queue"])
        assert [(kind, message.text) for kind, message in kept] == [
            ("steering", "and quickly"),
            ("follow_up", "before anything was said"),
        ]
        gate.set()
        await run
        assert settings(room)["queue"] == []
        talk.steer("left over")
        talk.take_back()
        assert settings(room)["queue"] == []


async def test_the_queue_and_the_draft_come_back_and_are_told(room: Room) -> None:
    waiting = encode_queue(
        [("steering", user_text("look at CI")), ("follow_up", user_text("tests"))]
    )
    settings = {"queue": [*waiting, {"kind": "odd"}, 3], "draft": "half a"}
    loaded = LoadedSession(choices=SessionChoices(settings=settings))
    async with room.open() as talk:
        give_back(room, talk, loaded)

        assert [(one.kind, one.message.text) for one in talk.queued()] == [
            ("steering", "look at CI"),
            ("follow_up", "tests"),
        ]
        assert talk.unsent.draft == "half a"
        room.model.will_say("yes").will_say("yes")
        await talk.send("go")
        assert [text.splitlines()[-1] for text in room.heard()] == ["go", "look at CI", "tests"]
    assert list(queued_again(LoadedSession())) == []
    assert list(queued_again(loaded)) == [
        "2 messages were not delivered and wait for the next run: look at CI; tests."
    ]


async def test_a_file_that_is_still_the_same_need_not_be_read_again(room: Room) -> None:
    (room.project / "a").write_text("one\n")
    (room.project / "b").write_text("one\n")
    async with room.open() as talk:
        _, workspace = give_back(room, talk, LoadedSession())
        for name in "ab":
            content = workspace.for_person().read(name)
            workspace.ledger.remember(content.real, content.identity)
        room.model.will_say("yes")
        await talk.send("one")
        kept = settings(room)["files_read"]

    (room.project / "b").write_text("two\n")
    async with room.open() as talk:
        _, workspace = give_back(
            room, talk, LoadedSession(choices=SessionChoices(settings={"files_read": kept}))
        )
        files = workspace.for_person()
        files.check_fresh("a", files.read("a"))
        with pytest.raises(FileError, match="has changed since"):
            files.check_fresh("b", files.read("b"))


async def test_files_that_a_move_touched_have_to_be_read_again(room: Room) -> None:
    (room.project / "a").write_text("one\n")
    async with room.open() as talk:
        _, workspace = give_back(room, talk, LoadedSession())
        content = workspace.for_person().read("a")
        workspace.ledger.remember(content.real, content.identity)
        for hear in talk.timeline.on_files:
            hear(["a"])
        assert not workspace.ledger.knows(content.real)


async def test_the_todo_list_goes_where_the_conversation_goes(room: Room) -> None:
    async with room.open() as talk:
        todo, _ = give_back(room, talk, LoadedSession())
        recorder = talk.session.recorder
        assert recorder is not None
        todo.on_change = lambda items: recorder.note_setting("todo", list(items))
        for text in ("one", "two"):
            room.model.will_say("yes")
            todo.put([TodoItem(id="1", text=text)])
            await talk.send(text)

        await talk.timeline.undo()
        assert [item.text for item in todo.items] == ["two"]
        await talk.timeline.undo()
        assert [item.text for item in todo.items] == ["one"]
        await talk.timeline.redo()
        assert [item.text for item in todo.items] == ["two"]
    assert settings(room)["todo"] == [{"id": "1", "text": "two", "status": "pending"}]


async def test_a_session_is_renamed_before_and_after_its_first_message(room: Room) -> None:
    async with room.open() as talk:
        assert talk.rename(" the  parser\n") == "the parser"
        room.model.will_say("yes")
        await talk.send("hello")
        titles = [r.data["title"] for r in read_journal(room.journal).records if r.type == "title"]
        assert titles == ["hello", "the parser"]
        talk.rename("another")
        with pytest.raises(DirgeError, match="needs a name"):
            talk.rename(" ")
    titles = [r.data["title"] for r in read_journal(room.journal).records if r.type == "title"]
    assert titles[-1] == "another"


async def test_a_huge_draft_is_not_written_at_every_pause(room: Room) -> None:
    async with room.open() as talk:
        room.model.will_say("yes")
        await talk.send("hello")
        talk.unsent.save_draft("a line")
        talk.unsent.save_draft("x" * (MAX_DRAFT_CHARS + 1))
        assert settings(room)["draft"] == ""


def test_a_fork_leaves_what_was_not_sent_to_the_original() -> None:
    values = [("todo", 1), ("draft", "x"), ("queue", [1]), ("prompt", "p"), ("todo", 2)]
    records = [
        Record(
            seq=seq,
            ts="",
            type="setting",
            id=f"r{seq}",
            parent=f"r{seq - 1}" if seq > 1 else None,
            data={"name": name, "value": value},
        )
        for seq, (name, value) in enumerate(values, 1)
    ]
    assert [r.id for r in records_to_fork(records)] == ["r1", "r4", "r5"]
    assert [r.id for r in records_to_fork(records, "r3")] == ["r1", "r4"]


@pytest.mark.parametrize(
    ("left", "starts_with", "begins_in", "told"),
    [
        ("plan", "standard", "plan", []),
        ("restrictive", "yolo", "restrictive", []),
        ("standard", "accept", "standard", []),
        ("yolo", "standard", "standard", ["yolo ended with the program before."]),
        ("accept", "plan", "plan", ["accept ended with the program before."]),
    ],
)
async def test_the_mode_comes_back_unless_it_would_let_more_pass(
    room: Room, left: Mode, starts_with: Mode, begins_in: Mode, told: list[str]
) -> None:
    room.model.will_say("one")
    async with room.open() as talk:
        talk.settings.set_mode(left)
        await talk.send("hi")
    room.configure(f'[permission]\nmode = "{starts_with}"\n')

    seen = []
    for _ in range(2):
        async with room.open("newest") as talk:
            assert talk.settings.mode == begins_in
            seen.append([notice.rpartition(": ")[2] for notice in talk.notices])

    assert seen == [told, []]


async def test_a_flag_goes_before_the_mode_of_the_session(room: Room) -> None:
    room.model.will_say("one")
    async with room.open() as talk:
        talk.settings.set_mode("plan")
        await talk.send("hi")

    flagged = load(Overrides(permission_mode="yolo"), environment=room._environment)
    again = build(
        flagged,
        room.person,
        BuildOptions(session=SessionChoice(kind="newest")),
        stream_fn=room.model.stream_fn,
    )
    assert again.settings.mode == "yolo"
    await again.close()
