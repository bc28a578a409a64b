"""Opening a session whose last run was interrupted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dirge_py.types.questions import PermissionAnswer
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.support.truncated_journal import cut_behind

COUNTED = "echo ran >> ran.txt"
NOTHING = "Not continued. /continue asks again; a prompt starts without it."


def runs(project: ScriptedProject) -> int:
    return (project.folder / "ran.txt").read_text().count("ran")


@pytest.fixture
async def session(project: ScriptedProject) -> str:
    """A session killed after its second command started."""
    project.user.answer = PermissionAnswer(effect="allow")
    project.model.will_call_all(
        ("bash", {"command": COUNTED}), ("bash", {"command": f"{COUNTED}; true"})
    ).will_say("never said")
    async with project.open() as conversation:
        await conversation.send("deploy it")
        name = conversation.session_id
    cut_behind(project.journal, "tool_started", nth=2)
    assert name is not None
    return name


@asynccontextmanager
async def interruption_question(
    project: ScriptedProject, session: str, words: str
) -> AsyncIterator[AppDriver]:
    async with running_app(project, resumes=session, mode="yolo") as driver:
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        await driver.until(lambda: words in driver.screen)
        yield driver


async def test_a79_interrupted_call_is_asked_about_once_with_look_first_on_top(
    project: ScriptedProject, session: str
) -> None:
    async with interruption_question(
        project, session, f"cut off while `bash: {COUNTED}; true` ran."
    ) as driver:
        for words in ("check first", "it is done", "run it again", "not now"):
            assert words in driver.screen
        await driver.pilot.press("down", "enter")
        await driver.until(lambda: "Nothing more to do." in driver.text)
        await driver.idle()
        assert "its outcome is unknown" in driver.results[1]
        assert driver.sent == ["deploy it"]
    async with running_app(project, resumes=session) as driver:
        await driver.idle()
        assert driver.panel is None
    assert runs(project) == 2


@pytest.mark.parametrize(("key", "count", "words"), [("3", 3, ""), ("2", 2, "The user says")])
async def test_interrupted_call_can_be_rerun_or_marked_done(
    project: ScriptedProject, session: str, key: str, count: int, words: str
) -> None:
    async with interruption_question(project, session, "cut off") as driver:
        await driver.pilot.press(key, "enter")
        await driver.until(lambda: "Nothing more to do." in driver.text)
        await driver.idle()
        assert words in driver.results[1]
    assert runs(project) == count


@pytest.mark.parametrize("keys", [["4", "enter"], ["escape"]])
async def test_not_now_keeps_interruption_and_continue_asks_again(
    project: ScriptedProject, session: str, keys: list[str]
) -> None:
    async with interruption_question(project, session, "cut off") as driver:
        await driver.pilot.press(*keys)
        await driver.until(lambda: NOTHING in driver.text.replace("\n", " "))
        assert driver.conversation.interruption is not None
        await driver.send("/continue")
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        await driver.pilot.press("1", "enter")
        await driver.until(lambda: "Nothing more to do." in driver.text)
    assert runs(project) == 2


async def test_run_interrupted_during_answer_only_asks_whether_to_continue(
    project: ScriptedProject, session: str
) -> None:
    cut_behind(project.journal, "message")
    async with interruption_question(
        project, session, "cut off while the model was answering."
    ) as driver:
        await driver.pilot.press("2", "enter")
        await driver.until(lambda: "/continue continues the run" in driver.text)
        await driver.send("/continue")
        await driver.until(lambda: "Nothing more to do." in driver.text)
        assert driver.sent == ["deploy it"]


async def test_resume_with_prompt_skips_question_about_interrupted_run(
    project: ScriptedProject, session: str
) -> None:
    async with running_app(project, resumes=session, first_prompt="and now?") as driver:
        await driver.until(lambda: "Nothing more to do." in driver.text)
        await driver.idle()
        assert driver.panel is None
        assert driver.sent == ["deploy it", "and now?"]
        assert "(bash) were closed as not finished" in driver.text.replace("\n", " ")
    assert runs(project) == 2
