"""What a resumed session restores."""

import asyncio

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
from tests.support.project import ScriptedProject, on_first


def settings(project: ScriptedProject) -> dict[str, object]:
    records = read_journal(project.journal).records
    return {r.data["name"]: r.data["value"] for r in records if r.type == "setting"}


def restore_session(
    project: ScriptedProject, conversation: Conversation, loaded: LoadedSession
) -> tuple[TodoList, Workspace]:
    todo, workspace = TodoList(), Workspace([project.folder], project.folder)
    restore(
        conversation,
        loaded,
        todo=todo,
        workspace=workspace,
        typed_dir=project.state_dir / "typed",
        redact=str,
    )
    return todo, workspace


async def test_queued_messages_are_stored_until_delivered(project: ScriptedProject) -> None:
    gate, said = asyncio.Event(), asyncio.Event()
    project.model.will_say("first", wait=gate.wait).will_say("second").will_say("third")
    async with project.open() as conversation:
        conversation.follow_up("before anything was said")
        conversation.subscribe(on_first(MessageEnd, said.set))
        run = conversation.send("go")
        await asyncio.wait_for(said.wait(), 10)
        conversation.steer("and quickly")
        kept = decode_queue(settings(project)["queue"])
        assert [(kind, message.text) for kind, message in kept] == [
            ("steering", "and quickly"),
            ("follow_up", "before anything was said"),
        ]
        gate.set()
        await run
        assert settings(project)["queue"] == []
        conversation.steer("left over")
        conversation.take_back()
        assert settings(project)["queue"] == []


async def test_queue_and_draft_are_restored_with_a_notice(project: ScriptedProject) -> None:
    waiting = encode_queue(
        [("steering", user_text("look at CI")), ("follow_up", user_text("tests"))]
    )
    settings = {"queue": [*waiting, {"kind": "odd"}, 3], "draft": "half a"}
    loaded = LoadedSession(choices=SessionChoices(settings=settings))
    async with project.open() as conversation:
        restore_session(project, conversation, loaded)

        assert [(one.kind, one.message.text) for one in conversation.queued()] == [
            ("steering", "look at CI"),
            ("follow_up", "tests"),
        ]
        assert conversation.unsent.draft == "half a"
        project.model.will_say("yes").will_say("yes")
        await conversation.send("go")
        assert [text.splitlines()[-1] for text in project.prompts_of_call()] == [
            "go",
            "look at CI",
            "tests",
        ]
    assert list(queued_again(LoadedSession())) == []
    assert list(queued_again(loaded)) == [
        "2 messages were not delivered and wait for the next run: look at CI; tests."
    ]


async def test_unchanged_file_stays_known_as_read_after_resume(
    project: ScriptedProject,
) -> None:
    (project.folder / "a").write_text("one\n")
    (project.folder / "b").write_text("one\n")
    async with project.open() as conversation:
        _, workspace = restore_session(project, conversation, LoadedSession())
        for name in "ab":
            content = workspace.for_person().read(name)
            workspace.ledger.remember(content.real, content.identity)
        project.model.will_say("yes")
        await conversation.send("one")
        kept = settings(project)["files_read"]

    (project.folder / "b").write_text("two\n")
    async with project.open() as conversation:
        _, workspace = restore_session(
            project,
            conversation,
            LoadedSession(choices=SessionChoices(settings={"files_read": kept})),
        )
        files = workspace.for_person()
        files.ledger.check_fresh("a", files.read("a"))
        with pytest.raises(FileError, match="has changed since"):
            files.ledger.check_fresh("b", files.read("b"))


async def test_files_changed_by_rewind_must_be_read_again(project: ScriptedProject) -> None:
    (project.folder / "a").write_text("one\n")
    async with project.open() as conversation:
        _, workspace = restore_session(project, conversation, LoadedSession())
        content = workspace.for_person().read("a")
        workspace.ledger.remember(content.real, content.identity)
        for hear in conversation.timeline.on_files:
            hear(["a"])
        assert not workspace.ledger.knows(content.real)


async def test_todo_list_follows_undo_and_redo(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        todo, _ = restore_session(project, conversation, LoadedSession())
        recorder = conversation.session.recorder
        assert recorder is not None
        todo.on_change = lambda items: recorder.note_setting("todo", list(items))
        for text in ("one", "two"):
            project.model.will_say("yes")
            todo.put([TodoItem(id="1", text=text)])
            await conversation.send(text)

        await conversation.timeline.undo()
        assert [item.text for item in todo.items] == ["two"]
        await conversation.timeline.undo()
        assert [item.text for item in todo.items] == ["one"]
        await conversation.timeline.redo()
        assert [item.text for item in todo.items] == ["two"]
    assert settings(project)["todo"] == [{"id": "1", "text": "two", "status": "pending"}]


async def test_session_can_be_renamed_before_and_after_its_first_message(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        assert conversation.rename(" the  parser\n") == "the parser"
        project.model.will_say("yes")
        await conversation.send("hello")
        titles = [
            r.data["title"] for r in read_journal(project.journal).records if r.type == "title"
        ]
        assert titles == ["hello", "the parser"]
        conversation.rename("another")
        with pytest.raises(DirgeError, match="needs a name"):
            conversation.rename(" ")
    titles = [r.data["title"] for r in read_journal(project.journal).records if r.type == "title"]
    assert titles[-1] == "another"


async def test_draft_over_the_size_limit_is_not_stored(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        project.model.will_say("yes")
        await conversation.send("hello")
        conversation.unsent.save_draft("a line")
        conversation.unsent.save_draft("x" * (MAX_DRAFT_CHARS + 1))
        assert settings(project)["draft"] == ""


def test_fork_does_not_copy_the_draft_and_the_queue() -> None:
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
        ("yolo", "standard", "standard", ["yolo ended when dirge exited."]),
        ("accept", "plan", "plan", ["accept ended when dirge exited."]),
    ],
)
async def test_mode_is_restored_unless_it_allows_more_than_the_setting(
    project: ScriptedProject, left: Mode, starts_with: Mode, begins_in: Mode, told: list[str]
) -> None:
    project.model.will_say("one")
    async with project.open() as conversation:
        conversation.settings.set_mode(left)
        await conversation.send("hi")
    project.configure(f'[permission]\nmode = "{starts_with}"\n')

    seen = []
    for _ in range(2):
        async with project.open("newest") as conversation:
            assert conversation.settings.mode == begins_in
            seen.append([notice.rpartition(": ")[2] for notice in conversation.notices])

    assert seen == [told, []]


async def test_permission_mode_flag_overrides_mode_of_the_session(project: ScriptedProject) -> None:
    project.model.will_say("one")
    async with project.open() as conversation:
        conversation.settings.set_mode("plan")
        await conversation.send("hi")

    flagged = load(Overrides(permission_mode="yolo"), environment=project._environment)
    again = build(
        flagged,
        project.user,
        BuildOptions(session=SessionChoice(kind="newest")),
        stream_fn=project.model.stream_fn,
    )
    assert again.settings.mode == "yolo"
    await again.close()


async def test_viewed_session_shows_its_messages(project: ScriptedProject) -> None:
    project.model.will_say("answered")
    async with project.open() as conversation:
        await conversation.send("asked")
        session_id, written = conversation.session_id, conversation.messages
    viewed = project.build(project.user, SessionChoice(kind="view", id=session_id or ""))
    try:
        assert viewed.messages == written
        assert viewed.session_id is None
    finally:
        await viewed.close()
