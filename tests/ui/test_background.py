"""Long-running commands: progress, and moving them to the background."""

from collections.abc import Mapping
from typing import Any

import pytest

from dirge_py.types.events import (
    AgentStart,
    PermissionAnswered,
    PermissionAsked,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from dirge_py.types.tools import text_result
from dirge_py.ui.status import StatusModel, status_line
from dirge_py.ui.theme.styles import load_theme, styles_for
from dirge_py.ui.transcript.renderer import TranscriptRenderer
from dirge_py.ui.transcript.tool_block import progress_bar
from tests.support.app_driver import WAITING_COMMAND, running_app
from tests.support.project import ScriptedProject
from tests.ui.test_transcript import Page

STYLES = styles_for(load_theme("dark"))
CALL: Mapping[str, Any] = {"tool_call_id": "c", "tool_name": "bash"}


# -- on a page


class CallDriver:
    """A page with one running call, and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.page = Page(STYLES, 100)
        self.renderer = TranscriptRenderer(self.page, clock=lambda: self.now)
        self.renderer.on_event(AgentStart(run_id="r"))
        self.renderer.on_event(ToolExecutionStart(args={"command": "make"}, **CALL))

    def update(self, text: str, **details: Any) -> None:
        result = text_result(text, **details)
        self.renderer.on_event(ToolExecutionUpdate(args={}, partial_result=result, **CALL))

    def after(self, seconds: float) -> str:
        self.now += seconds
        self.renderer.tick()
        return self.page.text


def test_long_running_call_shows_elapsed_time():
    watched = CallDriver()
    assert watched.after(2) == "● bash make"
    assert watched.after(3) == "● bash make  5 s"
    assert watched.after(120) == "● bash make  2 min 5 s"


def test_waiting_for_permission_answer_does_not_count_as_call_time():
    watched = CallDriver()
    watched.renderer.on_event(PermissionAsked(claims=(), reason="", **CALL))
    watched.now += 60
    watched.renderer.on_event(
        PermissionAnswered(effect="allow", policy="answer", reason="", **CALL)
    )
    assert watched.after(4) == "● bash make  4 s"


def test_quiet_command_shows_quiet_time_until_next_output():
    watched = CallDriver()
    watched.now += 80
    watched.update("line", quiet_s=75)
    assert watched.page.text == "● bash make  80 s, no output for 75 s\n  line"
    assert watched.after(5) == "● bash make  85 s, no output for 80 s\n  line"
    watched.update("line\nmore")
    assert watched.page.text == "● bash make  85 s\n  line\n  more"


def test_progress_of_call_is_drawn_as_bar():
    watched = CallDriver()
    watched.update("", done=3, total=10)
    assert watched.page.text == "● bash make  ███░░░░░░░ 3/10"


@pytest.mark.parametrize(
    ("done", "total", "bar"),
    [
        (0, 4, "░░░░░░░░░░ 0/4"),
        (9, 4, "██████████ 9/4"),
        (-1, 4, "░░░░░░░░░░ -1/4"),
        (2.5, 5, "█████░░░░░ 2.5/5"),
        (7, None, "7 done"),
        (7, 0, "7 done"),
    ],
)
def test_progress_bar_is_clamped_to_its_width(done: float, total: float | None, bar: str):
    assert progress_bar(done, total) == bar


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), "7", True, None, [], 10**400])
def test_non_numeric_progress_details_are_ignored(odd: Any):
    watched = CallDriver()
    watched.update("", done=odd, total=odd, quiet_s=odd)
    assert watched.page.text == "● bash make"


@pytest.mark.parametrize(("count", "words"), [(1, "1 shell"), (2, "2 shells"), (0, "")])
def test_status_line_counts_background_shells(count: int, words: str):
    standing = StatusModel(place="p", model="m", mode="plan", state="ready", shells=count)
    line = "".join(text for text, _ in status_line(standing, 80, STYLES))
    assert line == " │ ".join(part for part in ("p", "m", "plan", "ready", words) if part)


# -- in a conversation


async def test_ctrl_b_moves_running_command_to_background(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND).will_say("It goes on.")
    async with running_app(project, mode="yolo") as driver:
        await driver.send("build it")
        await driver.until(lambda: "\n   cc a.c" in driver.screen)
        await driver.pilot.press("ctrl+b")
        await driver.idle()
        assert "continues in the background as sh1" in driver.text
        assert "sh1" in driver.results[0]
        await driver.until(lambda: "│ 1 shell" in driver.screen)
        driver.release_command()
        await driver.until(lambda: "shell" not in driver.screen.splitlines()[-1])


async def test_ctrl_b_without_running_command_moves_cursor_back(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("ab")
        await driver.pilot.press("ctrl+b", "x")
        await driver.until(lambda: driver.app.composer.text == "axb")


async def test_ui_timer_runs_only_during_a_run(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND)
    async with running_app(project, mode="yolo") as driver:
        before = len(driver.app._timers)
        await driver.send("build it")
        await driver.until(lambda: "\n   cc a.c" in driver.screen)
        assert len(driver.app._timers) == before + 2  # The clock and the spinner.
        driver.release_command()
        await driver.idle()
        await driver.until(lambda: len(driver.app._timers) == before)
