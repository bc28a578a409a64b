"""The list of sessions in the terminal UI, its keys, and sessions of other folders."""

import shutil
from contextlib import chdir
from pathlib import Path

import pytest

from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject


@pytest.fixture
async def elsewhere(project: ScriptedProject, home: Path) -> str:
    """The id of a session in the folder `other`."""
    (home / "other" / ".git").mkdir(parents=True)
    project.model.will_say("The parser is fixed.")
    with chdir(home / "other"):
        async with project.open() as conversation:
            await conversation.send("fix the parser")
            return conversation.session_id or ""


async def open_picker(driver: AppDriver) -> None:
    await driver.send("write the docs")
    await driver.idle()
    await driver.send("/sessions")
    await driver.until(lambda: driver.app.picker.has_focus)


async def test_key_line_names_keys_of_the_list_of_sessions(project: ScriptedProject) -> None:
    async with running_app(project, size=(120, 40)) as driver:
        await open_picker(driver)
        assert "Ctrl+R: rename · Ctrl+D: delete · Ctrl+A: all projects" in driver.screen
        assert "type: filter" in driver.screen
        await driver.pilot.press("ctrl+a")
        await driver.until(lambda: "Ctrl+D: delete · Ctrl+A: this project" in driver.screen)
        await driver.pilot.press("escape")
        await driver.send("/model")
        await driver.until(lambda: driver.app.picker.has_focus)
        assert "Ctrl+R" not in driver.screen


async def test_session_whose_title_has_the_typed_words_is_listed_first(
    project: ScriptedProject,
) -> None:
    async with running_app(project, size=(120, 40)) as driver:
        for prompt in ("part 2", "part 3"):
            await driver.send(prompt)
            await driver.idle()
            await driver.send("/new")
            await driver.until(lambda: not driver.conversation.messages)
        await driver.send("/sessions")
        await driver.until(lambda: driver.app.picker.has_focus)
        await driver.type("part 2")
        await driver.until(lambda: "▸ part 2" in driver.screen)
        assert "part 3" in driver.screen.rpartition("▸ part 2")[2]  # It has 2 messages.


async def test_picker_renames_session_and_returns_to_the_list(project: ScriptedProject) -> None:
    async with running_app(project) as driver:
        await open_picker(driver)
        await driver.pilot.press("ctrl+r")
        await driver.until(lambda: "New title" in driver.screen)
        await driver.type(" again")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.picker.has_focus)
        assert "write the docs again" in driver.screen


async def test_deleting_in_picker_asks_first(project: ScriptedProject) -> None:
    async with running_app(project) as driver:
        await open_picker(driver)
        before = project.journal.read_bytes()
        await driver.pilot.press("ctrl+d")
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        await driver.pilot.press("1", "enter")
        await driver.until(lambda: driver.app.picker.has_focus)
        assert project.journal.read_bytes() == before


async def test_session_of_another_folder_opens_there(
    project: ScriptedProject, home: Path, elsewhere: str
) -> None:
    async with running_app(project) as driver:
        await open_picker(driver)
        await driver.pilot.press("ctrl+a")
        await driver.until(lambda: "~/other" in driver.screen)
        assert "Sessions of all projects" in driver.screen
        assert "Ctrl+A: this" in driver.screen
        await driver.type("parser")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        await driver.pilot.press("1", "enter")
        await driver.until(lambda: "The parser is fixed." in driver.text)

        assert driver.conversation.session_id == elsewhere
        assert Path.cwd() == driver.conversation.cwd == home / "other"


async def test_session_of_another_folder_opens_after_current_folder_was_deleted(
    project: ScriptedProject, home: Path, elsewhere: str
) -> None:
    async with running_app(project) as driver:
        await open_picker(driver)
        shutil.rmtree(project.folder)
        await driver.pilot.press("ctrl+a")
        await driver.until(lambda: "~/other" in driver.screen)
        await driver.type("parser")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        await driver.pilot.press("1", "enter")
        await driver.until(lambda: "The parser is fixed." in driver.text)

        assert driver.conversation.session_id == elsewhere


async def test_start_with_id_of_another_folder_offers_to_go_there(
    project: ScriptedProject, home: Path, elsewhere: str
) -> None:
    async with running_app(project, resumes=elsewhere, opens=False) as driver:
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        assert "belongs to another project" in driver.screen
        await driver.pilot.press("1", "enter")
        await driver.until(lambda: "The parser is fixed." in driver.text)
        assert Path.cwd() == home / "other"


async def test_staying_at_start_ends_with_the_way_to_open_it(
    project: ScriptedProject, home: Path, elsewhere: str
) -> None:
    async with running_app(project, resumes=elsewhere, opens=False) as driver:
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        await driver.pilot.press("2", "enter")
        await driver.until(lambda: driver.app.failure)
        assert driver.app.failure.hint == f"Run `dirge -C {home / 'other'} -r {elsewhere}`."
        assert Path.cwd() == project.folder


async def test_first_greeting_has_tips_meaning_of_mode_and_recent_sessions(
    project: ScriptedProject,
) -> None:
    project.model.will_say("Written.")
    async with project.open() as conversation:
        await conversation.send("write the docs")
        conversation.rename("the manual")
        project.model.will_say("x" * 40_000)
        await conversation.send("more of them")
    async with running_app(project, has_tips=True) as driver:
        assert "edits workspace files; asks" in driver.text
        assert "recent  the manual · just now" in driver.text
        assert "Esc Esc goes back to a prompt" in driver.text
        await driver.send("/clear")
        await driver.until(lambda: "New session" in driver.text)
        assert "unasked" not in driver.text and "recent" not in driver.text
