"""The status line: content, delays, and no redraw while idle."""

import asyncio
import os
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.events import AppBlur, AppFocus

from dirge_py.context.compaction import level_of
from dirge_py.providers.scripted import Reply
from dirge_py.types.events import CompactionStarted, ContextCompacted, RetryNotice
from dirge_py.types.messages import Usage
from dirge_py.ui.app import SPIN_S
from dirge_py.ui.options import UiSettings
from dirge_py.ui.programs import ScreenPrograms
from dirge_py.ui.status import FACES, ContextGauge, SpendingStatus, StatusModel, face, status_line
from dirge_py.ui.terminal.notifications import (
    Notifier,
    TerminalStatus,
    notification,
    passed_through,
    shows_progress,
)
from dirge_py.ui.theme.styles import load_theme, styles_for
from dirge_py.ui.transcript.blocks import RetryBlock
from tests.support.app_driver import WAITING_COMMAND, AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.support.terminal import Terminal, until

STYLES = styles_for(load_theme("phosphor"))


def status_text(width: int = 200, **more: Any) -> str:
    facts = {"place": "p:main", "model": "a/m", "mode": "plan", "state": "ready", **more}
    return "".join(text for text, _ in status_line(StatusModel(**facts), width, STYLES))


# -- gauges


@given(st.integers(0, 300_000), st.floats(0.3, 0.75))
def test_fold_mark_appears_exactly_when_next_request_is_compacted(used: int, fold_at: float):
    gauge = ContextGauge(used=used, window=200_000, fold_at=fold_at)
    level = level_of(used, 200_000, is_measured=True, fold_at=fold_at)
    assert (gauge.mark == "fold!") == (level is not None)


@pytest.mark.parametrize(
    ("used", "fold_at", "words"),
    [
        (45_000, 0.75, "45k/200k 22%"),
        (140_000, 0.75, "140k/200k 70% compacts soon"),
        (151_000, 0.75, "151k/200k 75% compacts next"),
        (199_000, None, "199k/200k 99%"),
    ],
)
def test_context_gauge_warns_before_compaction(used: int, fold_at: float | None, words: str):
    gauge = ContextGauge(used=used, window=200_000, fold_at=fold_at)
    assert words in status_text(gauge=gauge).split(" │ ")


def test_budget_is_shown_after_spending():
    spent = SpendingStatus(cost_usd=0.0123, most_cost_usd=1.0, tokens=12_000, most_tokens=50_000)
    line = status_text(spending=spent)
    assert "│ $0.0123/$1.00 │ 12k/50k tokens │" in line
    assert "│ cost unknown/$1.00 │" in status_text(
        spending=SpendingStatus(cost_usd=None, most_cost_usd=1.0)
    )
    known = SpendingStatus(cost_usd=None, least_usd=0.0123)
    assert "│ $0.0123+ │" in status_text(spending=known), "at least"


@example(6, "", "\n")
@given(
    st.integers(4, 220),
    st.text(alphabet="ab/日本\x1b[31m\u202e", max_size=40),
    st.text(alphabet="m日 \n", max_size=40),
)
def test_status_line_fits_width_and_strips_control_characters(width: int, place: str, phase: str):
    line = status_text(
        width,
        place=place,
        phase=phase,
        face="(o o)",
        gauge=ContextGauge(used=9, window=0),
        queued=3,
    )
    assert cell_len(line) <= width
    assert not set(line) & set("\x1b\u202e\n")


def test_status_line_of_20_columns_shows_mode_state_and_queue():
    assert status_text(20, state="working", queued=2, face="(o o)") == "plan │ working │ q:2"


def test_faces_are_five_ascii_cells():
    looks = [look for several in FACES.values() for look in several]
    assert all(look.isascii() and len(look) == 5 for look in looks)
    assert [face("waiting", beat) for beat in (0, 1, 2)] == ["(- -)", "(_ _)", "(- -)"]


# -- on the screen


async def test_status_shows_current_wait_with_seconds(project: ScriptedProject):
    now, answer = [100.0], asyncio.Event()
    project.model.will(Reply(text="Here.", wait=answer.wait))
    async with running_app(project, clock=lambda: now[0]) as driver:
        await driver.send("hello")
        await driver.until(lambda: driver.app.chrome.activity.stage == "waiting")
        now[0] += 4
        driver.app.tick()
        await driver.until(lambda: "waiting for gpt-4o, 4 s" in driver.screen)
        assert driver.app.ticking
        driver.app.chrome.on_event(RetryNotice(attempt=1, delay_ms=3000, error="busy"))
        driver.app.refresh_status()
        await driver.until(lambda: "retry in 3 s" in driver.screen)
        now[0] += 5
        driver.app.tick()
        await driver.until(lambda: "waiting for gpt-4o, 2 s" in driver.screen)
        driver.app.chrome.on_event(CompactionStarted(tokens_before=9))
        now[0] += 60
        driver.app.chrome.on_event(CompactionStarted(tokens_before=9))
        now[0] += 2
        driver.app.tick()
        await driver.until(lambda: "compacting, 2 s" in driver.screen)
        answer.set()
        await driver.idle()
        await driver.until(lambda: "(^ ^)" in driver.screen and "ready" in driver.screen)


async def test_compaction_between_runs_keeps_face_idle(project: ScriptedProject):
    async with running_app(project) as driver:
        folded = ContextCompacted(
            tokens_before=9, tokens_after=1, first_kept_index=2, kind="summary"
        )
        driver.app.chrome.on_event(folded)
        driver.app.refresh_status()
        await driver.until(lambda: "(o o)" in driver.screen)


async def test_idle_app_has_no_timers_and_does_not_redraw(project: ScriptedProject):
    async with running_app(project, size=(200, 40)) as driver:
        await driver.send("hello")
        await driver.idle()
        await driver.until(lambda: driver.app.ticking is None)
        nodes = [driver.app, driver.app.screen, *driver.app.screen.walk_children()]
        assert [timer for node in nodes for timer in node._timers if timer._active.is_set()] == []
        before = driver.app.status.status
        driver.app.refresh_status()
        assert driver.app.status.status is before


async def test_backoff_ticks_once_a_second_and_redraws_only_new_numbers(
    project: ScriptedProject,
):
    now = [100.0]
    project.model.will_fail("slow down", kind="rate_limit").will_say("Here.")
    async with running_app(project, clock=lambda: now[0]) as driver:
        await driver.send("hello")
        await driver.until(lambda: "! Retrying in" in driver.screen and driver.app.ticking)
        nodes = [driver.app, driver.app.screen, *driver.app.screen.walk_children()]
        ticking = [t for node in nodes for t in node._timers if t._active.is_set()]
        assert sorted(timer._interval for timer in ticking) == [SPIN_S, 1.0]

        rows = driver.app.transcript.layout_of_blocks.rows
        [wait] = [row.block for row in rows if isinstance(row.block, RetryBlock)]
        before = wait.version
        driver.app.tick()
        assert wait.version == before
        await driver.until(lambda: "Here." in driver.text)


def test_idle_program_writes_nothing_to_terminal(home: Path):
    terminal = Terminal(cwd=home, HOME=str(home))
    terminal.read_until("ready")
    until(lambda: is_quiet(terminal))
    terminal.press("\x03\x03")
    assert terminal.finish() == 0


def is_quiet(terminal: Terminal) -> bool:
    """Whether nothing is drawn for longer than a clock's tick."""
    if not select.select([terminal.master], [], [], 1.3)[0]:
        return True
    os.read(terminal.master, 65_536)
    return False


@pytest.mark.parametrize(
    ("settings", "has_face"), [(UiSettings(), True), (UiSettings(avatar="none"), False)]
)
async def test_avatar_setting_hides_face(
    project: ScriptedProject, settings: UiSettings, has_face: bool
):
    async with running_app(project, prepare=lambda: settings) as driver:
        await driver.until(lambda: ("(o o)" in driver.screen) == has_face)
        assert "ready" in driver.screen


async def test_reduced_motion_stops_animated_face(project: ScriptedProject):
    project.model.will_call("bash", command=WAITING_COMMAND)
    settings = UiSettings(avatar="still")
    async with running_app(project, mode="yolo", prepare=lambda: settings) as driver:
        await driver.send("build it")
        await driver.until(lambda: "($_$)" in driver.screen)
        driver.app.tick()
        await driver.pilot.pause()
        assert "($_$)" in driver.screen
        driver.release_command()
        await driver.idle()


@pytest.fixture
def checkout(project: ScriptedProject) -> ScriptedProject:
    subprocess.run(["git", "init", "-qb", "main", str(project.folder)], check=True)
    return project


async def test_status_shows_new_branch_after_checkout(checkout: ScriptedProject):
    project = checkout
    project.model.will_call("bash", command="git checkout -qb other && " + WAITING_COMMAND)
    async with running_app(project, mode="yolo") as driver:
        assert "project:main" in driver.screen
        driver.release_command()
        await driver.send("go")
        await driver.until(lambda: "project:other" in driver.screen)
        await driver.idle()


async def test_status_shows_token_limit_of_run(project: ScriptedProject):
    project.model.will(Reply(text="Done.", usage=Usage(input=1000, output=200)))
    async with running_app(project) as driver:
        driver.conversation.settings.set_limit("output_tokens", 10_000)
        driver.conversation.settings.set_limit("tokens", 2_000)
        await driver.send("hello")
        await driver.idle()
        await driver.until(lambda: "1k/2k tokens" in driver.screen)


# -- notifications


@pytest.mark.parametrize(
    ("environment", "begins"),
    [
        ({"TERM": "xterm-kitty"}, "\x1b]99;;"),
        ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;"),
        ({"TERM": "foot"}, "\x1b]777;notify;"),
        ({"TERM": "xterm-256color"}, ""),
    ],
)
def test_notification_uses_sequence_of_terminal(environment: Any, begins: str):
    sequence = notification("dirge; \x1b]0;x\a", "done\n\u202enow", environment)
    assert sequence.startswith(begins)
    assert bool(sequence) == bool(begins)
    body = sequence.removeprefix(begins).removesuffix("\x1b\\")
    assert not set(body) & set("\x1b\a\n\u202e")


def test_tmux_passthrough_doubles_every_escape():
    assert passed_through("\x1b]9;x\x1b\\") == "\x1bPtmux;\x1b\x1b]9;x\x1b\x1b\\\x1b\\"


class Called:
    """A notifier with a terminal that records what it is sent."""

    def __init__(self, driver: AppDriver, kind: Any = "bell", **environment: str) -> None:
        self.notified: list[str] = []
        driver.app.notifier = Notifier(self.notified.append, ScreenPrograms(), environment)
        driver.app.notifier.kind = kind


async def test_long_run_notifies_only_unfocused_terminal(project: ScriptedProject):
    now, answers = [100.0], [asyncio.Event() for _ in range(3)]
    for answer in answers:
        project.model.will(Reply(text="Yes.", wait=answer.wait))
    async with running_app(project, clock=lambda: now[0]) as driver:
        called = Called(driver, "both", TERM="xterm-kitty")

        async def run(seconds: float) -> None:
            await driver.app.controller.submit("hello", "now")
            await driver.until(lambda: driver.app.chrome.activity.stage == "waiting")
            now[0] += seconds
            answers.pop(0).set()
            await driver.idle()

        await run(60)
        assert called.notified == []
        driver.app.post_message(AppBlur())
        await driver.until(lambda: not driver.app.app_focus)
        await run(2)
        assert called.notified == []
        await run(60)
        await driver.until(lambda: called.notified)
        assert called.notified == ["\x1b]99;;dirge project: done after 60 s\x1b\\\a"]
        driver.app.post_message(AppFocus())
        await driver.until(lambda: driver.app.app_focus)


async def test_question_rings_bell_in_unfocused_terminal(project: ScriptedProject):
    project.model.will_call("bash", command="touch x")
    async with running_app(project) as driver:
        called = Called(driver)
        driver.app.post_message(AppBlur())
        await driver.until(lambda: not driver.app.app_focus)
        await driver.app.controller.submit("go", "now")
        await driver.until(lambda: called.notified)
        assert called.notified == ["\a"]
        await driver.until(lambda: "(O!O)" in driver.screen)
        driver.app.controller.interrupt()
        await driver.idle()


async def test_tmux_without_passthrough_gets_bell(project: ScriptedProject):
    async with running_app(project) as driver:
        called = Called(driver, "desktop", TERM="xterm-kitty", TMUX="/nowhere/socket,1,0")
        await driver.app.notifier.call("dirge", "done")
        assert called.notified == ["\a"]


async def test_status_counts_pending_side_questions(
    project: ScriptedProject,
) -> None:
    gate = asyncio.Event()
    project.model.will(Reply(text="Because.", hold=gate.wait))
    async with running_app(project, size=(100, 24)) as driver:
        await driver.send("/btw why")
        await driver.until(lambda: "1 aside" in driver.screen)
        gate.set()
        await driver.until(lambda: "Because." in driver.text and "1 aside" not in driver.screen)


async def test_line_above_the_input_counts_seconds_and_tokens_of_a_run(project: ScriptedProject):
    now, answer = [100.0], asyncio.Event()
    project.model.will(Reply(text="word " * 700, hold=answer.wait))
    async with running_app(project, clock=lambda: now[0]) as driver:
        await driver.send("hello")
        await driver.until(lambda: "working · Esc to interrupt" in driver.screen)
        await driver.until(lambda: driver.app.chrome.activity.output_tokens == 1000)
        now[0] += 12
        driver.app.tick()
        await driver.until(lambda: "working 12 s · 1.0k tokens · Esc to interrupt" in driver.screen)
        answer.set()
        await driver.idle()
        assert "to interrupt" not in driver.screen


TITLE = "\x1b]2;"


def statuses(environment: dict[str, str], *states: tuple[str, str]) -> tuple[list[str], list[str]]:
    """What is sent for these states, and what would restore the terminal."""
    sent: list[str] = []
    at_end: list[str] = []
    status = TerminalStatus(sent.append, at_end.append, environment)
    for state, project in states:
        status.show(state, project)
    return sent, at_end


def test_title_names_project_and_state_and_is_sent_only_when_it_changes():
    states = [("ready", "shop"), ("working", "shop"), ("working", "shop"), ("asking", "shop")]
    sent, at_end = statuses({"TERM": "xterm-256color"}, *states)

    assert [text.partition(TITLE)[2] for text in sent] == [
        "dirge · shop\x1b\\",
        "● dirge · shop\x1b\\",
        "? dirge · shop\x1b\\",
    ]
    assert at_end[-1] == "\x1b]2;\x1b\\\x1b[23;2t"


def test_title_holds_no_escape_codes_of_a_folder():
    (sent,), _ = statuses({"TERM": "xterm"}, ("ready", "a\x1b]0;evil\x07\x9b31m\nb"))
    title = sent.partition(TITLE)[2].removesuffix("\x1b\\")

    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in title)


def test_progress_is_sent_to_terminals_that_show_it_and_removed_at_the_end():
    sent, at_end = statuses(
        {"TERM": "xterm", "TERM_PROGRAM": "ghostty"}, ("working", "p"), ("ready", "p")
    )

    assert "\x1b]9;4;3\x1b\\" in sent[0]
    assert "\x1b]9;4;0\x1b\\" in sent[1]
    assert "\x1b]9;4;0\x1b\\" in at_end[-1]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"WT_SESSION": "x"}, True),
        ({"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.6.6"}, True),
        ({"TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.5.0"}, False),
        ({"VTE_VERSION": "7900"}, True),
        ({"VTE_VERSION": "7900", "TMUX": "x"}, False),
        ({"TERM": "xterm-kitty"}, False),
    ],
)
def test_progress_is_sent_only_where_it_is_known_to_be_shown(
    environment: dict[str, str], expected: bool
):
    assert shows_progress(environment) is expected
