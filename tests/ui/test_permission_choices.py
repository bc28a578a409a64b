"""Several questions in one view, and what may be stored by their answers."""

from dataclasses import replace

import pytest
from rich.cells import cell_len

from dirge_py.providers.scripted import Reply
from dirge_py.types.questions import PermissionAnswer, Reach
from dirge_py.types.tools import Preview
from dirge_py.ui.panels.dialog import fit_hints, paint_key_hints
from tests.conversation.room import Room
from tests.ui.running_app import RunningApp, running_app
from tests.ui.test_permission import STYLES, request

ALLOWED = PermissionAnswer(effect="allow")
DENIED = PermissionAnswer(effect="deny")


def shown(d: RunningApp) -> str:
    """The question that is shown, with what is listed below it."""
    return d.screen[d.screen.rindex("Allow bash?") :]


# -- several in one view


async def test_one_question_is_shown_and_the_others_are_listed(room: Room):
    async with running_app(room) as d:
        d.ask(request("make"), request("make install\nmore"), request("ls"))
        await d.asked()
        assert "1 of 3" in shown(d)
        assert "│ make\n" in shown(d)
        assert "? 2 bash make install…\n" in shown(d)
        assert "? 3 bash ls\n" in shown(d)


async def test_each_question_has_an_answer_of_its_own(room: Room):
    async with running_app(room) as d:
        question = d.ask(request("make"), request("make install"), request("ls"))
        await d.asked()
        await d.pilot.press("y", "enter")
        await d.until(lambda: "2 of 3" in shown(d) and "✓ 1 bash make" in shown(d))
        await d.asked()
        await d.pilot.press("c", "enter", "n", "o", "enter")
        await d.until(lambda: "3 of 3" in shown(d) and "⊘ 2 bash make install" in shown(d))
        await d.asked()
        await d.pilot.press("a", "enter")
        assert await question == [
            ALLOWED,
            PermissionAnswer(effect="deny", comment="no"),
            PermissionAnswer(effect="allow", remember="session"),
        ]


async def test_c29_a_no_leaves_the_other_questions_open(room: Room):
    async with running_app(room) as d:
        question = d.ask(request("make"), request("make install"))
        await d.asked()
        await d.pilot.press("n", "enter")
        await d.until(lambda: "2 of 2" in shown(d))
        assert not question.done()
        await d.asked()
        await d.pilot.press("y", "enter")
        assert await question == [DENIED, ALLOWED]


async def test_the_open_questions_can_be_gone_through_and_answered_in_any_order(room: Room):
    async with running_app(room) as d:
        question = d.ask(request("one"), request("two"), request("three"))
        await d.asked()
        await d.pilot.press("right", "right")
        await d.until(lambda: "3 of 3" in shown(d))
        await d.asked()
        await d.pilot.press("y", "enter")
        await d.until(lambda: "1 of 3" in shown(d))
        await d.pilot.press("left")
        await d.until(lambda: "2 of 3" in shown(d))
        await d.pilot.press("n", "enter", "y", "enter")
        assert await question == [ALLOWED, DENIED, ALLOWED]


async def test_a_key_meant_for_one_question_does_not_answer_the_next(room: Room):
    async with running_app(room, guard_s=3600.0) as d:
        question = d.ask(request("make"), request("make install"))
        await d.asked()
        dialog = d.dialog
        assert dialog is not None
        dialog.act("deny")
        await d.until(lambda: "2 of 2" in shown(d))
        await d.pilot.press("enter", "escape", "y")
        assert not question.done()
        assert d.app.composer.text == "y"


async def test_a_question_that_was_not_read_to_its_end_cannot_be_approved(room: Room):
    async with running_app(room) as d:
        question = d.ask(request("make"), request("\n".join(f"echo {n}" for n in range(99))))
        await d.asked()
        await d.pilot.press("y", "enter")
        await d.until(lambda: "2 of 2" in shown(d))
        await d.pilot.press("down", "up", "enter")
        assert not question.done()
        await d.pilot.press("end")
        await d.asked()
        await d.pilot.press("y", "enter")
        assert await question == [ALLOWED, ALLOWED]


async def test_ctrl_c_denies_all_that_is_open(room: Room):
    async with running_app(room) as d:
        question = d.ask(request("make"), request("make install"), request("ls"))
        await d.asked()
        await d.pilot.press("y", "enter")
        await d.until(lambda: "2 of 3" in shown(d))
        await d.pilot.press("ctrl+c")
        assert await question == [ALLOWED, DENIED, DENIED]


@pytest.mark.parametrize("size", [(40, 12), (20, 5)])
async def test_several_questions_can_be_answered_on_small_screens(
    room: Room, size: tuple[int, int]
):
    async with running_app(room, size=size) as d:
        question = d.ask(request("make"), request("make install"))
        for key in ("y", "n"):
            await d.until(lambda: d.dialog and d.dialog.has_focus)
            while d.dialog and not d.dialog.may_approve:
                await d.pilot.press("space")
            await d.pilot.press(key, "enter")
        assert await question == [ALLOWED, DENIED]


async def test_calls_of_one_answer_are_asked_about_together(room: Room):
    commands = ["touch one", "touch two"]
    room.model.will(Reply(calls=[("bash", {"command": command}) for command in commands]))
    async with running_app(room) as d:
        await d.send("go")
        await d.asked()
        assert "1 of 2" in shown(d)
        await d.pilot.press("n", "enter")
        await d.until(lambda: "2 of 2" in shown(d))
        await d.asked()
        await d.pilot.press("y", "enter")
        await d.idle()
        assert sorted(path.name for path in room.project.iterdir()) == ["two"]


# -- what is stored


KEYS = [
    (["a", "enter"], PermissionAnswer(effect="allow", remember="session")),
    (["p", "enter"], PermissionAnswer(effect="allow", remember="always")),
    (["4", "enter"], PermissionAnswer(effect="allow", remember="always")),
    (["tab", "a", "enter"], PermissionAnswer(effect="allow", remember="session", is_wide=True)),
    (["tab", "p", "enter"], PermissionAnswer(effect="allow", remember="always", is_wide=True)),
    (["tab", "tab", "p", "enter"], PermissionAnswer(effect="allow", remember="always")),
    (["tab", "y", "enter"], ALLOWED),
    (["down", "down", "down", "enter"], PermissionAnswer(effect="allow", remember="always")),
    (["3", "enter"], DENIED),
]


async def test_each_key_stores_what_it_says(room: Room):
    keeping = replace(request(), wider=("execute:git push *",), can_keep=True)
    async with running_app(room) as d:
        for keys, answer in KEYS:
            question = d.ask(keeping)
            await d.asked()
            await d.pilot.press(*keys)
            assert (keys, await question) == (keys, [answer])
            await d.until(lambda: d.dialog is None)


async def test_the_rule_shown_is_the_one_that_would_be_stored(room: Room):
    async with running_app(room) as d:
        d.ask(replace(request(), wider=("execute:git *",), can_keep=True))
        await d.asked()
        assert "a Allow for this session: execute:git push\n" in shown(d)
        assert "p Allow always, in your settings: execute:git push\n" in shown(d)
        await d.pilot.press("tab")
        await d.until(lambda: "a Allow for this session: execute:git *\n" in shown(d))
        assert "p Allow always, in your settings: execute:git *\n" in shown(d)


async def test_below_the_answers_it_says_what_the_rule_shown_would_match(room: Room):
    asked = replace(
        request(),
        wider=("execute:git push *",),
        grant_reach=Reach(words="only exactly this"),
        wider_reach=Reach(
            words="any push", also=("git push a\x1b[2J", "x" * 99), still=("git pull",)
        ),
        alike=3,
    )
    async with running_app(room) as d:
        d.ask(asked)
        await d.asked()
        assert (
            "   This rule covers: only exactly this\n"
            "   3 similar ones were allowed one by one; Tab: a rule for all\n"
            "   select, then Enter · c: deny with a comment · Tab: a wider rule\n"
        ) in shown(d)
        assert "  y Allow once" in shown(d)
        await d.pilot.press("tab")
        await d.until(lambda: "This rule covers: any push\n" in shown(d))
        assert "also, of this session: git push a<U+001B>[2J · xxx" in shown(d)
        assert "xx…\n     but not: git pull\n   select, " in shown(d)


@pytest.mark.parametrize("width", range(4, 90))
def test_no_key_is_named_by_half(width: int):
    hints = [("c: deny with a comment", "c: comment"), ("Tab: a wider rule", "Tab: wider")] * 2
    words = {word for hint in hints for word in hint}

    rows = [row.text for row in paint_key_hints(hints, width, STYLES, most=2, indent=" ")]

    assert len(rows) <= 2
    assert all(cell_len(row) <= width for row in rows)
    if width > len("c: comment"):
        assert {part for row in rows for part in row.strip().split(" · ")} <= words


def test_a_line_of_keys_is_cut_between_two_of_them():
    text = "Esc interrupts · Enter steers · Tab queues"

    assert [fit_hints(text, width) for width in (42, 41, 20, 9)] == [
        text,
        "Esc interrupts · Enter steers",
        "Esc interrupts",
        "Esc inte…",
    ]


async def test_a_wider_rule_too_long_for_its_line_must_be_read_first(room: Room):
    wide = "execute:" + " ".join(f"word{n}" for n in range(400)) + " END"
    async with running_app(room) as d:
        question = d.ask(replace(request(), wider=(wide,)))
        await d.asked()
        await d.pilot.press("tab")
        await d.until(lambda: d.dialog and not d.dialog.may_approve)
        await d.pilot.press("down", "down", "enter")
        assert not question.done()
        await d.pilot.press("end")
        await d.asked()
        assert "END" in d.screen
        await d.pilot.press("a", "enter")
        assert await question == [
            PermissionAnswer(effect="allow", remember="session", is_wide=True)
        ]


async def test_where_nothing_wider_makes_sense_no_such_key_is_named(room: Room):
    async with running_app(room) as d:
        question = d.ask(request())
        await d.asked()
        assert "wider" not in shown(d)
        assert "always" not in shown(d)
        await d.pilot.press("tab", "p", "4", "enter")
        assert not question.done()


async def test_a_warning_stands_above_the_call(room: Room):
    async with running_app(room) as d:
        d.ask(replace(request(), warning="sends\x1b[2J the keys away"))
        await d.asked()
        lines = shown(d).splitlines()
        assert lines[1] == " ! sends<U+001B>[2J the keys away"
        assert lines[2] == " │ git push"


async def test_a_long_line_of_a_change_is_shown_whole(room: Room):
    diff = "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+" + "x" * 9000 + "END\n"
    async with running_app(room) as d:
        d.ask(replace(request(), preview=Preview(kind="diff", path="x", text=diff)))
        await d.until(lambda: d.dialog and d.dialog.has_focus)
        await d.pilot.press("end")
        await d.asked()
        assert "xEND" in d.screen
