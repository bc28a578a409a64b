"""The question before a call: all of it is seen, and only an answer answers."""

import asyncio

import pytest

from dirge_py.calls import Preview
from dirge_py.questions import AskedClaim, PermissionAnswer, PermissionRequest
from dirge_py.ui.panels.permission import PermissionDialog
from tests.ui.desk import Desk, desk
from tests.ui.fake import Play


def request(command: str = "git push", grant: tuple[str, ...] = ("execute:git push",)):
    claim = AskedClaim(
        op="execute", resource=command, effect="ask", policy="default", reason="not on the list"
    )
    return PermissionRequest(
        call_id="c1",
        tool_name="bash",
        claims=(claim,),
        grant=grant,
        preview=Preview(kind="command", text=command),
        cwd="/tmp/project",
    )


class Asking:
    """A run that asks, and keeps what was answered."""

    def __init__(self, *requests: PermissionRequest) -> None:
        self.requests = requests
        self.answers: list[PermissionAnswer] = []

    async def script(self, play: Play) -> None:
        self.answers.extend(await play.ask(*self.requests))
        play.say("ok")


def dialog(d: Desk) -> PermissionDialog | None:
    return d.app.query(PermissionDialog).first() if d.app.query(PermissionDialog) else None


async def asked(d: Desk) -> None:
    await d.until(lambda: (shown := dialog(d)) and shown.has_focus and shown.may_approve)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y"], PermissionAnswer(effect="allow")),
        (["1"], PermissionAnswer(effect="allow")),
        (["enter"], PermissionAnswer(effect="allow")),
        (["a"], PermissionAnswer(effect="allow", remember="session")),
        (["2"], PermissionAnswer(effect="allow", remember="session")),
        (["down", "enter"], PermissionAnswer(effect="allow", remember="session")),
        (["n"], PermissionAnswer(effect="deny")),
        (["3"], PermissionAnswer(effect="deny")),
        (["escape"], PermissionAnswer(effect="deny")),
        (["up", "enter"], PermissionAnswer(effect="deny")),
        (
            ["tab", "u", "s", "e", "space", "3", "enter"],
            PermissionAnswer(effect="deny", comment="use 3"),
        ),
    ],
)
async def test_each_key_gives_its_answer(keys: list[str], answer: PermissionAnswer):
    asking = Asking(request())
    async with desk(asking.script) as d:
        await d.send("push")
        await asked(d)
        await d.pilot.press(*keys)
        await d.idle()

        assert asking.answers == [answer]
        assert dialog(d) is None


async def test_the_question_shows_command_rule_folder_and_grant():
    asking = Asking(request("git push --force origin main"))
    async with desk(asking.script) as d:
        await d.send("push")
        await asked(d)

        assert "Allow bash?" in d.screen
        assert "│ git push --force origin main" in d.screen
        assert "execute: ask — not on the list" in d.screen
        assert "in /tmp/project" in d.screen
        assert "Allow for this session: execute:git push" in d.screen


async def test_what_cannot_be_granted_for_longer_has_no_such_option():
    asking = Asking(request(grant=()))
    async with desk(asking.script) as d:
        await d.send("push")
        await asked(d)
        assert "this session" not in d.screen
        await d.pilot.press("a", "2")
        assert dialog(d) is not None


async def test_typing_does_not_reach_the_input():
    asking = Asking(request())
    async with desk(asking.script) as d:
        await d.send("push")
        await asked(d)
        await d.pilot.press("x", "z", "q")

        assert d.app.composer.text == ""
        assert asking.answers == []


async def test_a_long_command_can_be_approved_only_after_its_end_was_seen():
    command = "\n".join(f"echo {n}" for n in range(300))
    asking = Asking(request(command))
    async with desk(asking.script) as d:
        await d.send("go")
        await d.until(lambda: (shown := dialog(d)) and shown.has_focus)
        await d.pilot.press("y", "enter", "1", "a")
        assert asking.answers == []
        assert "read on to the end to approve" in d.screen
        while not dialog(d).may_approve:
            await d.pilot.press("space")
        assert "echo 299" in d.screen
        await d.pilot.press("y")
        await d.idle()
        assert asking.answers == [PermissionAnswer(effect="allow")]


async def test_hidden_characters_are_shown_in_the_command():
    asking = Asking(request("echo safe\u202e#rm -rf /" + " " * 40 + "; x"))
    async with desk(asking.script) as d:
        await d.send("go")
        await asked(d)
        assert "<U+202E>" in d.screen
        assert "<40 blanks>" in d.screen


async def test_several_questions_come_one_after_the_other():
    asking = Asking(request("make"), request("make install"))
    async with desk(asking.script) as d:
        await d.send("go")
        await d.until(lambda: "1 of 2" in d.screen)
        await d.pilot.press("y")
        await d.until(lambda: "2 of 2" in d.screen and dialog(d).has_focus)
        await d.pilot.press("n")
        await d.idle()
        assert [answer.effect for answer in asking.answers] == ["allow", "deny"]


async def test_an_aborted_run_takes_its_question_down():
    asking = Asking(request())
    async with desk(asking.script) as d:
        await d.send("push")
        await asked(d)
        d.talk.abort()
        await d.idle()

        assert dialog(d) is None
        assert d.app.composer.has_focus
        assert asking.answers == []


async def test_ctrl_c_denies_and_interrupts():
    asking = Asking(request())
    async with desk(asking.script) as d:
        await d.send("push")
        await asked(d)
        await d.pilot.press("ctrl+c")
        await d.idle()
        assert dialog(d) is None
        assert "Interrupted." in d.text


async def test_keys_pressed_before_the_question_could_be_read_are_no_answer():
    asking = Asking(request())
    async with desk(asking.script) as d:
        d.app.dock._guard_s = 3600.0
        await d.send("push")
        await asked(d)
        await d.pilot.press("y", "enter", "escape")

        assert asking.answers == []
        assert dialog(d) is not None


async def test_the_draft_survives_a_question():
    asking = Asking(request())
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def script(play: Play) -> None:
        await gate
        await asking.script(play)

    async with desk(script) as d:
        await d.send("push")
        d.app.composer.put("my draft")
        gate.set_result(None)
        await asked(d)
        await d.pilot.press("y")
        await d.idle()
        assert d.app.composer.text == "my draft"


@pytest.mark.parametrize("size", [(20, 5), (30, 8), (200, 60)])
async def test_a_question_fits_every_screen(size: tuple[int, int]):
    asking = Asking(request("git push --force origin main"))
    async with desk(asking.script, size=size) as d:
        await d.send("push")
        await d.until(lambda: (shown := dialog(d)) and shown.has_focus)
        while not dialog(d).may_approve:
            await d.pilot.press("space")
        assert "once" in d.screen
        await d.pilot.press("y")
        await d.idle()
        assert asking.answers == [PermissionAnswer(effect="allow")]


async def test_a_change_is_asked_about_with_its_diff():
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n"
    claim = AskedClaim(
        op="edit",
        resource="/tmp/project/x.py",
        effect="ask",
        policy="default",
        reason="restrictive",
    )
    asking = Asking(
        PermissionRequest(
            call_id="c",
            tool_name="edit",
            claims=(claim,),
            preview=Preview(kind="diff", text=diff, path="x.py"),
        )
    )
    async with desk(asking.script) as d:
        await d.send("go")
        await asked(d)
        assert "1 -old" in d.screen
        assert "1 +new" in d.screen
        assert "/tmp/project/x.py" in d.screen


async def test_quitting_during_a_question_ends_the_run_quietly():
    asking = Asking(request())
    async with desk(asking.script) as d:
        await d.send("push")
        await asked(d)
        d.app.leave(0)
        await d.until(lambda: not d.app.is_running)
    assert asking.answers == []
    assert d.talk.is_closed


async def test_the_hint_to_read_on_goes_when_all_was_seen():
    asking = Asking(request())
    async with desk(asking.script) as d:
        await d.send("push")
        await asked(d)
        await d.until(lambda: "deny with a comment" in d.screen)
        assert "read on" not in d.screen
