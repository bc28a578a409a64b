"""A session whose last run was cut off, opened on the screen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dirge_py.types.questions import PermissionAnswer
from tests.conversation.room import Room
from tests.session.cut import cut_behind
from tests.ui.running_app import RunningApp, running_app

COUNTED = "echo ran >> ran.txt"
NOTHING = "Not continued. /continue asks again; a prompt starts without it."


def runs(room: Room) -> int:
    return (room.project / "ran.txt").read_text().count("ran")


@pytest.fixture
async def session(room: Room) -> str:
    """A session that was killed when its second command had begun."""
    room.person.answer = PermissionAnswer(effect="allow")
    room.model.will_call_all(
        ("bash", {"command": COUNTED}), ("bash", {"command": f"{COUNTED}; true"})
    ).will_say("never said")
    async with room.open() as talk:
        await talk.send("deploy it")
        name = talk.session_id
    cut_behind(room.journal, "tool_started", nth=2)
    assert name is not None
    return name


@asynccontextmanager
async def asked(room: Room, session: str, words: str) -> AsyncIterator[RunningApp]:
    async with running_app(room, resumes=session, mode="yolo") as d:
        await d.until(lambda: d.panel and d.panel.has_focus and d.panel.is_open)
        await d.until(lambda: words in d.screen)
        yield d


async def test_a79_the_person_is_asked_once_and_looking_first_is_offered_first(
    room: Room, session: str
) -> None:
    async with asked(room, session, f"cut off while `bash: {COUNTED}; true` ran.") as d:
        for words in ("look first", "it is done", "run it again", "not now"):
            assert words in d.screen
        await d.pilot.press("down", "enter")
        await d.until(lambda: "Nothing more to do." in d.text)
        await d.idle()
        assert "its outcome is unknown" in d.results[1]
        assert d.sent == ["deploy it"]
    async with running_app(room, resumes=session) as d:
        await d.idle()
        assert d.panel is None
    assert runs(room) == 2


@pytest.mark.parametrize(("key", "count", "words"), [("3", 3, ""), ("2", 2, "The user says")])
async def test_it_may_run_once_more_or_count_as_done(
    room: Room, session: str, key: str, count: int, words: str
) -> None:
    async with asked(room, session, "cut off") as d:
        await d.pilot.press(key, "enter")
        await d.until(lambda: "Nothing more to do." in d.text)
        await d.idle()
        assert words in d.results[1]
    assert runs(room) == count


@pytest.mark.parametrize("keys", [["4", "enter"], ["escape"]])
async def test_not_now_leaves_it_and_continue_asks_again(
    room: Room, session: str, keys: list[str]
) -> None:
    async with asked(room, session, "cut off") as d:
        await d.pilot.press(*keys)
        await d.until(lambda: NOTHING in d.text.replace("\n", " "))
        assert d.conversation.interruption is not None
        await d.send("/continue")
        await d.until(lambda: d.panel and d.panel.has_focus and d.panel.is_open)
        await d.pilot.press("1", "enter")
        await d.until(lambda: "Nothing more to do." in d.text)
    assert runs(room) == 2


async def test_a_run_without_such_calls_is_only_asked_to_go_on(room: Room, session: str) -> None:
    cut_behind(room.journal, "message")
    async with asked(room, session, "cut off while the model was answering.") as d:
        await d.pilot.press("2", "enter")
        await d.until(lambda: "/continue continues the run" in d.text)
        await d.send("/continue")
        await d.until(lambda: "Nothing more to do." in d.text)
        assert d.sent == ["deploy it"]


async def test_a_prompt_that_comes_along_goes_on_without_it(room: Room, session: str) -> None:
    async with running_app(room, resumes=session, first_prompt="and now?") as d:
        await d.until(lambda: "Nothing more to do." in d.text)
        await d.idle()
        assert d.panel is None
        assert d.sent == ["deploy it", "and now?"]
        assert "(bash) were closed as not finished" in d.text.replace("\n", " ")
    assert runs(room) == 2
