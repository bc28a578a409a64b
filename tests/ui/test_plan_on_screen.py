"""Working through a plan at the screen: what is seen, what keys do, what is found again."""

import json

import pytest
from textual.events import AppBlur

from dirge_py.providers.scripted import Reply
from dirge_py.types.events import PhaseName, PlanPhase
from dirge_py.ui.status import plan_words
from tests.conversation.room import Room
from tests.frontend.worker import Worker
from tests.ui.running_app import RunningApp, running_app
from tests.ui.test_plan_blocks import EXPLORED, EXPLORING, ended, started
from tests.ui.test_status import Called

PLAN = "\n".join(
    [
        "## Name",
        "Count the items",
        "## Steps",
        *(f"* step {n}" for n in range(20)),
        "## Verify",
        "```sh",
        "sh check.sh",
        "```",
    ]
)
VERDICT = {
    "verdict": "DONE",
    "checklist": [{"requirement": "counts", "status": "verified", "evidence": "sh check.sh"}],
    "missing": "",
}
# Whether there is a sandbox is no business of a screen, and the gates have tests of their own.
NO_SANDBOX = '[plan]\nsandbox = "off"\n[loop.gates]\nverifier = 0\ntodo = 0\n'


def plans(room: Room) -> None:
    (room.project / "shop.py").write_text("def total(items): ...\n")
    (room.project / "check.sh").write_text("grep -q count count.py\n")
    room.configure(NO_SANDBOX)
    room.model.will_call("read", path="shop.py")
    room.model.will_say("Nothing counts yet, says shop.py:1.")
    room.model.will_say(PLAN)
    room.model.will_call("write", path="count.py", content="count = 1\n")
    room.model.will_say("It counts.")
    room.model.will(Reply(calls=[("bash", {"command": "sh check.sh"})]))
    room.model.will_say(f"It does.\n\n```json\n{json.dumps(VERDICT)}\n```")


async def test_a_plan_is_read_decided_on_carried_out_and_found_again(room: Room) -> None:
    plans(room)
    async with running_app(room, size=(80, 24), mode="accept") as d:
        await d.send("/plan Count the items.")
        await d.until(lambda: d.panel and d.panel.has_focus and d.panel.is_open)
        # It is longer than what the question leaves of the screen, and begins at its beginning.
        await d.until(lambda: "2/4 plan" in d.screen)
        assert "step 19" not in d.screen
        assert "plan 2/4 · planning, asking" in d.screen
        await d.pilot.press("pagedown", "ctrl+end")
        await d.until(lambda: "step 19" in d.screen)
        assert "Nothing counts yet, says shop.py:1." in d.text
        assert "read shop.py" not in d.text
        await d.pilot.press("1", "enter")
        await d.until(lambda: "The plan is done, and verified." in d.screen)
        await d.idle()
        for words in ("3/4 implement", "› Count the items.", "● write count.py", "4/4 review"):
            assert words in d.text
        assert "✓ E" in d.text
        assert "sh check.sh  exit 0" in d.text
        assert d.app.renderer.phases.is_running is False

        left = d.conversation.session_id
        await d.app.session_opener.switch_to(None)
        assert "4/4 review" not in d.text
        await d.app.session_opener.switch_to(left)
        await d.until(lambda: "Back in this session" in d.text)
        heads = [line for line in d.text.splitlines() if "/4 " in line]
        assert [head.split()[1:3] for head in heads] == [
            ["1/4", "explore"],
            ["2/4", "plan"],
            ["3/4", "implement"],
            ["4/4", "review"],
        ]
        assert "sh check.sh  exit 0" in d.text


async def worked(d: RunningApp) -> Worker:
    """Somebody has the conversation to themselves, in the middle of exploring."""
    worker = Worker()
    d.app.front.commands.add(worker.command())
    await d.send("/work")
    await d.until(lambda: d.conversation.exclusive_owner)
    for event in (started(shut_in="read-only: bubblewrap"), *EXPLORING):
        d.conversation.report(event)
    await d.until(lambda: "1 call · grep total" in d.screen)
    return worker


async def test_what_is_typed_meanwhile_waits_in_sight_and_comes_back_when_it_is_stopped(
    room: Room,
) -> None:
    now = [0.0]
    async with running_app(room, size=(80, 16), clock=lambda: now[0]) as d:
        called = Called(d, "both", TERM="xterm-kitty")
        await worked(d)
        assert "plan 1/4 · exploring" in d.screen
        assert "Esc stops the plan" in d.screen
        await d.send("mind the gap")
        await d.until(lambda: "↳ enters the next run: mind the gap" in d.screen)
        now[0] += 60
        # A key would tell that somebody is there.
        d.app.post_message(AppBlur())
        await d.until(lambda: not d.app.app_focus)
        assert d.app.controller.interrupt()
        await d.idle()
        assert d.app.composer.text == "mind the gap"
        assert "▸ stopped after 1 min 0 s · 1 call" in d.text
        assert "plan 1/4" not in d.screen
        await d.until(lambda: called.notified)
        assert "the plan has ended, after 60 s" in called.notified[0]


async def test_what_a_fork_did_is_found_opened_and_closed(room: Room) -> None:
    async with running_app(room, size=(60, 24)) as d:
        renderer, page = d.app.renderer, d.app.transcript
        for event in (started(), *EXPLORING, *EXPLORED, ended(summary="Found it.")):
            renderer.on_event(event)
        renderer.settle()
        page.redraw()
        assert "shop.py:3" not in d.text
        await d.pilot.press("ctrl+f")
        await d.type("shop.py:3")
        await d.until(lambda: "1 of 1" in d.screen and "shop.py:3" in d.screen)
        assert "▾" in d.screen
        # Nobody chose it, so all is as it was.
        await d.pilot.press("escape")
        await d.until(lambda: "▸" in d.screen and "shop.py:3" not in d.screen)
        await d.pilot.press("ctrl+up", "{", "{", "}", "space")
        await d.until(lambda: "│ I look at it." in d.screen)
        await d.pilot.press("space")
        await d.until(lambda: "│ I look at it." not in d.screen)


@pytest.mark.parametrize(
    ("phase", "step", "words"),
    [
        ("explore", 1, "plan 1/4 · exploring"),
        ("implement", 2, "plan 3/4 · implementing, cycle 2"),
        ("review", 3, "plan 4/4 · reviewing, cycle 3"),
    ],
)
def test_the_status_names_the_phase(phase: PhaseName, step: int, words: str) -> None:
    event = PlanPhase(phase=phase, step=step, state="started")
    assert plan_words(event.phase, event.step) == words
