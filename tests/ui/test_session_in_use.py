"""Opening a session that another conversation writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.types.errors import SessionBusy
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject


@pytest.fixture
async def other(project: ScriptedProject) -> AsyncIterator[Conversation]:
    """Another conversation, which keeps running."""
    project.model.will_say("because of the linker")
    async with project.open() as conversation:
        await conversation.send("why does the build fail?")
        yield conversation


@asynccontextmanager
async def busy_question(project: ScriptedProject, other: Conversation) -> AsyncIterator[AppDriver]:
    async with running_app(project, resumes=str(other.session_id), opens=False) as driver:
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        yield driver


async def test_copy_of_busy_session_can_be_used(
    project: ScriptedProject, other: Conversation
) -> None:
    async with busy_question(project, other) as driver:
        assert f"Session {other.session_id} is in use" in driver.screen
        await driver.pilot.press("1", "enter")
        await driver.until(lambda: driver.app.controller.conversation)
        await driver.send("and now?")
        await driver.until(lambda: "Nothing more to do." in driver.text)

        assert driver.conversation.session_id != other.session_id
        assert driver.sent == ["why does the build fail?", "and now?"]
    assert len(other.messages) == 2


async def test_busy_session_can_be_opened_read_only(
    project: ScriptedProject, other: Conversation
) -> None:
    before = project.journal.read_bytes()
    async with busy_question(project, other) as driver:
        await driver.pilot.press("2", "enter")
        await driver.until(lambda: "because of the linker" in driver.text)
        await driver.send("and now?")
        await driver.until(lambda: driver.text.count("is read-only because process") == 2)
        await driver.idle()

        assert "and now?" in driver.app.composer.text
    assert project.journal.read_bytes() == before


async def test_cancelling_busy_question_ends_program_with_session_busy(
    project: ScriptedProject, other: Conversation
) -> None:
    async with busy_question(project, other) as driver:
        await driver.pilot.press("3", "enter")
        await driver.until(lambda: driver.app.failure)

        assert isinstance(driver.app.failure, SessionBusy)


async def test_switching_to_busy_session_asks_and_can_be_cancelled(
    project: ScriptedProject, other: Conversation
) -> None:
    async with running_app(project) as driver:
        await driver.send("mine")
        await driver.until(lambda: "Nothing more to do." in driver.text)
        mine = driver.conversation
        await driver.send(f"/sessions {other.session_id}")
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        await driver.pilot.press("escape")
        await driver.idle()
        assert driver.app.controller.conversation is mine

        await driver.send("still here")
        await driver.until(lambda: driver.sent == ["mine", "still here"])
        await driver.idle()
        await driver.send(f"/sessions {other.session_id}")
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        await driver.pilot.press("2", "enter")
        await driver.until(lambda: "because of the linker" in driver.text)

        assert driver.app.controller.conversation is not mine
