"""Each state of the screen in several sizes, dark, light and without colours.

Update on purpose only: `pytest tests/ui/test_screens.py --snapshot-update`, and look at them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion

from dirge_py.permission.rules import Mode
from dirge_py.providers.scripted import Reply
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import PlanPhase
from dirge_py.types.messages import Usage
from dirge_py.types.questions import AskedClaim, PermissionRequest, RuleOffer
from dirge_py.types.tools import Preview
from dirge_py.ui import app, session_opener
from dirge_py.ui.options import UiSettings
from dirge_py.ui.transcript import tool_block
from tests.support.app_driver import WAITING_COMMAND, AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.ui.test_hunk_view import GONE, X
from tests.ui.test_hunk_view import request as change_of
from tests.ui.test_transcript import SAMPLE

SIZES = ((80, 24), (60, 20), (120, 40), (200, 50))
USUAL_SIZES = ((80, 24), (120, 40))
USAGE = Usage(input=12_300, output=420, cache_read=9_000)
PUSH = PermissionRequest(
    call_id="c",
    tool_name="bash",
    claims=(
        AskedClaim(
            op="execute",
            resource="git push --force origin main",
            effect="ask",
            policy="mode",
            reason="no rule allows it",
        ),
    ),
    offers=(
        RuleOffer(("execute:git push --force origin main",)),
        RuleOffer(("execute:git push *",)),
    ),
    can_keep=True,
    preview=Preview(kind="command", text="git push --force origin main"),
)
PROGRAM = """\
def total(items):
    sum = 0
    for item in items:
        sum += item["price"]
    return sum
"""
BETTER = 'def total(items):\n    return sum(item["price"] * item["count"] for item in items)\n'


@dataclass(frozen=True)
class State:
    """The steps before a picture. `prepare` scripts the model before the start."""

    act: Callable[[AppDriver], Awaitable[object]]
    prepare: Callable[[ScriptedProject], object] = lambda project: None
    mode: Mode = "yolo"


async def nothing(driver: AppDriver) -> None:
    await driver.idle()


async def finished(driver: AppDriver) -> None:
    await driver.send("Why is the total wrong?")
    await driver.until(lambda: "That was all." in driver.text)
    await driver.idle()


def answers(project: ScriptedProject) -> None:
    (project.folder / "shop.py").write_text(PROGRAM)
    project.model.will(
        Reply(
            text=SAMPLE,
            thinking="first this\nthen that",
            calls=[("read", {"path": "shop.py"})],
            usage=USAGE,
        )
    )
    project.model.will(
        Reply(
            calls=[("edit", {"path": "shop.py", "old_text": PROGRAM, "new_text": BETTER})],
            usage=USAGE,
        )
    )
    project.model.will(Reply(calls=[("bash", {"command": "echo 1 failed; false"})], usage=USAGE))
    project.model.will(Reply(text="That was all.", usage=USAGE))


async def streams(driver: AppDriver) -> None:
    await driver.send("Tell me.")
    await driver.until(lambda: "x │ 10" in driver.screen or "quoted" in driver.screen)


def streams_and_stops(project: ScriptedProject) -> None:
    gate = asyncio.Event()
    project.model.will(Reply(text=SAMPLE, thinking="first this", hold=gate.wait, usage=USAGE))


async def runs(driver: AppDriver) -> None:
    await driver.send("Build it.")
    await driver.until(lambda: "\n   cc a.c" in driver.screen or "   cc a.c" in driver.screen)


async def waits(driver: AppDriver) -> None:
    await runs(driver)
    await driver.send("and hurry")
    await driver.until(lambda: driver.conversation.queued())
    driver.app.composer.put("then test it")
    await driver.pilot.press("tab")
    await driver.until(lambda: len(driver.conversation.queued()) == 2)
    await driver.type("more")


async def asks(driver: AppDriver) -> None:
    await finished(driver)
    driver.ask(PUSH, change_of(X, GONE))
    await driver.asked()


async def chooses(driver: AppDriver) -> None:
    await finished(driver)
    driver.ask(change_of(X, GONE))
    await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
    await driver.pilot.press("end", "h", "enter", "down")
    await driver.until(lambda: "accept 4 of 4" in driver.screen)
    await driver.pilot.press("n", "enter")
    await driver.until(lambda: "accept 3 of 4" in driver.screen)


async def plans(driver: AppDriver) -> None:
    await finished(driver)
    driver.app.feed.renderer.on_event(PlanPhase(phase="explore", step=1, state="started"))
    driver.app.feed.renderer.notice("Looked at 4 files.")
    driver.app.feed.renderer.on_event(
        PlanPhase(
            phase="explore", step=1, state="ended", summary="Prices are summed without counts."
        )
    )
    driver.app.feed.renderer.on_event(PlanPhase(phase="plan", step=1, state="started"))
    driver.app.transcript.redraw()


async def fails(driver: AppDriver) -> None:
    await driver.send("Go on.")
    await driver.until(lambda: "ran out" in driver.text)
    await driver.idle()


def refuses(project: ScriptedProject) -> None:
    project.model.will(
        Reply(error=ProviderError("the key ran out.", kind="auth", hint="Set OPENAI_API_KEY."))
    )


async def resumes(driver: AppDriver) -> None:
    await finished(driver)
    driver.conversation.settings.set_mode("standard")
    left = driver.conversation.session_id
    await driver.app.session_opener.switch_to(None)
    await driver.app.session_opener.switch_to(left)
    await driver.until(lambda: "Resumed this session" in driver.text)
    await driver.idle()


async def finds(driver: AppDriver) -> None:
    await finished(driver)
    await driver.pilot.press("ctrl+f")
    for letter in "total":
        await driver.type(letter)
        # A search starts at the match of the previous one.
        await driver.until(
            lambda: all(w.is_finished for w in driver.app.workers if w.node is driver.app.find_bar)
        )
    assert "3 of 4" in driver.screen


async def lists_sessions(driver: AppDriver) -> None:
    for prompt in ("fix the rounding error", "why is CI red?", "write the docs of every parameter"):
        async with driver.project.open() as conversation:
            await conversation.send(prompt)
    await driver.send("/sessions")
    await driver.until(lambda: driver.app.picker.has_focus)
    await driver.pilot.press("down")


async def completes(driver: AppDriver) -> None:
    await driver.idle()
    await driver.type("/co")
    await driver.until(lambda: driver.app.proposals.is_open)
    await driver.pilot.press("down")


async def rewinds(driver: AppDriver) -> None:
    for prompt in ("fix the rounding error", "now write a test"):
        sent = len(driver.sent)
        await driver.send(prompt)
        await driver.until(lambda sent=sent: len(driver.sent) > sent)
        await driver.idle()
    await driver.send("/rewind 2")
    await driver.until(lambda: driver.panel and driver.panel.has_focus and driver.panel.is_open)
    await driver.pilot.press("down")


ONLY_DARK = {
    "sessions": State(lists_sessions),
    "completion": State(completes),
    "rewind": State(rewinds),
}
"""States that other colours and sizes show nothing new about."""
STATES = {
    "start": State(nothing),
    "streaming": State(streams, streams_and_stops),
    "tool running": State(
        runs, lambda project: project.model.will_call("bash", command=WAITING_COMMAND)
    ),
    "diff": State(finished, answers),
    "permission": State(asks, answers),
    "hunks": State(chooses, answers),
    "queued": State(
        waits, lambda project: project.model.will_call("bash", command=WAITING_COMMAND)
    ),
    "phase": State(plans, answers),
    "error": State(fails, refuses),
    "resume": State(resumes, answers),
    "search": State(finds, answers),
}


@pytest.fixture(autouse=True)
def _the_same_everywhere(monkeypatch: pytest.MonkeyPatch, project: ScriptedProject) -> None:
    """Removes machine, version and time from the pictures."""
    monkeypatch.setattr(tool_block, "SHOW_TIME_FROM_MS", 1_000_000)
    monkeypatch.setattr(session_opener, "__version__", "1.2.3")
    monkeypatch.setattr(app, "TICK_S", 1_000_000)
    monkeypatch.setenv("HOME", str(project.folder.parent))
    # Gate messages have their own tests.
    project.configure("[loop.gates]\nresume = 0\nverifier = 0\n")


def still() -> UiSettings:
    """Stops the animated face."""
    return UiSettings(avatar="still")


async def shots(
    driver: AppDriver, theme: str, sizes: Sequence[tuple[int, int]] = SIZES
) -> Iterator[tuple[str, str]]:
    found = []
    for width, height in sizes:
        await driver.pilot.resize_terminal(width, height)
        await driver.until(lambda: driver.knows_git)
        found.append((f"{theme} {width}x{height}", driver.app.export_screenshot(title="dirge")))
    return iter(found)


@pytest.mark.parametrize("state", STATES)
async def test_screen_in_color_matches_snapshot(
    snapshot: SnapshotAssertion, project: ScriptedProject, state: str
) -> None:
    pictures = snapshot.use_extension(SVGImageExtension)
    what = STATES[state]
    what.prepare(project)
    async with running_app(
        project, size=SIZES[0], mode=what.mode, clock=lambda: 0.0, prepare=still
    ) as driver:
        await what.act(driver)
        taken = [*await shots(driver, "dark")]
        driver.app.set_colors("light")
        taken += [*await shots(driver, "light")]

    assert [name for name, shot in taken if pictures(name=name) != shot] == []


@pytest.mark.parametrize("state", ONLY_DARK)
async def test_list_matches_snapshot(
    snapshot: SnapshotAssertion, project: ScriptedProject, state: str
) -> None:
    pictures = snapshot.use_extension(SVGImageExtension)
    async with running_app(
        project, size=SIZES[0], mode="yolo", clock=lambda: 0.0, prepare=still
    ) as driver:
        await ONLY_DARK[state].act(driver)
        [(name, shot)] = await shots(driver, "dark", SIZES[:1])

    assert pictures(name=name) == shot


@pytest.mark.parametrize("state", STATES)
async def test_screen_without_color_matches_snapshot(
    snapshot: SnapshotAssertion,
    project: ScriptedProject,
    state: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pictures = snapshot.use_extension(SVGImageExtension)
    what = STATES[state]
    what.prepare(project)
    monkeypatch.setenv("NO_COLOR", "1")
    async with running_app(
        project, size=SIZES[0], mode=what.mode, clock=lambda: 0.0, prepare=still, no_color=True
    ) as driver:
        await what.act(driver)
        taken = [*await shots(driver, "none", USUAL_SIZES)]

    assert [name for name, shot in taken if pictures(name=name) != shot] == []
