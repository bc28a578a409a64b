"""A session that another conversation writes, opened on the screen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dirge_py.conversation.conversation import Conversation
from dirge_py.types.errors import SessionBusy
from tests.conversation.room import Room
from tests.ui.running_app import RunningApp, running_app


@pytest.fixture
async def other(room: Room) -> AsyncIterator[Conversation]:
    """Somebody else's conversation, which goes on."""
    room.model.will_say("because of the linker")
    async with room.open() as talk:
        await talk.send("why does the build fail?")
        yield talk


@asynccontextmanager
async def asked(room: Room, other: Conversation) -> AsyncIterator[RunningApp]:
    async with running_app(room, resumes=str(other.session_id), opens=False) as d:
        await d.until(lambda: d.panel and d.panel.has_focus and d.panel.is_open)
        yield d


async def test_a_copy_of_a_busy_session_can_be_worked_in(room: Room, other: Conversation) -> None:
    async with asked(room, other) as d:
        assert f"Session {other.session_id} is busy" in d.screen
        await d.pilot.press("1", "enter")
        await d.until(lambda: d.app.controller.conversation)
        await d.send("and now?")
        await d.until(lambda: "Nothing more to do." in d.text)

        assert d.conversation.session_id != other.session_id
        assert d.sent == ["why does the build fail?", "and now?"]
    assert len(other.messages) == 2


async def test_a_busy_session_can_be_looked_at_and_takes_no_prompt(
    room: Room, other: Conversation
) -> None:
    before = room.journal.read_bytes()
    async with asked(room, other) as d:
        await d.pilot.press("2", "enter")
        await d.until(lambda: "because of the linker" in d.text)
        await d.send("and now?")
        await d.until(lambda: d.text.count("is read-only because process") == 2)
        await d.idle()

        assert "and now?" in d.app.composer.text
    assert room.journal.read_bytes() == before


async def test_who_wants_neither_is_told_why_the_program_ends(
    room: Room, other: Conversation
) -> None:
    async with asked(room, other) as d:
        await d.pilot.press("3", "enter")
        await d.until(lambda: d.app.failure)

        assert isinstance(d.app.failure, SessionBusy)


async def test_going_to_a_busy_session_is_asked_about_and_can_be_left(
    room: Room, other: Conversation
) -> None:
    async with running_app(room) as d:
        await d.send("mine")
        await d.until(lambda: "Nothing more to do." in d.text)
        mine = d.conversation
        await d.send(f"/sessions {other.session_id}")
        await d.until(lambda: d.panel and d.panel.has_focus and d.panel.is_open)
        await d.pilot.press("escape")
        await d.idle()
        assert d.app.controller.conversation is mine

        await d.send("still here")
        await d.until(lambda: d.sent == ["mine", "still here"])
        await d.idle()
        await d.send(f"/sessions {other.session_id}")
        await d.until(lambda: d.panel and d.panel.has_focus and d.panel.is_open)
        await d.pilot.press("2", "enter")
        await d.until(lambda: "because of the linker" in d.text)

        assert d.app.controller.conversation is not mine
