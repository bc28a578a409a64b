"""`/diff`, `/add-dir`, `/cd` and `/config`, as typed."""

import shlex
from pathlib import Path
from typing import cast

import pytest

from dirge_py.config.load import load
from dirge_py.config.schema import Config
from dirge_py.conversation.conversation import Conversation
from dirge_py.slash.base import Unsupported
from dirge_py.types.errors import UsageError
from tests.support.project import ScriptedProject
from tests.support.rewind_driver import rewindable
from tests.support.typed_commands import ScriptedFrontEnd, run_command, run_command_in


async def test_diff_shows_changes_of_session_by_model_and_user(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n", b="same\n", gone="x\n")
        await driver.prompt("go", "printf 'two\\n' > a; rm gone; printf 'new\\n' > c")
        driver.edit(b="mine\n")

        whole = await run_command("/diff", driver.conversation)
        single = await run_command("/diff ./a", driver.conversation)
        from_root = await run_command(f"/diff {project.folder / 'c'}", driver.conversation)

    assert whole.shown == ["Since the session began, by you or the model, 4 files: a, b, c, gone"]
    for line in ("-one", "+two", "-same", "+mine", "-x", "+new"):
        assert line in whole.diffs[0].splitlines()
    assert "+two" in single.diffs[0]
    assert "mine" not in single.diffs[0]
    assert "+new" in from_root.diffs[0]


async def test_diff_reports_no_changes_and_missing_snapshots(
    project: ScriptedProject,
) -> None:
    async with rewindable(project) as driver:
        driver.edit(a="one\n")
        await driver.prompt("look")
        assert (
            await run_command("/diff", driver.conversation)
        ).text == "Nothing changed since the session began."
        text = (await run_command("/diff a", driver.conversation)).text
        assert text == "Nothing changed in a since the session began."
        with pytest.raises(UsageError, match="is not in the project"):
            await run_command("/diff ../elsewhere", driver.conversation)
    async with project.open() as conversation:
        with pytest.raises(UsageError, match="no record of what changed"):
            await run_command("/diff", conversation)


async def test_diff_without_snapshots_compares_with_last_commit(
    project: ScriptedProject,
) -> None:
    async def uncommitted() -> str:
        return "diff --git a/x b/x\n+x\n--- /dev/null\n+++ b/new\n+y\n"

    async with project.open() as conversation:
        conversation.timeline.uncommitted = uncommitted
        front = await run_command("/diff", conversation)

    assert front.shown == ["Since the last commit, by you or the model, 2 files: x, new"]
    assert front.diffs == ["diff --git a/x b/x\n+x\n--- /dev/null\n+++ b/new\n+y\n"]


async def test_add_dir_adds_folder_after_approval(project: ScriptedProject, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("hello\n")
    async with project.open() as conversation:
        assert conversation.settings.why("edit", str(other / "notes.txt")).effect == "ask"
        refused = await run_command("/add-dir ../other", conversation, None)
        assert refused.text == "Nothing was added."
        assert conversation.settings.why("edit", str(other / "notes.txt")).effect == "ask"

        added = await run_command("/add-dir ../other", conversation, "add it")

        assert "becomes part of the workspace" in added.asked[0]
        assert str(other) in added.text
        assert conversation.settings.why("edit", str(other / "notes.txt")).effect == "allow"
        assert (
            "already part of the workspace"
            in (await run_command(f"/add-dir {other}/", conversation)).text
        )
        assert str(other) in (await run_command("/add-dir", conversation)).text
        project.model.will_call("write", path=str(other / "new.txt"), content="made\n")
        project.model.will_say("Done.")
        await conversation.send("write there")
    assert (other / "new.txt").read_text() == "made\n"
    async with project.open("newest") as conversation:
        assert conversation.settings.why("edit", str(other / "notes.txt")).effect == "ask"


async def test_add_dir_refuses_missing_folder_and_keeps_state_denied(
    project: ScriptedProject, tmp_path: Path
) -> None:
    (project.folder / "file").write_text("")
    async with project.open() as conversation:
        for name in ("nowhere", "file", "~nobody-of-that-name/x"):
            with pytest.raises(UsageError, match=r"is no folder|is not a folder"):
                await run_command(f"/add-dir {name}", conversation)
        # dirge's own folders stay denied, even when a parent folder is added.
        await run_command(f"/add-dir {tmp_path}", conversation, "add it")
        assert conversation.settings.why("read", str(project.state_dir / "x")).effect == "deny"


async def test_cd_needs_front_end_that_can_open_folder(project: ScriptedProject) -> None:
    async with project.open() as conversation:
        with pytest.raises(Unsupported):
            await run_command("/cd ..", conversation)


class Opener(ScriptedFrontEnd):
    opened_in: Path | None = None

    async def open_in(self, folder: Path) -> Conversation:
        self.opened_in = folder
        raise Unsupported("tests")


async def test_cd_opens_resolved_path(project: ScriptedProject, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project.folder.parent)
    async with project.open() as conversation:
        screen = Opener()
        with pytest.raises(Unsupported):
            await run_command_in(screen, f"/cd {tmp_path / 'link'}", conversation)
        assert screen.opened_in == tmp_path
        assert "This is" in (await run_command_in(Opener(), "/cd .", conversation)).text


class Mover(ScriptedFrontEnd):
    async def open_in(self, folder: Path) -> Conversation:
        return cast("Conversation", None)


async def test_command_to_go_back_is_quoted_for_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my; touch x").mkdir()
    project = ScriptedProject(tmp_path / "my; touch x")
    monkeypatch.chdir(project.folder)
    async with project.open() as conversation:
        text = (await run_command_in(Mover(), "/cd ..", conversation)).text

    assert shlex.split(text.partition("To go back: ")[2])[:3] == [
        "dirge",
        "-C",
        str(project.folder),
    ]


class Editor(ScriptedFrontEnd):
    """A front end with settings, and a scripted editor."""

    settings_file: Path | None = None

    def __init__(self, file: Path, writes: str | None = None) -> None:
        super().__init__()
        self.settings_file = file
        self._writes = writes

    def settings(self) -> Config:
        return load(environment={"HOME": "/nowhere"}, path=self.settings_file)

    async def edit_text(self, text: str) -> str | None:
        return self._writes


async def test_config_command_shows_only_set_settings(
    project: ScriptedProject, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[ui]\ntheme = "light"\n[limits]\ncost_usd = 2.5\n')
    project.configure("[limits]\ncost_usd = 2.5\n")
    async with project.open() as conversation:
        text = (await run_command_in(Editor(file), "/settings", conversation)).text
        assert (
            "Limits: cost_usd 2.5"
            in (await run_command_in(Editor(file), "/cost", conversation)).text
        )

    assert f'ui.theme = "light"  # {file}:2' in text
    assert "show_thinking" not in text


async def test_edited_settings_are_written_and_checked(
    project: ScriptedProject, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[ui]\ntheme = "light"\n')
    async with project.open() as conversation:
        for left in (None, '[ui]\ntheme = "light"'):
            unchanged = await run_command_in(Editor(file, left), "/config edit", conversation)
            assert unchanged.text == "Nothing was changed."

        good = await run_command_in(
            Editor(file, '[ui]\ntheme = "plain"'), "/config edit", conversation
        )
        assert "was written and is valid" in good.text
        assert file.read_text() == '[ui]\ntheme = "plain"\n'

        bad = await run_command_in(Editor(file, "[ui]\ntheem = 1\n"), "/config edit", conversation)
        assert "not valid" in bad.text
        assert "theme" in bad.text
        assert bad.input == "/config edit"
        with pytest.raises(UsageError, match="doesn't take"):
            await run_command_in(Editor(file), "/config eidt", conversation)
    async with project.open() as conversation:
        with pytest.raises(Unsupported):
            await run_command("/config", conversation)
