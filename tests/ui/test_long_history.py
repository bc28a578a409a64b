"""Long stored histories: their end is drawn first, the rest behind it."""

import asyncio

import pytest

from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.types.events import ContextReplaced
from dirge_py.ui import feed
from dirge_py.ui.feed import DRAWN_AT_ONCE, DRAWN_FIRST
from dirge_py.ui.transcript.blocks import UserBlock
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.support.stored_sessions import exchange, tool_use
from tests.ui.test_find_in_transcript import bar

EXCHANGES = (DRAWN_FIRST + DRAWN_AT_ONCE) // 2


@pytest.fixture
def long_session(project: ScriptedProject) -> str:
    """The id of a stored session that is drawn in several parts."""
    messages = []
    for number in range(EXCHANGES):
        prompt, answer = exchange(f"prompt {number}", f"answer {number}")
        messages += [prompt, *tool_use(f"c{number}", "make", f"made {number}"), answer]
    recorder = Recorder(Store(project.state_dir, project.folder).open_or_create("long"))
    recorder.begin("long")
    # One record for all, as each message would be synced to the disk.
    recorder.sink(ContextReplaced(messages=tuple(messages)))
    recorder.close()
    return "long"


def prompts(driver: AppDriver) -> list[str]:
    rows = driver.app.transcript.layout_of_blocks.rows
    return [row.block.text for row in rows if isinstance(row.block, UserBlock)]


async def test_all_of_a_long_history_is_drawn_in_order_behind_its_end(
    project: ScriptedProject, long_session: str
) -> None:
    async with running_app(project, resumes=long_session, size=(80, 24)) as driver:
        assert f"answer {EXCHANGES - 1}" in driver.screen
        shown_first = len(prompts(driver))
        await driver.app.feed.drawn()
        assert prompts(driver) == [f"prompt {number}" for number in range(EXCHANGES)]
        assert shown_first < EXCHANGES
        assert f"answer {EXCHANGES - 1}" in driver.screen


async def test_view_keeps_its_place_while_earlier_messages_come(
    project: ScriptedProject, long_session: str
) -> None:
    async with running_app(project, resumes=long_session, size=(80, 24)) as driver:
        driver.app.transcript.scroll_lines(-30)
        await driver.pilot.pause()
        before = driver.screen.splitlines()[1:15]
        await driver.app.feed.drawn()
        await driver.pilot.pause()
        assert driver.screen.splitlines()[1:15] == before


async def test_drawing_ends_when_another_history_is_shown(
    project: ScriptedProject, long_session: str
) -> None:
    async with running_app(project, resumes=long_session) as driver:
        drawing = asyncio.ensure_future(driver.app.feed.drawn())
        await driver.send("/new")
        await driver.until(lambda: not driver.conversation.messages)
        await drawing
        assert prompts(driver) == []


async def test_search_waits_for_the_whole_history(
    project: ScriptedProject, long_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "SOON_S", 0.2)
    async with running_app(project, resumes=long_session, size=(80, 24)) as driver:
        await driver.pilot.press("ctrl+f")
        await driver.type("made 77")
        await driver.until(lambda: "of" in bar(driver) or "not found" in bar(driver))
        assert "of" in bar(driver)
