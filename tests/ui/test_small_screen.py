"""Questions and lists on the smallest screen, and after the terminal was resized."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dirge_py.types.questions import ActingFile, TrustOffer
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.ui.test_hunk_view import GONE, X
from tests.ui.test_hunk_view import request as change_of
from tests.ui.test_permission import request
from tests.ui.test_question_form import BASE, OPEN, SEVERAL, pose
from tests.ui.test_trust_dialog import ask as ask_for_trust

SMALLEST = (20, 5)


async def permission(driver: AppDriver) -> None:
    driver.ask(request())
    await driver.asked()


async def permissions(driver: AppDriver) -> None:
    driver.ask(request(), request("git fetch"))
    await driver.asked()


async def hunks(driver: AppDriver) -> None:
    driver.ask(change_of(X, GONE))
    await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
    await driver.pilot.press("end", "h", "enter", "down")


async def form(driver: AppDriver) -> None:
    pose(driver, BASE, SEVERAL)
    await driver.until(lambda: driver.panel and driver.panel.is_open)


async def open_question(driver: AppDriver) -> None:
    pose(driver, OPEN)
    await driver.until(lambda: driver.panel and driver.panel.is_writing)


async def trust(driver: AppDriver) -> None:
    file = ActingFile(path=".dirge/a.py", kind="plugin", size=1, sha256="0" * 64, state="new")
    ask_for_trust(driver, TrustOffer(project="/home/me/project", files=(file,), digest="d"))
    await driver.until(lambda: "select, then" in driver.screen)


async def typed(driver: AppDriver, command: str) -> None:
    await driver.send("hello")
    await driver.idle()
    await driver.send(command)


async def sessions(driver: AppDriver) -> None:
    await typed(driver, "/sessions")
    await driver.until(lambda: driver.app.picker.has_focus)


async def models(driver: AppDriver) -> None:
    await typed(driver, "/model")
    await driver.until(lambda: driver.app.picker.has_focus)


async def rewind(driver: AppDriver) -> None:
    await typed(driver, "/rewind")
    await driver.until(lambda: driver.app.picker.has_focus)


async def find(driver: AppDriver) -> None:
    await typed(driver, "again")
    await driver.idle()
    await driver.pilot.press("ctrl+f", "h", "e")
    await driver.until(lambda: "1 of" in driver.screen)


async def help_page(driver: AppDriver) -> None:
    await typed(driver, "/help")
    await driver.until(lambda: "Every day" in driver.screen)


async def completion(driver: AppDriver) -> None:
    await driver.type("/co")
    await driver.until(lambda: driver.app.proposals.is_open)


async def unknown_theme(driver: AppDriver) -> None:
    await driver.send("/theme nosuch")
    await driver.until(lambda: "no theme" in driver.screen)


STATES: list[tuple[Callable[[AppDriver], Awaitable[None]], tuple[str, ...], str]] = [
    (permission, ("Allow bash?", "once", "deny"), "deny with a comment"),
    (permissions, ("Allow bash?", "all", "deny"), "Left/Right: the others"),
    (hunks, ("/p/x.py", "Enter: accept 4/4"), "Esc: back"),
    (form, ("Which database?", "Esc: cancel"), "type: answer in your own words"),
    (open_question, ("What name?", "Enter: answer", "Esc: cancel"), "Esc: cancel"),
    (trust, ("Trust this", "n No", "y Yes"), "text you type goes to the input"),
    (sessions, ("Sessions", "▸ hello", "Esc: cancel"), "Ctrl+A: all projects"),
    (models, ("Model", "▸ fake/gpt", "Esc: cancel"), "Esc: cancel"),
    (rewind, ("Rewind to", "▸ (current)", "Esc: cancel"), "Esc: cancel"),
    (find, ("/ he", "1 of"), "Enter: next · Esc: close"),
    (help_page, ("Every day",), "/clear"),
    (completion, ("▸ /compact", "Enter: choose", "❯ /co"), "Tab: complete"),
    (unknown_theme, ("There is no", "theme 'nosuch'.", "See /theme."), "See /theme."),
]


@pytest.mark.parametrize(
    ("show", "small", "large"), STATES, ids=[each[0].__name__ for each in STATES]
)
async def test_question_fits_smallest_screen_and_again_a_large_one(
    project: ScriptedProject,
    show: Callable[[AppDriver], Awaitable[None]],
    small: tuple[str, ...],
    large: str,
) -> None:
    async with running_app(project, size=(80, 24)) as driver:
        await driver.idle()
        await show(driver)
        await driver.pilot.resize_terminal(*SMALLEST)
        for words in small:
            await driver.until(lambda words=words: words in driver.screen)
        assert max(map(len, driver.screen.split("\n"))) <= SMALLEST[0]

        await driver.pilot.resize_terminal(120, 40)
        await driver.until(lambda: large in driver.screen)
        if (panel := driver.panel) is not None:
            # No row of the question is out of sight, and none is left over.
            assert panel.size.height == sum(
                child.outer_size.height for child in panel.children if child.display
            )
            body = panel.query_one(".body")
            assert not body.display or body.virtual_size.height == body.size.height


HOSTILE = "evil\x1b]0;owned\x07\x1b[31m\nsecond\u202eline"


async def test_title_with_escape_codes_is_harmless_in_list_and_header(
    project: ScriptedProject,
) -> None:
    async with running_app(project) as driver:
        await typed(driver, "/rename " + HOSTILE.replace("\n", " "))
        await driver.idle()
        await driver.send("/sessions")
        await driver.until(lambda: driver.app.picker.has_focus)
        rows = [row for row in driver.screen.split("\n") if "evil" in row]
        assert rows
        assert not any(char in driver.screen for char in "\x1b\x07\u202e")


async def test_folder_name_with_escape_codes_is_harmless_on_the_screen(
    project: ScriptedProject, home: Path
) -> None:
    folder = home / HOSTILE
    folder.mkdir()
    project.folder = folder
    async with running_app(project) as driver:
        await driver.app.session_opener.switch_to(None, folder)
        await driver.until(lambda: "evil" in driver.app.status.status.place)  # type: ignore[union-attr]
        await driver.until(lambda: "evil" in driver.screen)
        assert not any(char in driver.screen for char in "\x1b\x07\u202e")
