"""`/sessions`: the list and the picker, for one project and for all."""

import os
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.session.store import Store
from dirge_py.slash.base import NO_ACTIONS, Choice, PickerAction, Unsupported
from dirge_py.types.errors import DirgeError, SessionElsewhere
from tests.support.project import NO_SNAPSHOTS, ScriptedProject
from tests.support.typed_commands import ScriptedFrontEnd, run_command, run_command_in

DAY_S = 24 * 60 * 60


class ActingFront(ScriptedFrontEnd):
    """Answers pickers with an action and a word of the row, and lines with a text."""

    def __init__(self, *answers: str | None) -> None:
        super().__init__(*answers)
        self.titles: list[str] = []
        self.rows: list[str] = []
        self.opened: list[object] = []

    async def pick_or_act(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        current: str = "",
        actions: Mapping[PickerAction, str] = NO_ACTIONS,
    ) -> tuple[PickerAction | None, str] | None:
        self.titles.append(title)
        self.rows = [f"{choice.label} {choice.detail}" for choice in choices]
        answer = self.answers.pop(0)
        if answer is None:
            return None
        action, _, word = answer.partition(" ")
        row = next((choice.id for choice in choices if word in choice.label), "")
        return next((each for each in actions if each == action), None), row

    async def ask_line(self, title: str, *, value: str = "") -> str | None:
        return self.answers.pop(0)

    async def open(self, session_id: str | None) -> Conversation:
        self.opened.append(session_id)
        raise Unsupported("switching")

    async def open_in(self, folder: Path, session_id: str | None = None) -> Conversation:
        self.opened.append((folder, session_id))
        raise Unsupported("switching")


async def said(project: ScriptedProject, prompt: str, answer: str) -> str:
    """Store a session with one prompt; returns its id."""
    async with project.open() as conversation:
        project.model.will_say(answer)
        await conversation.send(prompt)
        return conversation.session_id or ""


@pytest.fixture
def other(home: Path) -> Path:
    """The folder of another project."""
    folder = home / "other"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/topic\n")
    return folder


@pytest.fixture
async def elsewhere(project: ScriptedProject, other: Path) -> str:
    """A session of the other project."""
    with chdir(other):
        return await said(project, "fix the parser", "The parser is fixed.")


async def test_list_shows_new_title_age_branch_messages_and_last_words(
    project: ScriptedProject,
) -> None:
    (project.folder / ".git").mkdir()
    (project.folder / ".git/HEAD").write_text("ref: refs/heads/topic\n")
    async with project.open() as conversation:
        project.model.will_say("The linker needs -lm.")
        await conversation.send("why does it fail?")
        await run_command("/rename the linker", conversation)
        project.model.will_say("x" * 40_000)
        await conversation.send("a long one")
        project.model.will_say("Added it.")
        await conversation.send("mend it")

        text = (await run_command("/sessions list", conversation)).text

    assert f"▸ {conversation.session_id}  just now  topic  6 messages  the linker" in text
    assert "    Added it." in text


async def test_picker_shows_the_same_in_aligned_rows(project: ScriptedProject) -> None:
    await said(project, "why does the build fail?", "The linker.")
    await said(project, "docs", "Written.")
    async with project.open() as conversation:
        screen = ActingFront(None)
        await run_command_in(screen, "/sessions", conversation)

    assert screen.rows == [
        "docs                     just now  2 messages  Written.",
        "why does the build fail? just now  2 messages  The linker.",
    ]


async def test_rename_in_picker_changes_title_and_shows_list_again(
    project: ScriptedProject,
) -> None:
    await said(project, "docs", "Written.")
    async with project.open() as conversation:
        screen = ActingFront("rename docs", "the manual", None)
        await run_command_in(screen, "/sessions", conversation)

    assert [row.split("  ")[0].strip() for row in screen.rows] == ["the manual just now"]


async def test_sessions_rename_names_another_session(project: ScriptedProject) -> None:
    stored = await said(project, "docs", "Written.")
    async with project.open() as conversation:
        await run_command(f"/sessions rename {stored} the manual", conversation)
        assert "the manual" in (await run_command("/sessions list", conversation)).text
        with pytest.raises(DirgeError, match="needs an id and a title"):
            await run_command(f"/sessions rename {stored}", conversation)


async def test_session_in_use_elsewhere_is_not_renamed(project: ScriptedProject) -> None:
    async with project.open() as first:
        project.model.will_say("yes")
        await first.send("docs")
        async with project.open() as conversation:
            with pytest.raises(DirgeError, match="is in use"):
                await run_command(f"/sessions rename {first.session_id} manual", conversation)


async def test_delete_in_picker_asks_and_shows_list_again(project: ScriptedProject) -> None:
    stored = await said(project, "docs", "Written.")
    await said(project, "parser", "Fixed.")
    async with project.open() as conversation:
        screen = ActingFront("delete docs", "keep it", "delete docs", "delete it", None)
        await run_command_in(screen, "/sessions", conversation)

        assert [row.split()[0] for row in screen.rows] == ["parser"]
        assert f"`dirge sessions delete --undo {stored}`" in screen.text


async def test_sessions_of_all_projects_are_shown_with_their_folders(
    project: ScriptedProject, other: Path, elsewhere: str
) -> None:
    await said(project, "docs", "Written.")
    async with project.open() as conversation:
        screen = ActingFront("all_projects ", None)
        await run_command_in(screen, "/sessions", conversation)
        text = (await run_command("/sessions list --all", conversation)).text
        alone = (await run_command("/sessions list", conversation)).text

    assert screen.titles == ["Sessions of this project", "Sessions of all projects"]
    assert [row.split("  ")[0].strip() for row in screen.rows] == [
        "docs",
        "fix the parser just now",
    ]
    assert "~/other" in screen.rows[1]
    assert elsewhere in text
    assert elsewhere not in alone


async def test_session_of_another_folder_opens_there_after_question(
    project: ScriptedProject, other: Path, elsewhere: str
) -> None:
    async with project.open() as conversation:
        staying = ActingFront("open parser", "stay here")
        await run_command_in(staying, "/sessions --all", conversation)
        going = ActingFront("open parser", "go there")
        with pytest.raises(Unsupported):
            await run_command_in(going, "/sessions --all", conversation)

    assert staying.opened == []
    assert "belongs to ~/other" in staying.asked[0]
    assert going.opened == [(other, elsewhere)]


async def test_session_of_removed_folder_names_that_folder(
    project: ScriptedProject, other: Path, elsewhere: str
) -> None:
    other.rename(other.with_name("gone"))
    async with project.open() as conversation:
        with pytest.raises(SessionElsewhere, match="other, which no longer exists") as raised:
            await run_command_in(ActingFront("open parser"), "/sessions --all", conversation)

    assert "Create the folder again" in raised.value.hint


async def test_id_of_another_project_names_its_folder(
    project: ScriptedProject, other: Path, elsewhere: str
) -> None:
    store = Store(project.state_dir, project.folder)
    with pytest.raises(SessionElsewhere) as raised:
        store.open(elsewhere[-6:-2], fork=True)

    assert raised.value.hint == f"Run `dirge -C {other} -r {elsewhere}`."
    assert raised.value.is_fork


async def test_keep_days_leaves_a_session_that_is_open(project: ScriptedProject) -> None:
    project.configure(f"{NO_SNAPSHOTS}keep_days = 1\n")
    project.model.will_say("Open.")
    async with project.open() as conversation:
        await conversation.send("stay")
        [journal] = project.state_dir.glob("sessions/*/*.jsonl")
        os.utime(journal, (0, 0))
        await said(project, "docs", "Written.")
        assert journal.exists()


async def test_keep_days_deletes_unused_sessions_of_all_projects(
    project: ScriptedProject, other: Path, elsewhere: str
) -> None:
    project.configure(f"{NO_SNAPSHOTS}keep_days = 30\n")
    old = await said(project, "docs", "Written.")
    for journal in project.state_dir.glob("sessions/*/*.jsonl"):
        before_s = journal.stat().st_mtime - 31 * DAY_S
        os.utime(journal, (before_s, before_s))
    fresh = await said(project, "parser", "Fixed.")

    left = {path.stem for path in project.state_dir.glob("sessions/*/*.jsonl")}
    trash = [path.name for path in project.state_dir.glob("trash/*")]
    assert left == {fresh}
    assert sorted(name[-15:] for name in trash) == sorted([old, elsewhere])
