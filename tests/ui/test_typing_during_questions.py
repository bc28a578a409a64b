"""Typing while a question is open: no text answers it, none is lost."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from textual import events

from dirge_py.types.questions import (
    PermissionAnswer,
    PermissionRequest,
    Question,
    QuestionAnswer,
    QuestionOption,
    RuleOffer,
    SupportsForms,
    SupportsTrust,
)
from dirge_py.ui.panels.dialog import FASTEST, PAUSE_S
from dirge_py.ui.panels.form import QuestionForm
from tests.security.sizes import count, size
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.ui.test_answer_guard import HAND, LETTERS, SLOW, no_answers_in
from tests.ui.test_hunk_view import X
from tests.ui.test_hunk_view import request as change
from tests.ui.test_permission import MAKE, request
from tests.ui.test_plan_in_tui import plans
from tests.ui.test_question_form import BASE, SEVERAL, chosen, pose
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


class TypingUser:
    """A user at the keyboard, with a scripted clock."""

    def __init__(self, driver: AppDriver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock

    async def pause(self, seconds: float = 2.0) -> None:
        self._clock.now += seconds
        if seconds >= PAUSE_S:
            self._driver.app.dialogs.return_keyboard()
        await self._driver.pilot.pause()

    async def type(self, text: str, after_s: float = HAND) -> None:
        for char in text:
            await self.pause(after_s)
            await self._driver.pilot.press({" ": "space", "\n": "enter"}.get(char, char))


async def put(driver: AppDriver) -> None:
    """Wait until the question is shown."""
    await driver.until(lambda: driver.panel and driver.panel.is_mounted)


async def test_text_typed_at_permission_question_grants_nothing_and_steers(
    project: ScriptedProject,
):
    project.model.will_call("bash", command=MAKE).will_say("Then not.")
    clock = Clock()
    async with running_app(project, guard_s=PAUSE_S, clock=clock) as driver:
        user = TypingUser(driver, clock)
        await driver.send("make it")
        await driver.asked()
        await user.pause()
        await user.type("please stop")
        assert driver.app.composer.text == "please stop"
        await user.type("\n")
        await driver.until(
            lambda: [one.text for one in driver.app.controller.waiting] == ["please stop"]
        )
        assert driver.dialog is not None
        assert (list(driver.conversation.settings.grants), driver.results) == ([], [])
        assert not (project.folder / "made").exists()
        await user.pause()
        await user.pause()
        await driver.pilot.press("escape")
        await driver.idle()
        assert driver.sent == ["make it", "please stop"]
    assert not (project.folder / "made").exists()


async def test_user_typing_when_question_opens_keeps_typing(project: ScriptedProject):
    clock = Clock()
    async with running_app(project, guard_s=PAUSE_S, clock=clock) as driver:
        user = TypingUser(driver, clock)
        await user.type("wait, we should")
        question = driver.ask(request())
        await put(driver)
        for word in (" look", " a", "t", " the", " other", " p", "ush"):
            await user.pause()
            await user.type(word)
        assert driver.app.composer.text == "wait, we should look at the other push"
        assert not question.done()
        assert "Esc: answer here" in driver.screen
        await driver.pilot.press("escape")
        await user.pause()
        await user.type("y\n")
        assert (await question)[0].effect == "allow"
        assert driver.app.composer.text == "wait, we should look at the other push"


async def test_sentence_typed_at_open_question_is_free_text_answer(
    project: ScriptedProject,
):
    clock = Clock()
    async with running_app(project, guard_s=PAUSE_S, clock=clock) as driver:
        form = pose(driver, BASE)
        await put(driver)
        await TypingUser(driver, clock).pause()
        await TypingUser(driver, clock).type("I prefer MySQL\n")
        assert await form == [chosen(text="I prefer MySQL")]


async def test_sentence_typed_at_plan_question_does_not_accept_plan(project: ScriptedProject):
    plans(project)
    clock = Clock()
    async with running_app(project, mode="accept", guard_s=PAUSE_S, clock=clock) as driver:
        user = TypingUser(driver, clock)
        await driver.send("/plan Count the items.")
        await driver.until(lambda: driver.panel and driver.panel.has_focus)
        await user.pause()
        await user.type("no, do not do it")
        assert driver.panel is not None
        assert driver.panel.is_writing
        assert "no, do not do it" in driver.screen
        await driver.pilot.press("escape")
        await user.pause()
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.panel is None)
        await driver.idle()
    assert not (project.folder / "count.py").exists()
    assert list(driver.conversation.settings.grants) == []


async def test_sentence_typed_at_delete_question_deletes_no_session(project: ScriptedProject):
    clock = Clock()
    async with running_app(project, guard_s=PAUSE_S, clock=clock) as driver:
        user = TypingUser(driver, clock)
        await driver.send("hello")
        await driver.idle()
        first = driver.conversation.session_id
        await driver.send(f"/sessions delete {first}")
        await put(driver)
        await user.pause()
        await user.type("keep it please\n")
        await driver.until(lambda: driver.app.composer.text == "keep it please")
        assert driver.panel is not None
        await driver.pilot.press("escape")
        await user.pause()
        await driver.pilot.press("escape")
        await driver.until(lambda: "Nothing was deleted." in driver.text)
        assert driver.conversation.session_id == first
        assert driver.app.composer.text == "keep it please"


async def test_stored_rule_is_reported_with_its_file(project: ScriptedProject):
    project.model.will_call("bash", command=MAKE).will_say("Done.")
    async with running_app(project, size=(160, 30)) as driver:
        await driver.send("make it")
        await driver.asked()
        await driver.pilot.press("p", "enter")
        await driver.idle()
        assert f"Stored: allow `execute:{MAKE}` in " in driver.text
        assert "config.toml" in driver.text


async def test_focus_returns_to_question_once_input_is_empty(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        question = driver.ask(request())
        await driver.asked()
        await driver.pilot.press("a", "t")
        assert driver.app.composer.has_focus
        assert "▸" not in driver.screen.split("Allow bash?")[1]
        await driver.pilot.press("backspace", "backspace")
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        await driver.pilot.press("a", "enter")
        assert (await question)[0].remember == "session"


async def test_enter_in_input_during_question_without_run_keeps_text(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(request())
        await driver.asked()
        await driver.pilot.press("o", "k", "enter")
        await driver.until(lambda: driver.app.composer.text == "ok")
        assert "you are writing in the input; Esc: answer here" in driver.screen
        assert (driver.sent, question.done()) == ([], False)


async def test_choice_key_with_immediate_enter_is_treated_as_paste(project: ScriptedProject):
    clock = Clock()
    async with running_app(project, guard_s=PAUSE_S, clock=clock) as driver:
        question = driver.ask(request())
        await put(driver)
        await TypingUser(driver, clock).pause()
        await driver.pilot.press("a", "enter")
        assert (question.done(), driver.app.composer.text) == (False, "a")


def posed(driver: AppDriver, kind: str) -> "asyncio.Future[object]":
    assert isinstance(driver.asker, SupportsForms)
    assert isinstance(driver.asker, SupportsTrust)
    asked = {
        "permission": lambda: driver.asker.permission([request(), request("make", grant=())]),
        "commands": lambda: driver.asker.permission(
            [command_request("git push"), command_request("git pull")]
        ),
        "long": lambda: driver.asker.permission([request("\n".join(map(str, range(60))))]),
        "change": lambda: driver.asker.permission([change(X)]),
        "closed": lambda: driver.asker.question([CLOSED]),
        "open": lambda: driver.asker.question([BASE, SEVERAL]),
        "several": lambda: driver.asker.question([SEVERAL]),
        "trust": lambda: driver.asker.trust(offer()),
    }
    return asyncio.ensure_future(asked[kind]())  # type: ignore[no-any-return]


KINDS = ("permission", "commands", "long", "change", "closed", "open", "several", "trust")


def command_request(command: str) -> PermissionRequest:
    """A question with every key: two rules, one of them to edit, and a command to edit."""
    return replace(
        request(command, (f"execute:{command}",)),
        offers=(RuleOffer((f"execute:{command}",)), RuleOffer(("execute:git *",))),
        try_rules=lambda rules: RuleOffer(tuple(rules)),
        can_keep=True,
        command=command,
    )


@pytest.mark.security
async def test_text_typed_at_any_kind_of_question_answers_nothing(
    project: ScriptedProject,
):
    tries, answered, lost = size(32, 800), 0, 0
    dice = random.Random(11)
    clock = Clock()
    async with running_app(project, guard_s=PAUSE_S, clock=clock) as driver:
        user = TypingUser(driver, clock)
        for number in range(tries):
            kind = KINDS[number % len(KINDS)]
            signs = LETTERS + "  \nebdorstu"
            text = no_answers_in("".join(dice.choices(signs, k=dice.randint(1, 14))))
            question = posed(driver, kind)
            await driver.until(lambda: driver.panel and driver.panel.has_focus)
            if kind == "change":
                await user.pause()
                await driver.pilot.press("end", "h")
                await user.pause(HAND)
                await driver.pilot.press("enter")
            for char in text:
                await user.type(char, dice.choice([0.0, HAND, HAND, SLOW, 3.0]))
                await driver.pilot.pause()
            own = allowed_words(question)
            answered += question.done() and own is None
            written = driver.app.composer.text + held(driver) + (own or "")
            lost += letters(written) != letters(text)
            question.cancel()
            await driver.until(lambda: driver.panel is None)
            driver.app.composer.put("")
            await driver.pilot.pause()
        assert (list(driver.conversation.settings.grants), driver.sent) == ([], [])
    count("typing into the screen", tries, answered, "answers")
    assert (answered, lost) == (0, 0)


MASHED = (
    *"yapncherAhw 12349 .x", "enter", "enter", "enter", "tab", "up", "down", "left", "right",
    "backspace", "pageup", "pagedown", "end", "PASTE",
)  # fmt: skip
ARROWS = ("up", "down", "tab", "left", "right")
SELECTING = frozenset((*"yaperAh12345", *ARROWS, "space"))


def is_approval(result: object) -> bool:
    """Whether this answer allows, chooses or trusts something."""
    if isinstance(result, Sequence):
        return any(
            one.effect == "allow" if isinstance(one, PermissionAnswer) else bool(one.chosen)
            for one in result
        )
    return result is True


@pytest.mark.security
async def test_mashed_keys_approve_only_with_a_chosen_key_and_enter(project: ScriptedProject):
    tries, approved, wrong = size(40, 2_000), 0, []
    dice = random.Random(12)
    clock = Clock()
    async with running_app(project, guard_s=PAUSE_S, clock=clock) as driver:
        user = TypingUser(driver, clock)
        for number in range(tries):
            question = posed(driver, KINDS[number % len(KINDS)])
            await driver.until(lambda: driver.panel and driver.panel.has_focus)
            log: list[tuple[str, float]] = []
            signs = dice.choice([MASHED, MASHED + ("enter",) * 20, (*ARROWS, "enter", "enter")])
            signs += (dice.choice("yapreA1"),) if signs is not MASHED else ()
            for _ in range(dice.randint(3, 30)):
                key = dice.choice(signs)
                after_s = dice.choice([0.0, 0.001, 0.04, HAND, SLOW, SLOW, 3.0])
                await user.pause(after_s)
                log.append((key, after_s))
                if key == "PASTE" and driver.app.focused is not None:
                    driver.app.focused.post_message(events.Paste("y\na\n1\n"))
                elif key != "PASTE":
                    await driver.pilot.press({" ": "space"}.get(key, key))
                await driver.pilot.pause()
                if question.done():
                    break
            if question.done() and is_approval(question.result()):
                approved += 1
                if not was_deliberate(log):
                    wrong.append(log)
            question.cancel()
            await driver.until(lambda: driver.panel is None)
            driver.app.composer.put("")
            await driver.pilot.pause()
        assert (list(driver.conversation.settings.grants), driver.sent) == ([], [])
    count("mashed keys", tries, len(wrong), "approvals by accident")
    assert wrong == []
    assert approved > 0


def was_deliberate(log: Sequence[tuple[str, float]]) -> bool:
    """Whether the last key is Enter, and one that selects came before, after a pause; no paste."""
    keys = [{" ": "space"}.get(key, key) for key, _ in log]
    start = len(keys) - keys[::-1].index("PASTE") if "PASTE" in keys else 0
    pauses = (at for at in range(start, len(log) - 1) if log[at][1] >= PAUSE_S)
    first = next(pauses, len(log))
    is_chosen = not SELECTING.isdisjoint(keys[first:-1])
    return keys[-1] == "enter" and log[-1][1] >= PAUSE_S * FASTEST and is_chosen


def allowed_words(question: "asyncio.Future[object]") -> str | None:
    """The free text of an answer that is nothing but free text."""
    if not question.done():
        return None
    answers = question.result()
    if not isinstance(answers, Sequence):
        return None
    given = [one for one in answers if isinstance(one, QuestionAnswer) and not one.chosen]
    return "".join(one.text for one in given) if len(given) == len(answers) else None


def held(driver: AppDriver) -> str:
    """The content of the panel: a selected letter, or free text."""
    panel = driver.panel
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


async def test_double_enter_does_not_select_row_of_picker_just_opened(
    project: ScriptedProject,
):
    clock = Clock()
    async with running_app(project, guard_s=PAUSE_S, clock=clock) as driver:
        user = TypingUser(driver, clock)
        before = driver.conversation.settings.model
        await driver.send("/model")
        await driver.until(lambda: driver.app.picker.has_focus)
        await user.type("\n")
        assert driver.app.picker.is_open
        assert driver.conversation.settings.model == before

        await user.pause()
        await driver.pilot.press("escape")
        await driver.until(lambda: not driver.app.picker.is_open)


async def test_enter_selects_row_of_picker_after_pause(project: ScriptedProject):
    clock = Clock()
    async with running_app(project, guard_s=PAUSE_S, clock=clock) as driver:
        user = TypingUser(driver, clock)
        await driver.send("/model")
        await driver.until(lambda: driver.app.picker.has_focus)
        await user.pause()
        await user.type("\n")
        await driver.until(lambda: not driver.app.picker.is_open)
