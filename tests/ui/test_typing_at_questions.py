"""Sentences typed while a question is open: none of them answers it, and none of them is lost."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from dirge_py.types.questions import (
    Question,
    QuestionAnswer,
    QuestionOption,
    SupportsForms,
    SupportsTrust,
)
from dirge_py.ui.panels.dialog import PAUSE_S
from dirge_py.ui.panels.form import QuestionForm
from tests.conversation.room import Room
from tests.security.sizes import count, size
from tests.ui.running_app import RunningApp, running_app
from tests.ui.test_answer_guard import HAND, LETTERS, SLOW, no_answers_in
from tests.ui.test_form import BASE, SEVERAL, chosen, pose
from tests.ui.test_hunk_view import X
from tests.ui.test_hunk_view import request as change
from tests.ui.test_permission import MAKE, request
from tests.ui.test_plan_on_screen import plans
from tests.ui.test_trust_dialog import offer

CLOSED = Question(
    question="Delete it?",
    options=(QuestionOption(label="delete it"), QuestionOption(label="keep it")),
    is_open=False,
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Person:
    """Somebody at the keyboard, as fast or slow as the clock says."""

    def __init__(self, d: RunningApp, clock: Clock) -> None:
        self._desk = d
        self._clock = clock

    async def pause(self, seconds: float = 2.0) -> None:
        self._clock.now += seconds
        if seconds >= PAUSE_S:
            self._desk.app.dialogs.return_keyboard()
        await self._desk.pilot.pause()

    async def type(self, text: str, after_s: float = HAND) -> None:
        for char in text:
            await self.pause(after_s)
            await self._desk.pilot.press({" ": "space", "\n": "enter"}.get(char, char))


async def put(d: RunningApp) -> None:
    """Until the question is there."""
    await d.until(lambda: d.panel and d.panel.is_mounted)


async def test_please_stop_allows_nothing_stores_nothing_and_steers(room: Room):
    room.model.will_call("bash", command=MAKE).will_say("Then not.")
    clock = Clock()
    async with running_app(room, guard_s=PAUSE_S, clock=clock) as d:
        person = Person(d, clock)
        await d.send("make it")
        await d.asked()
        await person.pause()
        await person.type("please stop")
        assert d.app.composer.text == "please stop"
        await person.type("\n")
        await d.until(lambda: [one.text for one in d.app.controller.waiting] == ["please stop"])
        assert d.dialog is not None
        assert (list(d.conversation.settings.grants), d.results) == ([], [])
        assert not (room.project / "made").exists()
        await person.pause()
        await person.pause()
        await d.pilot.press("escape")
        await d.idle()
        assert d.sent == ["make it", "please stop"]
    assert not (room.project / "made").exists()


async def test_somebody_who_was_typing_when_the_question_came_types_on(room: Room):
    clock = Clock()
    async with running_app(room, guard_s=PAUSE_S, clock=clock) as d:
        person = Person(d, clock)
        await person.type("wait, we should")
        question = d.ask(request())
        await put(d)
        for word in (" look", " a", "t", " the", " other", " p", "ush"):
            await person.pause()
            await person.type(word)
        assert d.app.composer.text == "wait, we should look at the other push"
        assert not question.done()
        assert "Esc: answer here" in d.screen
        await d.pilot.press("escape")
        await person.pause()
        await person.type("y\n")
        assert (await question)[0].effect == "allow"
        assert d.app.composer.text == "wait, we should look at the other push"


async def test_a_sentence_is_the_answer_in_own_words_where_there_may_be_one(room: Room):
    clock = Clock()
    async with running_app(room, guard_s=PAUSE_S, clock=clock) as d:
        form = pose(d, BASE)
        await put(d)
        await Person(d, clock).pause()
        await Person(d, clock).type("I prefer MySQL\n")
        assert await form == [chosen(text="I prefer MySQL")]


async def test_a_sentence_does_not_accept_a_plan(room: Room):
    plans(room)
    clock = Clock()
    async with running_app(room, mode="accept", guard_s=PAUSE_S, clock=clock) as d:
        person = Person(d, clock)
        await d.send("/plan Count the items.")
        await d.until(lambda: d.panel and d.panel.has_focus)
        await person.pause()
        await person.type("no, do not do it")
        assert d.panel is not None
        assert d.panel.is_writing
        assert "no, do not do it" in d.screen
        await d.pilot.press("escape")
        await person.pause()
        await d.pilot.press("escape")
        await d.until(lambda: d.panel is None)
        await d.idle()
    assert not (room.project / "count.py").exists()
    assert list(d.conversation.settings.grants) == []


async def test_a_sentence_deletes_no_session(room: Room):
    clock = Clock()
    async with running_app(room, guard_s=PAUSE_S, clock=clock) as d:
        person = Person(d, clock)
        await d.send("hello")
        await d.idle()
        first = d.conversation.session_id
        await d.send(f"/sessions delete {first}")
        await put(d)
        await person.pause()
        await person.type("keep it please\n")
        await d.until(lambda: d.app.composer.text == "keep it please")
        assert d.panel is not None
        await d.pilot.press("escape")
        await person.pause()
        await d.pilot.press("escape")
        await d.until(lambda: "Nothing was deleted." in d.text)
        assert d.conversation.session_id == first
        assert d.app.composer.text == "keep it please"


async def test_what_is_kept_is_told_with_its_file(room: Room):
    room.model.will_call("bash", command=MAKE).will_say("Done.")
    async with running_app(room, size=(160, 30)) as d:
        await d.send("make it")
        await d.asked()
        await d.pilot.press("p", "enter")
        await d.idle()
        assert f"Stored: allow `execute:{MAKE}` in " in d.text
        assert "config.toml" in d.text


async def test_the_keyboard_is_back_at_the_question_once_the_input_is_empty_for_a_pause(room: Room):
    async with running_app(room) as d:
        question = d.ask(request())
        await d.asked()
        await d.pilot.press("a", "t")
        assert d.app.composer.has_focus
        assert "▸" not in d.screen.split("Allow bash?")[1]
        await d.pilot.press("backspace", "backspace")
        await d.until(lambda: d.dialog and d.dialog.has_focus)
        await d.pilot.press("a", "enter")
        assert (await question)[0].remember == "session"


async def test_enter_at_a_question_without_a_run_keeps_the_text(room: Room):
    async with running_app(room) as d:
        question = d.ask(request())
        await d.asked()
        await d.pilot.press("o", "k", "enter")
        await d.until(lambda: d.app.composer.text == "ok")
        assert "you are writing in the input; Esc: answer here" in d.screen
        assert (d.sent, question.done()) == ([], False)


async def test_a_key_with_enter_right_behind_it_comes_from_a_paste(room: Room):
    clock = Clock()
    async with running_app(room, guard_s=PAUSE_S, clock=clock) as d:
        question = d.ask(request())
        await put(d)
        await Person(d, clock).pause()
        await d.pilot.press("a", "enter")
        assert (question.done(), d.app.composer.text) == (False, "a")


def posed(d: RunningApp, kind: str) -> "asyncio.Future[object]":
    assert isinstance(d.asker, SupportsForms)
    assert isinstance(d.asker, SupportsTrust)
    asked = {
        "permission": lambda: d.asker.permission([request(), request("make", grant=())]),
        "long": lambda: d.asker.permission([request("\n".join(map(str, range(60))))]),
        "change": lambda: d.asker.permission([change(X)]),
        "closed": lambda: d.asker.question([CLOSED]),
        "open": lambda: d.asker.question([BASE, SEVERAL]),
        "several": lambda: d.asker.question([SEVERAL]),
        "trust": lambda: d.asker.trust(offer()),
    }
    return asyncio.ensure_future(asked[kind]())  # type: ignore[no-any-return]


KINDS = ("permission", "long", "change", "closed", "open", "several", "trust")


@pytest.mark.security
async def test_text_typed_into_every_kind_of_question_answers_none_of_them(room: Room):
    tries, answered, lost = size(28, 700), 0, 0
    dice = random.Random(11)
    clock = Clock()
    async with running_app(room, guard_s=PAUSE_S, clock=clock) as d:
        person = Person(d, clock)
        for number in range(tries):
            kind = KINDS[number % len(KINDS)]
            signs = LETTERS + "  \nebdorstu"
            text = no_answers_in("".join(dice.choices(signs, k=dice.randint(1, 14))))
            question = posed(d, kind)
            await d.until(lambda: d.panel and d.panel.has_focus)
            if kind == "change":
                await person.pause()
                await d.pilot.press("end", "h")
                await person.pause(HAND)
                await d.pilot.press("enter")
            for char in text:
                await person.type(char, dice.choice([0.0, HAND, HAND, SLOW, 3.0]))
                await d.pilot.pause()
            own = allowed_words(question)
            answered += question.done() and own is None
            written = d.app.composer.text + held(d) + (own or "")
            lost += letters(written) != letters(text)
            question.cancel()
            await d.until(lambda: d.panel is None)
            d.app.composer.put("")
            await d.pilot.pause()
        assert (list(d.conversation.settings.grants), d.sent) == ([], [])
    count("typing into the screen", tries, answered, "answers")
    assert (answered, lost) == (0, 0)


def allowed_words(question: "asyncio.Future[object]") -> str | None:
    """What was answered in own words, where that was all that was answered."""
    if not question.done():
        return None
    answers = question.result()
    if not isinstance(answers, Sequence):
        return None
    given = [one for one in answers if isinstance(one, QuestionAnswer) and not one.chosen]
    return "".join(one.text for one in given) if len(given) == len(answers) else None


def held(d: RunningApp) -> str:
    """What stands in the panel: a letter that selects something, or words of one's own."""
    panel = d.panel
    if panel is None:
        return ""
    own = ""
    if isinstance(panel, QuestionForm):
        is_written = [panel.is_writing and one is panel._now for one in panel._all]
        own = "".join(
            panel._input.value if is_now else one.text
            for one, is_now in zip(panel._all, is_written, strict=True)
        )
    return own + panel._guard.held


def letters(text: str) -> list[str]:
    return sorted(char for char in text if not char.isspace())


async def test_an_enter_pressed_twice_takes_no_row_of_a_list_that_opened_between(room: Room):
    clock = Clock()
    async with running_app(room, guard_s=PAUSE_S, clock=clock) as d:
        person = Person(d, clock)
        before = d.conversation.settings.model
        await d.send("/model")
        await d.until(lambda: d.app.picker.has_focus)
        await person.type("\n")
        assert d.app.picker.is_open
        assert d.conversation.settings.model == before

        await person.pause()
        await d.pilot.press("escape")
        await d.until(lambda: not d.app.picker.is_open)


async def test_after_a_moment_enter_takes_the_row(room: Room):
    clock = Clock()
    async with running_app(room, guard_s=PAUSE_S, clock=clock) as d:
        person = Person(d, clock)
        await d.send("/model")
        await d.until(lambda: d.app.picker.has_focus)
        await person.pause()
        await person.type("\n")
        await d.until(lambda: not d.app.picker.is_open)
