"""Questions of the model: options, several of them, words of one's own."""

import asyncio
from collections.abc import Sequence

import pytest

from dirge_py.permission.rules import Mode
from dirge_py.types.questions import Question, QuestionAnswer, QuestionOption, SupportsForms
from tests.conversation.room import Room
from tests.ui.running_app import RunningApp, running_app
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


def pose(d: RunningApp, *questions: Question) -> "asyncio.Task[Sequence[QuestionAnswer] | None]":
    assert isinstance(d.asker, SupportsForms)
    return asyncio.ensure_future(d.asker.question(questions))


async def posed(d: RunningApp) -> None:
    await d.until(lambda: d.panel and d.panel.has_focus and d.panel.is_open)


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


async def test_each_key_gives_its_answer(room: Room):
    async with running_app(room) as d:
        for question, keys, answer in KEYS:
            form = pose(d, question)
            await posed(d)
            await d.pilot.press(*keys)
            assert (keys, await form) == (keys, [answer])
            await d.until(lambda: d.panel is None and d.app.composer.has_focus)


async def test_the_form_shows_question_options_and_keys(room: Room):
    async with running_app(room) as d:
        pose(d, BASE, SEVERAL)
        await posed(d)
        await d.pilot.press("down")
        await d.until(lambda: "▸ 1 SQLite" in d.screen)
        lines = [line.rstrip() for line in d.screen.splitlines()]
        at = lines.index(" Storage  1 of 2")
        assert lines[at + 1 : at + 7] == [
            " Which database?",
            " ▸ 1 SQLite",
            "     one file, no server",
            "   2 Postgres",
            "   3 in your own words",
            " Enter: answer · Esc: cancel · type: answer in your own words",
        ]


async def test_questions_come_one_after_the_other_and_can_be_gone_back_to(room: Room):
    async with running_app(room) as d:
        form = pose(d, BASE, SEVERAL)
        await posed(d)
        await d.pilot.press("1", "enter")
        await d.until(lambda: "2 of 2" in d.screen)
        await d.pilot.press("down", "space", "left")
        await d.until(lambda: "1 of 2" in d.screen)
        await d.pilot.press("right")
        await d.until(lambda: "[✓] Linux" in d.screen)
        await d.pilot.press("left", "2", "enter", "enter")
        assert await form == [chosen("Postgres"), chosen("Linux")]


async def test_a_question_without_options_is_answered_in_words(room: Room):
    async with running_app(room) as d:
        form = pose(d, OPEN)
        await d.until(lambda: d.panel and d.panel.is_writing)
        await d.pilot.press("enter", *"no1", "enter")
        assert await form == [chosen(text="no1")]


async def test_left_in_front_of_the_words_leads_to_the_question_before(room: Room):
    async with running_app(room) as d:
        form = pose(d, CLOSED, OPEN)
        await posed(d)
        await d.pilot.press("1", "enter")
        await d.until(lambda: d.panel and d.panel.is_writing)
        await d.pilot.press("n", "o", "left", "left")
        assert "2 of 2" in d.screen
        await d.pilot.press("left")
        await d.until(lambda: "1 of 2" in d.screen)
        await d.pilot.press("enter")
        await d.until(lambda: d.panel and d.panel.is_writing)
        await d.pilot.press("enter")
        assert await form == [chosen("Yes"), chosen(text="no")]


async def test_esc_says_nothing_at_all(room: Room):
    async with running_app(room) as d:
        for question in (BASE, SEVERAL, OPEN):
            form = pose(d, CLOSED, question)
            await posed(d)
            await d.pilot.press("1", "enter")
            await d.until(lambda: "2 of 2" in d.screen)
            if question is OPEN:
                await d.until(lambda: d.panel and d.panel.is_writing)
            await d.pilot.press("escape")
            assert await form is None
            await d.until(lambda: d.panel is None)


async def test_keys_typed_a_moment_before_do_not_answer(room: Room):
    async with running_app(room, guard_s=3600.0) as d:
        form = pose(d, BASE)
        await d.until(lambda: d.panel and d.panel.has_focus)
        await d.pilot.press("enter", "escape", "1")
        assert not form.done()
        assert d.app.composer.text == "1"


async def test_nor_do_keys_meant_for_the_question_before(room: Room):
    async with running_app(room, guard_s=3600.0) as d:
        form = pose(d, BASE, OPEN)
        await d.until(lambda: d.panel and d.panel.has_focus)
        assert d.panel is not None
        d.panel.act("next")
        d.panel.confirm()
        await d.until(lambda: "2 of 2" in d.screen)
        await d.pilot.press("enter", "escape", "1")
        assert not form.done()
        assert not d.panel.is_writing
        assert d.app.composer.text == "1"


async def test_a_pending_form_goes_when_nobody_waits_for_it(room: Room):
    async with running_app(room) as d:
        form = pose(d, BASE)
        await posed(d)
        await d.pilot.press("3", "enter")
        form.cancel()
        await d.until(lambda: d.panel is None)
        assert d.app.composer.has_focus


async def test_a_form_waits_for_the_permission_question_before_it(room: Room):
    async with running_app(room) as d:
        question = d.ask(request())
        form = pose(d, BASE)
        await d.asked()
        await d.pilot.press("y", "enter")
        await question
        await d.until(lambda: "Which database?" in d.screen)
        await posed(d)
        await d.pilot.press("1", "enter")
        assert await form == [chosen("SQLite")]


@pytest.mark.parametrize("size", [(40, 12), (20, 5)])
async def test_a_form_is_usable_on_small_screens(room: Room, size: tuple[int, int]):
    many = Question(
        question="Which of all these many things shall be done first?",
        options=tuple(
            QuestionOption(label=f"thing {n}", description="with a few words on it")
            for n in range(9)
        ),
    )
    async with running_app(room, size=size) as d:
        form = pose(d, many)
        await posed(d)
        await d.pilot.press(*["down"] * 9)
        await d.until(lambda: "▸ 9 thing 8" in d.screen)
        await d.pilot.press("down", "enter")
        await d.until(lambda: d.panel and d.panel.is_writing)
        await d.pilot.press("o", "w", "n")
        await d.until(lambda: "own" in d.screen.replace("in your own words", ""))
        await d.pilot.press("enter")
        assert await form == [chosen(text="own")]


# -- with the engine


ASKS = [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]


@pytest.mark.parametrize("mode", ["standard", "plan", "yolo"])
async def test_the_model_gets_the_answer(room: Room, mode: Mode):
    room.model.will_call("question", questions=ASKS)
    async with running_app(room, mode=mode) as d:
        await d.send("go")
        await posed(d)
        await d.pilot.press("2", "enter")
        await d.idle()
        assert d.results[0].endswith("B")


async def test_an_aborted_run_takes_its_form_down(room: Room):
    room.model.will_call("question", questions=ASKS)
    async with running_app(room) as d:
        await d.send("go")
        await posed(d)
        d.conversation.abort()
        await d.idle()
        assert d.panel is None
        assert d.app.composer.has_focus


async def test_ctrl_c_says_nothing_and_interrupts(room: Room):
    room.model.will_call("question", questions=ASKS)
    async with running_app(room) as d:
        await d.send("go")
        await posed(d)
        await d.pilot.press("ctrl+c")
        await d.idle()
        assert "Interrupted." in d.text
