"""The permission dialog: it shows the whole call, and only a deliberate answer counts."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from textual import events

from dirge_py.types.questions import AskedClaim, PermissionAnswer, PermissionRequest, RuleOffer
from dirge_py.types.tools import Preview
from dirge_py.ui.panels.permission import paint_request
from dirge_py.ui.theme.styles import load_theme, styles_for
from tests.support.app_driver import running_app
from tests.support.project import ScriptedProject

STYLES = styles_for(load_theme("dark"))

MAKE = "touch made"
"""A command that is asked about."""


def request(command: str = "git push", grant: tuple[str, ...] = ("execute:git push",)):
    return PermissionRequest(
        call_id="c1",
        tool_name="bash",
        claims=(claim(command, "not on the list"),),
        offers=(RuleOffer(grant),) if grant else (),
        preview=Preview(kind="command", text=command),
        cwd="/tmp/project",
    )


def claim(command: str, reason: str, effect: Any = "ask") -> AskedClaim:
    return AskedClaim(
        op="execute", resource=command, effect=effect, policy="default", reason=reason
    )


# -- with the engine


async def test_call_allowed_once_runs_and_next_call_asks_again(project: ScriptedProject):
    project.model.will_call("bash", command=MAKE).will_call("bash", command=MAKE)
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        assert f"│ {MAKE}" in driver.screen
        await driver.pilot.press("y", "enter")
        await driver.until(lambda: driver.results)
        assert (project.folder / "made").exists()
        await driver.asked()


async def test_picker_gets_focus_back_after_permission_question(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        await driver.pilot.press("f1")
        await driver.until(lambda: driver.app.picker.has_focus)
        answered = driver.ask(request())
        await driver.asked()
        await driver.pilot.press("y", "enter")
        await answered
        await driver.until(lambda: driver.panel is None)
        await driver.pilot.press("down", "escape")
        await driver.until(lambda: not driver.app.picker.is_open)

        assert driver.app.composer.has_focus


async def test_call_allowed_for_session_is_not_asked_again(
    project: ScriptedProject,
):
    project.model.will_call("bash", command=MAKE).will_call("bash", command=MAKE)
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        assert "Allow for this session: execute:touch made" in driver.screen
        await driver.pilot.press("a", "enter")
        await driver.idle()
        assert len(driver.results) == 2
        assert [str(grant) for grant in driver.conversation.settings.grants] == [
            "execute:touch made"
        ]


async def test_denied_call_does_not_run_and_comment_reaches_model(
    project: ScriptedProject,
):
    project.model.will_call("bash", command=MAKE)
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        await driver.pilot.press("c", "enter")
        await driver.type("use 3 y n")
        await driver.pilot.press("enter")
        await driver.idle()
        assert not (project.folder / "made").exists()
        assert "use 3 y n" in driver.results[0]
        assert "denied" in driver.text


async def test_question_explains_only_parts_of_command_that_ask(project: ScriptedProject):
    project.model.will_call("bash", command=f"ls; {MAKE}; mkdir -p x")
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        asked = driver.screen[driver.screen.index("Allow bash?") :]
        assert asked.count(f"│ ls; {MAKE}; mkdir -p x") == 1
        assert f"  {MAKE} — " in asked
        assert "  mkdir -p x — " in asked
        assert "  ls" not in asked


async def test_edit_question_shows_diff(project: ScriptedProject):
    (project.folder / "x.py").write_text("old\n")
    project.model.will_call("read", path="x.py")
    project.model.will_call("edit", path="x.py", old_text="old", new_text="new")
    async with running_app(project, mode="restrictive") as driver:
        await driver.send("go")
        await driver.asked()
        assert "1 -old" in driver.screen
        assert "1 +new" in driver.screen
        assert "x.py" in driver.screen
        await driver.pilot.press("y", "enter")
        await driver.idle()
        assert (project.folder / "x.py").read_text() == "new\n"


async def test_esc_denies_call_and_run_continues(project: ScriptedProject):
    project.model.will_call("bash", command=MAKE).will_say("Then not.")
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        await driver.pilot.press("escape")
        await driver.idle()
        assert "Then not." in driver.text


async def test_ctrl_c_denies_call_and_interrupts_run(project: ScriptedProject):
    project.model.will_call("bash", command=MAKE)
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        await driver.pilot.press("ctrl+c")
        await driver.idle()
        assert driver.dialog is None
        assert "Interrupted." in driver.text
        assert not (project.folder / "made").exists()


async def test_aborted_run_removes_its_question(project: ScriptedProject):
    project.model.will_call("bash", command=MAKE)
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        driver.conversation.abort()
        await driver.idle()
        assert driver.dialog is None
        assert driver.app.composer.has_focus


async def test_quitting_during_question_ends_run_without_running_call(project: ScriptedProject):
    project.model.will_call("bash", command=MAKE)
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.asked()
        driver.app.leave(0)
        await driver.until(lambda: not driver.app.is_running)
    assert not driver.conversation.is_running
    assert not (project.folder / "made").exists()


async def test_draft_survives_permission_question(project: ScriptedProject):
    gate = asyncio.Event()
    project.model.will_say("Wait.", hold=gate.wait).will_call("bash", command=MAKE)
    async with running_app(project) as driver:
        await driver.send("make it")
        await driver.until(lambda: "Wait." in driver.text)
        driver.conversation.follow_up("now")
        driver.app.composer.put("my draft")
        gate.set()
        await driver.until(lambda: driver.dialog and driver.dialog.may_approve)
        assert driver.app.composer.has_focus
        await driver.pilot.press("escape")
        await driver.asked()
        await driver.pilot.press("y", "enter")
        await driver.idle()
        assert driver.app.composer.text == "my draft"


# -- the dialog alone


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y", "enter"], PermissionAnswer(effect="allow")),
        (["1", "enter"], PermissionAnswer(effect="allow")),
        (["enter", "down", "enter"], PermissionAnswer(effect="allow")),
        (["a", "enter"], PermissionAnswer(effect="allow", remember="session")),
        (["2", "enter"], PermissionAnswer(effect="allow", remember="session")),
        (["down", "down", "enter"], PermissionAnswer(effect="allow", remember="session")),
        (["a", "up", "enter"], PermissionAnswer(effect="allow")),
        (["n", "enter"], PermissionAnswer(effect="deny")),
        (["3", "enter"], PermissionAnswer(effect="deny")),
        (["escape"], PermissionAnswer(effect="deny")),
        (["up", "enter"], PermissionAnswer(effect="deny")),
        (
            ["c", "enter", "u", "s", "e", "space", "3", "enter"],
            PermissionAnswer(effect="deny", comment="use 3"),
        ),
    ],
)
async def test_each_key_sequence_gives_its_answer(
    project: ScriptedProject, keys: list[str], answer: PermissionAnswer
):
    async with running_app(project) as driver:
        question = driver.ask(request())
        await driver.asked()
        await driver.pilot.press(*keys)
        await driver.until(lambda: driver.dialog is None)

        assert await question == [answer]
        assert driver.app.composer.has_focus


async def test_question_shows_command_reason_folder_and_grant(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.ask(request("git push --force origin main"))
        await driver.asked()
        asked = driver.screen[driver.screen.index("Allow bash") :]

        assert asked.startswith("Allow bash?  in /tmp/project\n")
        assert asked.count("git push --force origin main") == 1
        assert "  not on the list" in asked
        assert "a Allow for this session: execute:git push" in asked


async def test_call_without_grant_cannot_be_allowed_for_session(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.ask(request(grant=()))
        await driver.asked()
        assert "this session" not in driver.screen
        await driver.pilot.press("a", "enter")
        assert driver.dialog is not None
        assert driver.app.composer.has_focus


async def test_comment_input_does_not_hide_question(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.ask(request())
        await driver.asked()
        await driver.pilot.press("c", "enter")
        await driver.until(lambda: "Tell the model why" in driver.screen)
        for shown in (" Allow bash?", "│ git push", "y Allow once"):
            assert shown in driver.screen


async def test_answer_keys_and_mode_key_do_nothing_special_in_comment(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        question = driver.ask(request())
        await driver.asked()
        await driver.pilot.press("c", "enter")
        await driver.until(lambda: driver.dialog and driver.dialog.is_writing)
        await driver.type("1 2 y a p")
        await driver.pilot.press("shift+tab")

        assert not question.done()
        assert (driver.conversation.settings.mode, list(driver.conversation.settings.grants)) == (
            "standard",
            [],
        )
        await driver.pilot.press("enter")
        assert (await question)[0] == PermissionAnswer(effect="deny", comment="1 2 y a p")


async def test_f17_text_typed_at_question_answers_nothing_and_goes_to_input(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        question = driver.ask(request())
        await driver.asked()
        await driver.pilot.press("x", "z", "q")

        assert driver.app.composer.text == "xzq"
        assert not question.done()


async def test_f19_long_command_can_be_approved_only_after_scrolling_to_end(
    project: ScriptedProject,
):
    async with running_app(project) as driver:
        question = driver.ask(request("\n".join(f"echo {n}" for n in range(300))))
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        assert "read to the end to approve" in driver.screen
        await driver.pilot.press("down", "up", "enter")
        assert not question.done()
        await driver.pilot.press("y")
        assert driver.app.composer.text == "y"
        await driver.pilot.press("backspace")
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        while driver.dialog and not driver.dialog.may_approve:
            await driver.pilot.press("space")
        assert "echo 299" in driver.screen
        await driver.pilot.press("y", "enter")
        assert await question == [PermissionAnswer(effect="allow")]


async def test_invisible_characters_in_command_are_shown(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.ask(request("echo safe\u202e#rm -rf /" + " " * 40 + "; x"))
        await driver.asked()
        assert "<U+202E>" in driver.screen
        assert "<40 spaces>" in driver.screen


async def test_user_typing_when_question_opens_keeps_typing(project: ScriptedProject):
    async with running_app(project, guard_s=3600.0) as driver:
        question = driver.ask(request())
        await driver.asked()
        await driver.pilot.press("enter", "escape", "y")
        assert driver.dialog is not None
        driver.dialog.post_message(events.Paste(" pasted"))
        await driver.until(lambda: driver.app.composer.text == "y pasted")

        assert not question.done()


@pytest.mark.parametrize("size", [(20, 5), (30, 8), (200, 60)])
async def test_question_fits_every_screen_size(project: ScriptedProject, size: tuple[int, int]):
    async with running_app(project, size=size) as driver:
        question = driver.ask(request("git push --force origin main"))
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        while driver.dialog and not driver.dialog.may_approve:
            await driver.pilot.press("space")
        assert "once" in driver.screen
        await driver.pilot.press("y", "enter")
        assert await question == [PermissionAnswer(effect="allow")]


async def test_transcript_follows_end_again_after_full_screen_question(project: ScriptedProject):
    project.model.will_call("bash", command="touch made").will_say("It is made.")
    async with running_app(project, size=(20, 5)) as driver:
        await driver.send("make it")
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        while driver.dialog and not driver.dialog.may_approve:
            await driver.pilot.press("space")
        await driver.pilot.press("y", "enter")
        await driver.idle()
        await driver.until(lambda: "It is made." in driver.screen)


@pytest.mark.parametrize("size", [(100, 30), (80, 24), (40, 12)])
async def test_read_on_hint_is_absent_when_whole_question_is_visible(
    project: ScriptedProject, size: tuple[int, int]
):
    async with running_app(project, size=size) as driver:
        driver.ask(request())
        await driver.asked()
        await driver.until(lambda: "comment" in driver.screen)
        assert "read to the end" not in driver.screen


@pytest.mark.parametrize("size", [(60, 24), (20, 5)])
async def test_shown_grant_is_never_truncated(project: ScriptedProject, size: tuple[int, int]):
    async with running_app(project, size=size) as driver:
        driver.ask(request(grant=("execute:" + "x" * 50 + " END",)))
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        seen = driver.screen
        while driver.dialog and not driver.dialog.may_approve:
            await driver.pilot.press("down")
            seen += driver.screen
        assert "END" in seen


def test_command_is_painted_once_followed_by_parts_that_ask():
    asked = replace(
        request("ls; make; git push"),
        claims=(
            claim("ls", "only looks", effect="allow"),
            claim("make", "runs what it finds"),
            claim("git push", "talks to others"),
        ),
    )
    assert [line.text.rstrip() for line in paint_request(asked, "", 60, STYLES)] == [
        "Allow bash?  in /tmp/project",
        "│ ls; make; git push",
        "  make — runs what it finds",
        "  git push — talks to others",
    ]


def test_background_command_is_marked_in_question():
    preview = Preview(kind="command", text="make serve", note="in the background")
    asked = replace(request("make serve"), preview=preview)
    assert paint_request(asked, "", 60, STYLES)[0].text.rstrip() == (
        "Allow bash?  in /tmp/project, in the background"
    )


def test_call_without_preview_lists_its_claims():
    claims = (replace(claim("/etc/hosts", "outside"), op="read"),)
    asked = replace(request(), tool_name="read", claims=claims, preview=None)
    assert [line.text.rstrip() for line in paint_request(asked, "2 of 3", 60, STYLES)] == [
        "Allow read?  2 of 3",
        "  read /etc/hosts — outside",
    ]
