"""Several questions in one dialog, and the rules that answers store."""

from dataclasses import replace

import pytest
from rich.cells import cell_len

from dirge_py.providers.scripted import Reply
from dirge_py.types.questions import PermissionAnswer, Reach, RuleOffer
from dirge_py.types.tools import Preview
from dirge_py.ui.panels.dialog import fit_hints, paint_key_hints
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.ui.test_permission import STYLES, request

ALLOWED = PermissionAnswer(effect="allow")
DENIED = PermissionAnswer(effect="deny")


def question_text(driver: AppDriver) -> str:
    """The question on the screen, with its choices."""
    return driver.screen[driver.screen.rindex("Allow bash?") :]


# -- several questions in one dialog


async def test_first_question_is_shown_and_others_are_listed(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.ask(request("make"), request("make install\nmore"), request("ls"))
        await driver.asked()
        assert "1 of 3" in question_text(driver)
        assert "│ make\n" in question_text(driver)
        assert "? 2 bash make install…\n" in question_text(driver)
        assert "? 3 bash ls\n" in question_text(driver)


async def test_each_question_gets_its_own_answer(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(request("make"), request("make install"), request("ls"))
        await driver.asked()
        await driver.pilot.press("y", "enter")
        await driver.until(
            lambda: "2 of 3" in question_text(driver) and "✓ 1 bash make" in question_text(driver)
        )
        await driver.asked()
        await driver.pilot.press("c", "enter", "n", "o", "enter")
        await driver.until(
            lambda: (
                "3 of 3" in question_text(driver)
                and "⊘ 2 bash make install" in question_text(driver)
            )
        )
        await driver.asked()
        await driver.pilot.press("a", "enter")
        assert await question == [
            ALLOWED,
            PermissionAnswer(effect="deny", comment="no"),
            PermissionAnswer(effect="allow", remember="session"),
        ]


async def test_c29_denying_one_question_leaves_others_open(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(request("make"), request("make install"))
        await driver.asked()
        await driver.pilot.press("n", "enter")
        await driver.until(lambda: "2 of 2" in question_text(driver))
        assert not question.done()
        await driver.asked()
        await driver.pilot.press("y", "enter")
        assert await question == [DENIED, ALLOWED]


async def test_open_questions_can_be_answered_in_any_order(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        question = driver.ask(request("one"), request("two"), request("three"))
        await driver.asked()
        await driver.pilot.press("right", "right")
        await driver.until(lambda: "3 of 3" in question_text(driver))
        await driver.asked()
        await driver.pilot.press("y", "enter")
        await driver.until(lambda: "1 of 3" in question_text(driver))
        await driver.pilot.press("left")
        await driver.until(lambda: "2 of 3" in question_text(driver))
        await driver.pilot.press("n", "enter", "y", "enter")
        assert await question == [ALLOWED, DENIED, ALLOWED]


async def test_key_meant_for_one_question_does_not_answer_next(project: ScriptedProject):
    async with running_app(project, guard_s=3600.0) as driver:
        question = driver.ask(request("make"), request("make install"))
        await driver.asked()
        dialog = driver.dialog
        assert dialog is not None
        dialog.act("deny")
        await driver.until(lambda: "2 of 2" in question_text(driver))
        await driver.pilot.press("enter", "escape", "y")
        assert not question.done()
        assert driver.app.composer.text == "y"


async def test_question_cannot_be_approved_before_scrolling_to_end(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(request("make"), request("\n".join(f"echo {n}" for n in range(99))))
        await driver.asked()
        await driver.pilot.press("y", "enter")
        await driver.until(lambda: "2 of 2" in question_text(driver))
        await driver.pilot.press("down", "up", "enter")
        assert not question.done()
        await driver.pilot.press("end")
        await driver.asked()
        await driver.pilot.press("y", "enter")
        assert await question == [ALLOWED, ALLOWED]


async def test_ctrl_c_denies_all_open_questions(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(request("make"), request("make install"), request("ls"))
        await driver.asked()
        await driver.pilot.press("y", "enter")
        await driver.until(lambda: "2 of 3" in question_text(driver))
        await driver.pilot.press("ctrl+c")
        assert await question == [ALLOWED, DENIED, DENIED]


@pytest.mark.parametrize("size", [(40, 12), (20, 5)])
async def test_several_questions_can_be_answered_on_small_screens(
    project: ScriptedProject, size: tuple[int, int]
):
    async with running_app(project, size=size) as driver:
        question = driver.ask(request("make"), request("make install"))
        for key in ("y", "n"):
            await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
            while driver.dialog and not driver.dialog.may_approve:
                await driver.pilot.press("space")
            await driver.pilot.press(key, "enter")
        assert await question == [ALLOWED, DENIED]


async def test_tool_calls_of_one_message_are_asked_together(project: ScriptedProject):
    commands = ["touch one", "touch two"]
    project.model.will(Reply(calls=[("bash", {"command": command}) for command in commands]))
    async with running_app(project) as driver:
        await driver.send("go")
        await driver.asked()
        assert "1 of 2" in question_text(driver)
        await driver.pilot.press("n", "enter")
        await driver.until(lambda: "2 of 2" in question_text(driver))
        await driver.asked()
        await driver.pilot.press("y", "enter")
        await driver.idle()
        assert sorted(path.name for path in project.folder.iterdir()) == ["two"]


# -- stored rules


WIDER = ("execute:git push *",)


def offers(wider: tuple[str, ...]) -> tuple[RuleOffer, ...]:
    return RuleOffer(("execute:git push",)), RuleOffer(wider)


KEYS = [
    (["a", "enter"], PermissionAnswer(effect="allow", remember="session")),
    (["p", "enter"], PermissionAnswer(effect="allow", remember="always")),
    (["4", "enter"], PermissionAnswer(effect="allow", remember="always")),
    (["tab", "a", "enter"], PermissionAnswer(effect="allow", remember="session", rules=WIDER)),
    (["tab", "p", "enter"], PermissionAnswer(effect="allow", remember="always", rules=WIDER)),
    (["tab", "tab", "p", "enter"], PermissionAnswer(effect="allow", remember="always")),
    (["tab", "y", "enter"], ALLOWED),
    (["down", "down", "down", "enter"], PermissionAnswer(effect="allow", remember="always")),
    (["3", "enter"], DENIED),
]


async def test_each_key_sequence_stores_chosen_rule(project: ScriptedProject):
    keeping = replace(request(), offers=offers(WIDER), can_keep=True)
    async with running_app(project) as driver:
        for keys, answer in KEYS:
            question = driver.ask(keeping)
            await driver.asked()
            await driver.pilot.press(*keys)
            assert (keys, await question) == (keys, [answer])
            await driver.until(lambda: driver.dialog is None)


async def test_shown_rule_is_rule_that_would_be_stored(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.ask(replace(request(), offers=offers(("execute:git *",)), can_keep=True))
        await driver.asked()
        assert "a Allow for this session: execute:git push\n" in question_text(driver)
        assert "p Allow always, in your settings: execute:git push\n" in question_text(driver)
        await driver.pilot.press("tab")
        await driver.until(
            lambda: "a Allow for this session: execute:git *\n" in question_text(driver)
        )
        assert "p Allow always, in your settings: execute:git *\n" in question_text(driver)


async def test_reach_of_shown_rule_is_explained_below_choices(project: ScriptedProject):
    asked = replace(
        request(),
        offers=(
            RuleOffer(("execute:git push",), Reach(words="only exactly this")),
            RuleOffer(
                WIDER,
                Reach(words="any push", also=("git push a\x1b[2J", "x" * 99), still=("git pull",)),
            ),
        ),
        alike=3,
    )
    async with running_app(project) as driver:
        driver.ask(asked)
        await driver.asked()
        assert (
            "   This rule covers: only exactly this\n"
            "   you allowed 3 similar calls one by one; Tab: one rule for all\n"
            "   select, then Enter · c: deny with a comment"
        ) in question_text(driver)
        assert "  y Allow once" in question_text(driver)
        await driver.pilot.press("tab")
        await driver.until(lambda: "This rule covers: any push\n" in question_text(driver))
        assert "earlier calls it covers: git push a<U+001B>[2J · xxx" in question_text(driver)
        assert "xx…\n     earlier calls it doesn't cover: git pull\n   select, " in question_text(
            driver
        )


@pytest.mark.parametrize("width", range(4, 90))
def test_key_hints_are_never_cut_in_the_middle(width: int):
    hints = [("c: deny with a comment", "c: comment"), ("Tab: a wider rule", "Tab: wider")] * 2
    words = {word for hint in hints for word in hint}

    rows = [row.text for row in paint_key_hints(hints, width, STYLES, most=2, indent=" ")]

    assert len(rows) <= 2
    assert all(cell_len(row) <= width for row in rows)
    if width > len("c: comment"):
        assert {part for row in rows for part in row.strip().split(" · ")} <= words


def test_key_hint_line_is_cut_between_hints():
    text = "Esc interrupts · Enter steers · Tab queues"

    assert [fit_hints(text, width) for width in (42, 41, 20, 9)] == [
        text,
        "Esc interrupts · Enter steers",
        "Esc interrupts",
        "Esc inte…",
    ]


async def test_wider_rule_too_long_for_line_must_be_scrolled_before_approval(
    project: ScriptedProject,
):
    wide = "execute:" + " ".join(f"word{n}" for n in range(400)) + " END"
    async with running_app(project) as driver:
        question = driver.ask(replace(request(), offers=offers((wide,))))
        await driver.asked()
        await driver.pilot.press("tab")
        await driver.until(lambda: driver.dialog and not driver.dialog.may_approve)
        await driver.pilot.press("down", "down", "enter")
        assert not question.done()
        await driver.pilot.press("end")
        await driver.asked()
        assert "END" in driver.screen
        await driver.pilot.press("a", "enter")
        assert await question == [
            PermissionAnswer(effect="allow", remember="session", rules=(wide,))
        ]


async def test_wider_rule_key_is_not_offered_without_wider_rule(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(request())
        await driver.asked()
        assert "wider" not in question_text(driver)
        assert "always" not in question_text(driver)
        await driver.pilot.press("tab", "p", "4", "enter")
        assert not question.done()


async def test_warning_is_shown_above_call(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.ask(replace(request(), warning="sends\x1b[2J the keys away"))
        await driver.asked()
        lines = question_text(driver).splitlines()
        assert lines[1] == " ! sends<U+001B>[2J the keys away"
        assert lines[2] == " │ git push"


async def test_long_diff_line_is_shown_in_full(project: ScriptedProject):
    diff = "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+" + "x" * 9000 + "END\n"
    async with running_app(project) as driver:
        driver.ask(replace(request(), preview=Preview(kind="diff", path="x", text=diff)))
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        await driver.pilot.press("end")
        await driver.asked()
        assert "xEND" in driver.screen


# -- changing the rule or the command, and answering all


async def test_rule_written_by_user_is_checked_and_stored(project: ScriptedProject):
    project.model.will_call("bash", command="touch made").will_say("done")
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        await driver.pilot.press("r", "enter")
        await driver.until(lambda: "Enter: use this rule" in question_text(driver))
        await driver.pilot.press(*["backspace"] * 4, "x")
        await driver.until(lambda: "doesn't cover the call itself" in question_text(driver))
        await driver.pilot.press("enter")
        assert driver.dialog is not None
        await driver.pilot.press("backspace", "asterisk", "enter")
        await driver.until(lambda: "a Allow for this session: execute:touch *" in driver.screen)
        await driver.asked()
        await driver.pilot.press("a", "enter")
        await driver.idle()
        assert "Allowed for this session: `execute:touch *`" in driver.screen
        assert (project.folder / "made").exists()


async def test_command_changed_in_question_runs_in_place_of_the_models(project: ScriptedProject):
    project.model.will_call("bash", command="touch made").will_say("done")
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        await driver.pilot.press("e", "enter")
        await driver.until(lambda: "Enter: run this instead" in question_text(driver))
        await driver.pilot.press("2", "enter")
        await driver.idle()
        assert [path.name for path in project.folder.iterdir()] == ["made2"]
        assert "You changed the command. Running: touch made2" in driver.screen


async def test_escape_leaves_a_change_of_the_command_without_an_answer(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(replace(request(), command="git push"))
        await driver.asked()
        await driver.pilot.press("e", "enter", "x", "escape")
        await driver.until(lambda: driver.dialog and not driver.dialog.is_writing)
        assert not question.done()


async def test_one_key_allows_all_listed_calls(project: ScriptedProject):
    calls = [("bash", {"command": f"touch {name}"}) for name in ("one", "two", "three")]
    project.model.will_call_all(*calls).will_say("done")
    async with running_app(project) as driver:
        await driver.send("make them")
        await driver.asked()
        assert "A Allow all listed calls once (3)" in question_text(driver)
        await driver.pilot.press("A", "enter")
        await driver.idle()
        assert sorted(path.name for path in project.folder.iterdir()) == ["one", "three", "two"]


async def test_calls_that_are_not_shown_in_full_cannot_be_allowed_together(
    project: ScriptedProject,
):
    long = replace(request("git push " + "x" * 300), command="git push " + "x" * 300)
    async with running_app(project) as driver:
        question = driver.ask(request(), long)
        await driver.asked()
        await driver.pilot.press("A")
        await driver.until(lambda: driver.app.composer.text == "A")
        driver.app.composer.put("")
        await driver.until(lambda: driver.dialog and driver.dialog.has_keyboard)
        await driver.pilot.press("right")
        await driver.until(lambda: "2 of 2" in question_text(driver))
        await driver.asked()
        await driver.pilot.press("A", "enter")
        assert await question == [ALLOWED, ALLOWED]


async def test_transcript_scrolls_and_is_searched_while_a_question_is_open(
    project: ScriptedProject,
):
    project.model.will_say("\n".join(f"line {number}" for number in range(200)))
    async with running_app(project) as driver:
        await driver.send("count")
        await driver.idle()
        question = driver.ask(request())
        await driver.asked()
        await driver.pilot.press("pageup", "pageup")
        await driver.until(lambda: "line 199" not in driver.screen)
        await driver.pilot.press("ctrl+f", *"line 42")
        await driver.until(lambda: driver.app.find_bar.is_open and "1 of 1" in driver.screen)
        await driver.pilot.press("escape")
        await driver.asked()
        await driver.pilot.press("y", "enter")
        assert await question == [ALLOWED]
