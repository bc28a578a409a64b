"""A plan on the screen: display, keys, and resuming."""

import json

import pytest
from textual.events import AppBlur

from dirge_py.providers.scripted import Reply
from dirge_py.types.events import PhaseName, PlanPhase
from dirge_py.ui.status import plan_words
from tests.support.app_driver import AppDriver, running_app
from tests.support.exclusive_owner import ScriptedOwner
from tests.support.project import ScriptedProject
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
# The sandbox and the gates have their own tests.
NO_SANDBOX = '[plan]\nsandbox = "off"\n[loop.gates]\nverifier = 0\ntodo = 0\n'


def plans(project: ScriptedProject) -> None:
    (project.folder / "shop.py").write_text("def total(items): ...\n")
    (project.folder / "check.sh").write_text("grep -q count count.py\n")
    project.configure(NO_SANDBOX)
    project.model.will_call("read", path="shop.py")
    project.model.will_say("Nothing counts yet, says shop.py:1.")
    project.model.will_say(PLAN)
    project.model.will_call("write", path="count.py", content="count = 1\n")
    project.model.will_say("It counts.")
    project.model.will(Reply(calls=[("bash", {"command": "sh check.sh"})]))
    project.model.will_say(f"It does.\n\n```json\n{json.dumps(VERDICT)}\n```")


async def test_plan_is_shown_accepted_run_and_restored_on_resume(
    project: ScriptedProject,
) -> None:
    plans(project)
    async with running_app(project, size=(80, 24), mode="accept") as driver:
        await driver.send("/plan Count the items.")
        await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
        # The plan is longer than the space above the question, so its start is shown.
        await driver.until(lambda: "2/4 plan" in driver.screen)
        assert "step 19" not in driver.screen
        assert "plan 2/4 · planning, asking" in driver.screen
        # A comment is what the person types; no option asks for it a second time.
        assert "   4 say what to plan differently" in driver.screen
        assert "in your own words" not in driver.screen.rpartition("select, then")[0]
        await driver.pilot.press("pagedown", "ctrl+end")
        await driver.until(lambda: "step 19" in driver.screen)
        assert "Nothing counts yet, says shop.py:1." in driver.text
        assert "read shop.py" not in driver.text
        await driver.pilot.press("1", "enter")
        await driver.until(lambda: "The plan is done, and verified." in driver.screen)
        await driver.idle()
        for words in ("3/4 implement", "› Count the items.", "✓ write count.py", "4/4 review"):
            assert words in driver.text
        assert "✓ E" in driver.text
        assert "sh check.sh  exit 0" in driver.text
        assert driver.app.feed.renderer.phases.is_running is False

        left = driver.conversation.session_id
        await driver.app.session_opener.switch_to(None)
        assert "4/4 review" not in driver.text
        await driver.app.session_opener.switch_to(left)
        await driver.until(lambda: "Resumed this session" in driver.text)
        heads = [line for line in driver.text.splitlines() if "/4 " in line]
        assert [head.split()[1:3] for head in heads] == [
            ["1/4", "explore"],
            ["2/4", "plan"],
            ["3/4", "implement"],
            ["4/4", "review"],
        ]
        assert "sh check.sh  exit 0" in driver.text


async def worked(driver: AppDriver) -> ScriptedOwner:
    """An owner has the conversation exclusively, while it explores."""
    worker = ScriptedOwner()
    driver.app.front.commands.add(worker.command())
    await driver.send("/work")
    await driver.until(lambda: driver.conversation.exclusive_owner)
    for event in (started(shut_in="read-only: bubblewrap"), *EXPLORING):
        driver.conversation.report(event)
    await driver.until(lambda: '1 call · grep "total"' in driver.screen)
    return worker


async def test_prompt_typed_during_plan_is_queued_and_returned_on_interrupt(
    project: ScriptedProject,
) -> None:
    now = [0.0]
    async with running_app(project, size=(80, 16), clock=lambda: now[0]) as driver:
        called = Called(driver, "both", TERM="xterm-kitty")
        await worked(driver)
        assert "plan 1/4 · exploring" in driver.screen
        assert "Esc to stop the plan" in driver.screen
        await driver.send("mind the gap")
        await driver.until(lambda: "↳ enters the next run: mind the gap" in driver.screen)
        now[0] += 60
        # A key press would count as user activity.
        driver.app.post_message(AppBlur())
        await driver.until(lambda: not driver.app.app_focus)
        assert driver.app.controller.interrupt()
        await driver.idle()
        assert driver.app.composer.text == "mind the gap"
        assert "▸ stopped after 1 min 0 s · 1 call" in driver.text
        assert "plan 1/4" not in driver.screen
        await driver.until(lambda: called.notified)
        assert "the plan ended after 60 s" in called.notified[0]


async def test_search_unfolds_fork_and_space_toggles_it(project: ScriptedProject) -> None:
    async with running_app(project, size=(60, 24)) as driver:
        renderer, page = driver.app.feed.renderer, driver.app.transcript
        for event in (started(), *EXPLORING, *EXPLORED, ended(summary="Found it.")):
            renderer.on_event(event)
        renderer.settle()
        page.redraw()
        assert "shop.py:3" not in driver.text
        await driver.pilot.press("ctrl+f")
        await driver.type("shop.py:3")
        await driver.until(lambda: "1 of 1" in driver.screen and "shop.py:3" in driver.screen)
        assert "▾" in driver.screen
        # No match was selected, so the fork is folded again.
        await driver.pilot.press("escape")
        await driver.until(lambda: "▸" in driver.screen and "shop.py:3" not in driver.screen)
        await driver.pilot.press("ctrl+up", "{", "{", "}", "space")
        await driver.until(lambda: "│ I look at it." in driver.screen)
        await driver.pilot.press("space")
        await driver.until(lambda: "│ I look at it." not in driver.screen)


@pytest.mark.parametrize(
    ("phase", "step", "words"),
    [
        ("explore", 1, "plan 1/4 · exploring"),
        ("implement", 2, "plan 3/4 · implementing, cycle 2"),
        ("review", 3, "plan 4/4 · reviewing, cycle 3"),
    ],
)
def test_status_names_current_plan_phase(phase: PhaseName, step: int, words: str) -> None:
    event = PlanPhase(phase=phase, step=step, state="started")
    assert plan_words(event.phase, event.step) == words
