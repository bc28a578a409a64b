"""How each state of the screen looks, in three sizes and three looks.

Update on purpose only: `pytest tests/ui/test_pictures.py --snapshot-update`, and look at them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion

from dirge_py.permission.rules import Mode
from dirge_py.providers.scripted import Reply
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import PlanPhase
from dirge_py.types.messages import Usage
from dirge_py.types.questions import AskedClaim, PermissionRequest
from dirge_py.types.tools import Preview
from dirge_py.ui import session_opener
from dirge_py.ui.options import UiSettings
from dirge_py.ui.transcript import tool_block
from tests.conversation.room import Room
from tests.ui.running_app import HELD, RunningApp, running_app
from tests.ui.test_hunk_view import GONE, X
from tests.ui.test_hunk_view import request as change_of
from tests.ui.test_transcript import SAMPLE

SIZES = ((80, 24), (120, 40), (200, 50))
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
    grant=("execute:git push --force origin main",),
    wider=("execute:git push *",),
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
    """What happens before the picture is taken. `prepare` is told to the model before the start."""

    act: Callable[[RunningApp], Awaitable[object]]
    prepare: Callable[[Room], object] = lambda room: None
    mode: Mode = "yolo"


async def nothing(d: RunningApp) -> None:
    await d.idle()


async def finished(d: RunningApp) -> None:
    await d.send("Why is the total wrong?")
    await d.until(lambda: "That was all." in d.text)
    await d.idle()


def answers(room: Room) -> None:
    (room.project / "shop.py").write_text(PROGRAM)
    room.model.will(
        Reply(
            text=SAMPLE,
            thinking="first this\nthen that",
            calls=[("read", {"path": "shop.py"})],
            usage=USAGE,
        )
    )
    room.model.will(
        Reply(
            calls=[("edit", {"path": "shop.py", "old_text": PROGRAM, "new_text": BETTER})],
            usage=USAGE,
        )
    )
    room.model.will(Reply(calls=[("bash", {"command": "echo 1 failed; false"})], usage=USAGE))
    room.model.will(Reply(text="That was all.", usage=USAGE))


async def streams(d: RunningApp) -> None:
    await d.send("Tell me.")
    await d.until(lambda: "x │ 10" in d.screen or "quoted" in d.screen)


def streams_and_stops(room: Room) -> None:
    gate = asyncio.Event()
    room.model.will(Reply(text=SAMPLE, thinking="first this", hold=gate, usage=USAGE))


async def runs(d: RunningApp) -> None:
    await d.send("Build it.")
    await d.until(lambda: "\n   cc a.c" in d.screen or "   cc a.c" in d.screen)


async def waits(d: RunningApp) -> None:
    await runs(d)
    await d.send("and hurry")
    await d.until(lambda: d.conversation.queued())
    d.app.composer.put("then test it")
    await d.pilot.press("tab")
    await d.until(lambda: len(d.conversation.queued()) == 2)
    await d.type("more")


async def asks(d: RunningApp) -> None:
    await finished(d)
    d.ask(PUSH, change_of(X, GONE))
    await d.asked()


async def chooses(d: RunningApp) -> None:
    await finished(d)
    d.ask(change_of(X, GONE))
    await d.until(lambda: d.dialog and d.dialog.has_focus)
    await d.pilot.press("end", "h", "enter", "down")
    await d.until(lambda: "take 4 of 4" in d.screen)
    await d.pilot.press("n", "enter")
    await d.until(lambda: "take 3 of 4" in d.screen)


async def plans(d: RunningApp) -> None:
    await finished(d)
    d.app.renderer.on_event(PlanPhase(phase="explore", step=1, state="started"))
    d.app.renderer.notice("Looked at 4 files.")
    d.app.renderer.on_event(
        PlanPhase(
            phase="explore", step=1, state="ended", summary="Prices are summed without counts."
        )
    )
    d.app.renderer.on_event(PlanPhase(phase="plan", step=1, state="started"))
    d.app.transcript.redraw()


async def fails(d: RunningApp) -> None:
    await d.send("Go on.")
    await d.until(lambda: "ran out" in d.text)
    await d.idle()


def refuses(room: Room) -> None:
    room.model.will(
        Reply(error=ProviderError("the key ran out.", kind="auth", hint="Set OPENAI_API_KEY."))
    )


async def resumes(d: RunningApp) -> None:
    await finished(d)
    d.conversation.settings.set_mode("standard")
    left = d.conversation.session_id
    await d.app.session_opener.switch_to(None)
    await d.app.session_opener.switch_to(left)
    await d.until(lambda: "Back in this session" in d.text)
    await d.idle()


async def finds(d: RunningApp) -> None:
    await finished(d)
    await d.pilot.press("ctrl+f")
    for letter in "total":
        await d.type(letter)
        # Where a search begins depends on where the one before it has led.
        await d.until(lambda: all(w.is_finished for w in d.app.workers if w.node is d.app.find_bar))
    assert "2 of 4" in d.screen


STATES = {
    "start": State(nothing),
    "streaming": State(streams, streams_and_stops),
    "tool running": State(runs, lambda room: room.model.will_call("bash", command=HELD)),
    "diff": State(finished, answers),
    "permission": State(asks, answers),
    "hunks": State(chooses, answers),
    "queued": State(waits, lambda room: room.model.will_call("bash", command=HELD)),
    "phase": State(plans, answers),
    "error": State(fails, refuses),
    "resume": State(resumes, answers),
    "search": State(finds, answers),
}


@pytest.fixture(autouse=True)
def _the_same_everywhere(monkeypatch: pytest.MonkeyPatch, room: Room) -> None:
    """Nothing of the machine, the version or the time is in the pictures."""
    monkeypatch.setattr(tool_block, "SHOW_TIME_FROM_MS", 1_000_000)
    monkeypatch.setattr(session_opener, "__version__", "1.2.3")
    monkeypatch.setenv("HOME", str(room.project.parent))
    # The words of gates have tests of their own.
    room.configure("[loop.gates]\nresume = 0\nverifier = 0\n")


def still() -> UiSettings:
    """A face that moves would have another look in each picture."""
    return UiSettings(reduced_motion=True)


async def shots(d: RunningApp, theme: str) -> Iterator[tuple[str, str]]:
    found = []
    for width, height in SIZES:
        await d.pilot.resize_terminal(width, height)
        await d.until(lambda: d.knows_git)
        found.append((f"{theme} {width}x{height}", d.app.export_screenshot(title="dirge")))
    return iter(found)


@pytest.mark.parametrize("state", STATES)
async def test_in_color(snapshot: SnapshotAssertion, room: Room, state: str) -> None:
    pictures = snapshot.use_extension(SVGImageExtension)
    what = STATES[state]
    what.prepare(room)
    async with running_app(
        room, size=SIZES[0], mode=what.mode, clock=lambda: 0.0, prepare=still
    ) as d:
        await what.act(d)
        taken = [*await shots(d, "phosphor")]
        d.app.set_colors("light")
        taken += [*await shots(d, "light")]

    assert [name for name, shot in taken if pictures(name=name) != shot] == []


@pytest.mark.parametrize("state", STATES)
async def test_without_color(
    snapshot: SnapshotAssertion, room: Room, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = snapshot.use_extension(SVGImageExtension)
    what = STATES[state]
    what.prepare(room)
    monkeypatch.setenv("NO_COLOR", "1")
    async with running_app(
        room, size=SIZES[0], mode=what.mode, clock=lambda: 0.0, prepare=still, no_color=True
    ) as d:
        await what.act(d)
        taken = [*await shots(d, "none")]

    assert [name for name, shot in taken if pictures(name=name) != shot] == []
