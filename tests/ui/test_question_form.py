"""Questions of the model: options, multiple choice, free text."""

import asyncio
from collections.abc import Sequence

import pytest

from dirge_py.permission.rules import Mode
from dirge_py.types.questions import Question, QuestionAnswer, QuestionOption, SupportsForms
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.ui.test_permission import request

BASE = Question(
    question="Which database?",
    header="Storage",
    options=(
        QuestionOption(label="SQLite", description="one file, no server"),
        QuestionOption(label="Postgres"),
    ),
)
SEVERAL = Question(
    question="Which systems?",
    options=tuple(QuestionOption(label=name) for name in ("Linux", "macOS", "Windows")),
    is_multiple=True,
)
CLOSED = Question(question="Sure?", options=(QuestionOption(label="Yes"),), is_open=False)
OPEN = Question(question="What name?")


def pose(
    driver: AppDriver, *questions: Question
) -> "asyncio.Task[Sequence[QuestionAnswer] | None]":
    assert isinstance(driver.asker, SupportsForms)
    return asyncio.ensure_future(driver.asker.question(questions))


async def posed(driver: AppDriver) -> None:
    await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)


def chosen(*labels: str, text: str = "") -> QuestionAnswer:
    return QuestionAnswer(chosen=labels, text=text)


KEYS: list[tuple[Question, list[str], QuestionAnswer]] = [
    (BASE, ["1", "enter"], chosen("SQLite")),
    (BASE, ["2", "enter"], chosen("Postgres")),
    (BASE, ["enter", "down", "enter"], chosen("SQLite")),
    (BASE, ["down", "down", "enter"], chosen("Postgres")),
    (BASE, ["3", "enter", "m", "1", "space", "x", "enter"], chosen(text="m1 x")),
    (BASE, ["m", "1", "space", "x", "enter"], chosen(text="m1 x")),
    (BASE, ["down", "space", "x", "enter"], chosen(text="x")),
    (BASE, ["2", "space", "x", "enter"], chosen(text="2 x")),
    (BASE, ["1", "2", "enter"], chosen(text="12")),
    (BASE, ["up", "enter", "m", "enter"], chosen(text="m")),
    (BASE, ["m", "escape", "1", "enter"], chosen("SQLite")),
    (BASE, ["3", "enter", "enter", "1", "enter"], chosen("SQLite")),
    (SEVERAL, ["down", "enter"], chosen()),
    (SEVERAL, ["down", "space", *["down"] * 2, "space", "enter"], chosen("Linux", "Windows")),
    (SEVERAL, ["2", "space", "enter"], chosen("macOS")),
    (SEVERAL, ["2", "space", "x", "enter"], chosen(text="2 x")),
    (SEVERAL, ["2", "space", "down", "b", "s", "d", "enter"], chosen("macOS", text="bsd")),
    (CLOSED, ["down", "enter"], chosen("Yes")),
]


async def test_each_key_sequence_gives_its_answer(project: ScriptedProject):
    async with running_app(project) as driver:
        for question, keys, answer in KEYS:
            form = pose(driver, question)
            await posed(driver)
            await driver.pilot.press(*keys)
            assert (keys, await form) == (keys, [answer])
            await driver.until(lambda: driver.panel is None and driver.app.composer.has_focus)


async def test_form_shows_question_options_and_keys(project: ScriptedProject):
    async with running_app(project) as driver:
        pose(driver, BASE, SEVERAL)
        await posed(driver)
        await driver.pilot.press("down")
        await driver.until(lambda: "▸ 1 SQLite" in driver.screen)
        lines = [line.rstrip() for line in driver.screen.splitlines()]
        at = lines.index(" Storage  1 of 2")
        assert lines[at + 1 : at + 8] == [
            " Which database?",
            "",
            " ▸ 1 SQLite    one file, no server",
            "   2 Postgres",
            "   3 in your own words",
            "",
            " Enter: answer · Esc: cancel · type: answer in your own words",
        ]


async def test_form_moves_between_its_questions(project: ScriptedProject):
    async with running_app(project) as driver:
        form = pose(driver, BASE, SEVERAL)
        await posed(driver)
        await driver.pilot.press("1", "enter")
        await driver.until(lambda: "2 of 2" in driver.screen)
        await driver.pilot.press("down", "space", "left")
        await driver.until(lambda: "1 of 2" in driver.screen)
        await driver.pilot.press("right")
        await driver.until(lambda: "[✓] Linux" in driver.screen)
        await driver.pilot.press("left", "2", "enter", "enter")
        assert await form == [chosen("Postgres"), chosen("Linux")]


async def test_answer_in_own_words_is_shown_once_while_it_is_typed(project: ScriptedProject):
    async with running_app(project) as driver:
        form = pose(driver, BASE)
        await posed(driver)
        await driver.pilot.press(*"my own")
        await driver.until(lambda: "my own" in driver.screen)
        assert [line.rstrip() for line in driver.screen.splitlines() if "own words" in line] == [
            " ▸ 3 in your own words",
            " Enter: answer in your own words · Esc: back to the options",
        ]
        assert "❯ You are writing in the line above." in driver.screen
        await driver.pilot.press("escape")
        await driver.until(lambda: "▸ 3 in your own words: my own" in driver.screen)
        assert "❯ A question is open above; text you type goes here." in driver.screen
        await driver.pilot.press("1", "enter")
        assert await form == [chosen("SQLite")]


async def test_question_without_options_is_answered_with_text(project: ScriptedProject):
    async with running_app(project) as driver:
        form = pose(driver, OPEN)
        await driver.until(lambda: driver.panel and driver.panel.is_writing)
        await driver.pilot.press("enter", *"no1", "enter")
        assert await form == [chosen(text="no1")]


async def test_left_at_start_of_text_returns_to_previous_question(project: ScriptedProject):
    async with running_app(project) as driver:
        form = pose(driver, CLOSED, OPEN)
        await posed(driver)
        await driver.pilot.press("1", "enter")
        await driver.until(lambda: driver.panel and driver.panel.is_writing)
        await driver.pilot.press("n", "o", "left", "left")
        assert "2 of 2" in driver.screen
        await driver.pilot.press("left")
        await driver.until(lambda: "1 of 2" in driver.screen)
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.panel and driver.panel.is_writing)
        await driver.pilot.press("enter")
        assert await form == [chosen("Yes"), chosen(text="no")]


async def test_esc_cancels_form_without_answer(project: ScriptedProject):
    async with running_app(project) as driver:
        for question in (BASE, SEVERAL, OPEN):
            form = pose(driver, CLOSED, question)
            await posed(driver)
            await driver.pilot.press("1", "enter")
            await driver.until(lambda: "2 of 2" in driver.screen)
            if question is OPEN:
                await driver.until(lambda: driver.panel and driver.panel.is_writing)
            await driver.pilot.press("escape")
            assert await form is None
            await driver.until(lambda: driver.panel is None)


async def test_keys_typed_before_form_opened_do_not_answer(project: ScriptedProject):
    async with running_app(project, guard_s=3600.0) as driver:
        form = pose(driver, BASE)
        await driver.until(lambda: driver.panel and driver.panel.has_focus)
        await driver.pilot.press("enter", "escape", "1")
        assert not form.done()
        assert driver.app.composer.text == "1"


async def test_keys_typed_for_previous_question_do_not_answer_next(project: ScriptedProject):
    async with running_app(project, guard_s=3600.0) as driver:
        form = pose(driver, BASE, OPEN)
        await driver.until(lambda: driver.panel and driver.panel.has_focus)
        assert driver.panel is not None
        driver.panel.act("next")
        driver.panel.confirm()
        await driver.until(lambda: "2 of 2" in driver.screen)
        await driver.pilot.press("enter", "escape", "1")
        assert not form.done()
        assert not driver.panel.is_writing
        assert driver.app.composer.text == "1"


async def test_cancelled_form_is_removed(project: ScriptedProject):
    async with running_app(project) as driver:
        form = pose(driver, BASE)
        await posed(driver)
        await driver.pilot.press("3", "enter")
        form.cancel()
        await driver.until(lambda: driver.panel is None)
        assert driver.app.composer.has_focus


async def test_form_waits_for_earlier_permission_question(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(request())
        form = pose(driver, BASE)
        await driver.asked()
        await driver.pilot.press("y", "enter")
        await question
        await driver.until(lambda: "Which database?" in driver.screen)
        await posed(driver)
        await driver.pilot.press("1", "enter")
        assert await form == [chosen("SQLite")]


@pytest.mark.parametrize("size", [(40, 12), (20, 5)])
async def test_form_is_usable_on_small_screens(project: ScriptedProject, size: tuple[int, int]):
    many = Question(
        question="Which of all these many things shall be done first?",
        options=tuple(
            QuestionOption(label=f"thing {n}", description="with a few words on it")
            for n in range(9)
        ),
    )
    async with running_app(project, size=size) as driver:
        form = pose(driver, many)
        await posed(driver)
        await driver.pilot.press(*["down"] * 9)
        await driver.until(lambda: "▸ 9 thing 8" in driver.screen)
        await driver.pilot.press("down", "enter")
        await driver.until(lambda: driver.panel and driver.panel.is_writing)
        await driver.pilot.press("o", "w", "n")
        await driver.until(lambda: "own" in driver.screen.replace("in your own words", ""))
        await driver.pilot.press("enter")
        assert await form == [chosen(text="own")]


# -- with the engine


ASKS = [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]


@pytest.mark.parametrize("mode", ["standard", "plan", "yolo"])
async def test_model_gets_answer_of_form(project: ScriptedProject, mode: Mode):
    project.model.will_call("question", questions=ASKS)
    async with running_app(project, mode=mode) as driver:
        await driver.send("go")
        await posed(driver)
        await driver.pilot.press("2", "enter")
        await driver.idle()
        assert driver.results[0].endswith("B")


async def test_aborted_run_removes_its_form(project: ScriptedProject):
    project.model.will_call("question", questions=ASKS)
    async with running_app(project) as driver:
        await driver.send("go")
        await posed(driver)
        driver.conversation.abort()
        await driver.idle()
        assert driver.panel is None
        assert driver.app.composer.has_focus


async def test_ctrl_c_cancels_form_and_interrupts_run(project: ScriptedProject):
    project.model.will_call("question", questions=ASKS)
    async with running_app(project) as driver:
        await driver.send("go")
        await posed(driver)
        await driver.pilot.press("ctrl+c")
        await driver.idle()
        assert "Interrupted." in driver.text
