"""Screens of a plan from exploring to the report, in three sizes.

Update on purpose only: `pytest tests/ui/test_plan_screens.py --snapshot-update`; look at them.
"""

from collections.abc import Awaitable, Callable

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion

from dirge_py.types.events import LoopEvent, ToolExecutionStart
from dirge_py.types.messages import Usage
from dirge_py.types.questions import Question, QuestionOption
from dirge_py.ui import app, session_opener
from dirge_py.ui.transcript import tool_block
from tests.support.app_driver import AppDriver, running_app
from tests.support.exclusive_owner import ScriptedOwner
from tests.support.project import ScriptedProject
from tests.ui.test_plan_blocks import CALL, EXPLORED, EXPLORING, ended, forked, started, taken
from tests.ui.test_question_form import pose, posed
from tests.ui.test_screens import SIZES, still

SHUT_IN = "read-only: bubblewrap"
COPY = "a copy, without a network: bubblewrap"
USED = Usage(input=45_300, output=1_200, cache_read=30_000)
PLAN = """\
## Name
Count the items

## Context
Totals ignore how many of an item are bought.

## Files
* modified: `shop.py`

## Steps
1. Multiply the price by `item["count"]` in `total`.
2. An item without a count counts once.

## Verify
```sh
python -m pytest -q
```
"""
REPORT = """\
**Not verified: 1 of 2 requirements.**

### Verified

* counts: `python -m pytest -q` (E5): exit code 0

### Not verified

* an item without a count counts once: `python check.py` (E6): exit code 1
"""
SHALL_IT = Question(
    header="Plan",
    question="Shall this plan (Count the items) be carried out?\n"
    "Accepting it also allows, for this session:\n  execute:python -m pytest -q",
    options=(
        QuestionOption(label="accept", description="carry it out now"),
        QuestionOption(label="edit", description="change it in your editor first"),
        QuestionOption(label="comment", description="say what to plan otherwise"),
        QuestionOption(label="drop", description="give it up; nothing was changed"),
    ),
)


def report_events(driver: AppDriver, *events: LoopEvent) -> None:
    for event in events:
        driver.conversation.report(event)
    driver.app.flush_events()


async def explores(driver: AppDriver) -> None:
    report_events(driver, started(shut_in=SHUT_IN), *EXPLORING)


async def shows_all(driver: AppDriver) -> None:
    await driver.pilot.press("ctrl+o")


async def asks(driver: AppDriver) -> None:
    await driver.pilot.press("ctrl+o")
    end = ended(summary="Nothing counts yet.", duration_ms=34_000, usage=USED, cost_usd=0.0312)
    report_events(driver, *EXPLORED, end, started("plan", shut_in=SHUT_IN))
    report_events(driver, ended("plan", text=PLAN, duration_ms=21_000, usage=USED, cost_usd=0.0298))
    pose(driver, SHALL_IT)
    await posed(driver)


async def reviews(driver: AppDriver) -> None:
    await driver.pilot.press("1", "enter")
    await driver.until(lambda: not driver.panel)
    report_events(driver, started("implement"), ended("implement", duration_ms=65_000, usage=USED))
    report_events(driver, started("review", shut_in=COPY), taken(5, command="python -m pytest -q"))
    report_events(
        driver, taken(6, "failed", command="python check.py"), taken(7, "denied", command="curl x")
    )
    report_events(
        driver, *forked(ToolExecutionStart(args={"pattern": "total"}, **CALL), phase="review")
    )


async def reports(driver: AppDriver) -> None:
    report_events(
        driver, ended("review", summary="Not verified: 1 of 2 requirements.", text=REPORT)
    )
    driver.conversation.exclusive_owner = None
    words = "The plan ended not verified. 1 of 2 requirements. /plan resume goes on."
    driver.app.front.show(words, tone="warning")


STATES: dict[str, Callable[[AppDriver], Awaitable[None]]] = {
    "exploring": explores,
    "fork output": shows_all,
    "the question": asks,
    "reviewing": reviews,
    "the report": reports,
}


async def test_plan_screens_match_snapshots(
    snapshot: SnapshotAssertion, project: ScriptedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_block, "SHOW_TIME_FROM_MS", 1_000_000)
    monkeypatch.setattr(session_opener, "__version__", "1.2.3")
    monkeypatch.setattr(app, "TICK_S", 1_000_000)
    monkeypatch.setenv("HOME", str(project.folder.parent))
    pictures = snapshot.use_extension(SVGImageExtension)
    differing = []
    async with running_app(project, size=SIZES[0], clock=lambda: 0.0, prepare=still) as driver:
        driver.app.transcript.clear()
        driver.conversation.exclusive_owner = ScriptedOwner()
        for name, act in STATES.items():
            await act(driver)
            for width, height in SIZES[::-1]:
                await driver.pilot.resize_terminal(width, height)
                await driver.pilot.pause()
                if snapshot(name=f"{name} {width}x{height}") != driver.screen:
                    differing.append(f"{name} {width}x{height}")
            if pictures(name=name) != driver.app.export_screenshot(title="dirge"):
                differing.append(name)

    assert differing == []
