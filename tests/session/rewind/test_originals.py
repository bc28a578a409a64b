"""Every change by a tool can be undone, also of files that snapshots leave out."""

from pathlib import Path
from typing import Any

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.permission.rules import Mode
from dirge_py.types.events import SystemNotice
from dirge_py.types.messages import ToolResultMessage
from dirge_py.types.questions import PermissionAnswer
from tests.support.git_repository import new_repository
from tests.support.project import ScriptedProject

MIB = 1 << 20
YES = PermissionAnswer(effect="allow")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProject:
    project = ScriptedProject(tmp_path)
    keep_files(project)
    new_repository(project.folder)
    put(project, ".gitignore", "ignored\nbuild/\n")
    put(project, "ignored", "old\n")
    put(project, "plain", "old\n")
    monkeypatch.chdir(project.folder)
    return project


def keep_files(
    project: ScriptedProject, mode: Mode = "standard", more: str = "snapshot_file_mb = 1"
) -> None:
    project.configure(f'\n[session]\n{more}\n[permission]\nmode = "{mode}"\n')


def put(project: ScriptedProject, name: str, text: str) -> Path:
    path = project.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def files(project: ScriptedProject) -> dict[str, str]:
    return {
        str(path.relative_to(project.folder)): path.read_text()
        for path in sorted(project.folder.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(project.folder).parts
    }


async def do(
    conversation: Conversation, project: ScriptedProject, *calls: tuple[str, dict[str, Any]]
) -> str:
    """One prompt for which the model makes these calls; the result of the last one."""
    for name, arguments in calls:
        project.model.will_call(name, **arguments)
    project.model.will_say("Done.")
    await conversation.send("go")
    results = [
        message for message in conversation.messages if isinstance(message, ToolResultMessage)
    ]
    return results[-1].text


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
async def test_ignored_file_changed_without_approval_can_be_undone(
    project: ScriptedProject, call: Any
) -> None:
    before = files(project)
    async with project.open() as conversation:
        await do(conversation, project, read("ignored"), call)
        after = files(project)
        assert (after["ignored"], project.user.asked) == ("new\n", [])

        undone = await conversation.timeline.undo()
        assert (files(project), undone.done, undone.left_out) == (before, ("ignored",), ())
        await conversation.timeline.redo()
        assert files(project) == after


@pytest.mark.parametrize("call", [DELETE, RENAME])
async def test_removing_ignored_file_asks_and_can_be_undone(
    project: ScriptedProject, call: Any
) -> None:
    before = files(project)
    async with project.open() as conversation:
        denied = await do(conversation, project, read("ignored"), call)
        assert "Permission denied" in denied
        assert files(project) == before
        [request] = project.user.asked
        assert "is in no snapshot" in " ".join(claim.reason for claim in request.claims)

        project.user.answer = YES
        await do(conversation, project, call)
        assert "ignored" not in files(project)

        await conversation.timeline.undo()
        assert files(project)["ignored"] == "old\n"
        await conversation.timeline.redo()
        assert "ignored" not in files(project)


async def test_yolo_mode_removes_ignored_file_without_asking_and_can_be_undone(
    project: ScriptedProject,
) -> None:
    keep_files(project, "yolo")
    async with project.open() as conversation:
        await do(conversation, project, read("ignored"), DELETE)
        assert (project.user.asked, "ignored" in files(project)) == ([], False)

        await conversation.timeline.undo()

    assert files(project)["ignored"] == "old\n"


async def test_file_held_by_snapshots_is_removed_without_asking(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        await do(conversation, project, read("plain"), patch("delete", "plain"))
        assert (project.user.asked, "plain" in files(project)) == ([], False)

        await conversation.timeline.undo()

    assert files(project)["plain"] == "old\n"


async def test_ignored_file_is_restored_after_several_runs_and_restart(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        await do(conversation, project, read("plain"))
        await do(conversation, project, read("ignored"), EDIT)
        await do(
            conversation,
            project,
            ("edit", {"path": "ignored", "old_text": "new", "new_text": "newer"}),
        )
    async with project.open("newest") as conversation:
        prompts = conversation.timeline.prompts()
        counts = await conversation.timeline.changed_since(prompts)
        assert [counts[prompt.id] for prompt in prompts] == [1, 1, 1]

        await conversation.timeline.rewind(prompts[-1].id)

        assert files(project)["ignored"] == "old\n"


async def test_later_user_change_of_ignored_file_is_kept_by_rewind(
    project: ScriptedProject,
) -> None:
    async with project.open() as conversation:
        await do(conversation, project, read("ignored"), EDIT)
        put(project, "ignored", "mine\n")
        await do(conversation, project, read("plain"))

        moved = await conversation.timeline.rewind(conversation.timeline.prompts()[-1].id)

    assert (moved.kept, files(project)["ignored"]) == (("ignored",), "mine\n")


@pytest.mark.parametrize("call", ["edit", "delete"])
async def test_change_of_file_too_large_for_snapshots_can_be_undone(
    project: ScriptedProject, call: str
) -> None:
    large = put(project, "large", "old\n" + "x" * MIB)
    changes = {
        "edit": ("edit", {"path": "large", "old_text": "old", "new_text": "new"}),
        "delete": patch("delete", "large"),
    }
    project.user.answer = YES
    async with project.open() as conversation:
        await do(conversation, project, read("large"), changes[call])
        assert len(project.user.asked) == (call == "delete")
        after = large.read_text() if large.exists() else None
        assert after != "old\n" + "x" * MIB

        await conversation.timeline.undo()
        assert large.read_text() == "old\n" + "x" * MIB
        await conversation.timeline.redo()
        assert (large.read_text() if large.exists() else None) == after


@pytest.mark.parametrize("call", [EDIT, DELETE])
async def test_changing_file_in_nested_repository_keeps_private_copy(
    project: ScriptedProject, call: Any
) -> None:
    new_repository(project.folder / "nested")
    put(project, "nested/ignored", "old\n")
    name, arguments = call
    arguments = {**arguments, "path": "nested/ignored"} if name == "edit" else None
    call = (name, arguments) if arguments else patch("delete", "nested/ignored")
    project.user.answer = YES
    received: list[str] = []
    async with project.open() as conversation:
        conversation.subscribe(
            lambda e: received.append(e.content) if isinstance(e, SystemNotice) else None
        )
        await do(conversation, project, read("nested/ignored"), call)
        reasons = [claim.reason for asked in project.user.asked for claim in asked.claims]
        assert any("a copy is kept first" in reason for reason in reasons) == (name != "edit")
        await do(conversation, project, read("plain"))

    [copy] = project.state_dir.glob("copies/*/*-ignored")
    assert (copy.read_text(), copy.stat().st_mode & 0o777) == ("old\n", 0o600)
    assert any(str(copy) in text for text in received)


async def test_snapshots_turned_off_makes_removing_ask_but_not_editing(
    project: ScriptedProject,
) -> None:
    keep_files(project, more="snapshots = false")
    async with project.open() as conversation:
        await do(conversation, project, read("plain"), patch("update", "plain", content="new\n"))
        assert project.user.asked == []
        await do(conversation, project, patch("delete", "plain"))

    [request] = project.user.asked
    assert "this cannot be undone" in " ".join(claim.reason for claim in request.claims)
    assert not (project.state_dir / "copies").exists()
