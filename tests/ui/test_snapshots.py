"""How it looks. Update on purpose only: `pytest tests/ui/test_snapshots.py --snapshot-update`."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from dirge_py.calls import Preview
from dirge_py.providers.scripted import Reply
from dirge_py.questions import AskedClaim, PermissionRequest
from tests.conversation.room import Room
from tests.ui.desk import HELD, Desk
from tests.ui.test_transcript import SAMPLE

CHANGE = PermissionRequest(
    call_id="c",
    tool_name="edit",
    claims=(
        AskedClaim(
            op="edit",
            resource="/repo/.github/x.yml",
            effect="ask",
            policy="protected",
            reason="changes what runs elsewhere",
        ),
    ),
    grant=("edit:/repo/.github/x.yml",),
    preview=Preview(
        kind="diff",
        path="/repo/.github/x.yml",
        text="--- a/x\n+++ b/x\n@@ -7,3 +7,3 @@\n on:\n-  push\n+  pull_request\n",
    ),
)


@pytest.fixture
def finished(room: Room) -> Room:
    """A project and a run that reads, changes and fails in it."""
    # The words of gates have tests of their own.
    room.configure("[loop.gates]\nresume = 0\nverifier = 0\n")
    (room.project / "x.py").write_text("".join(f"line {n}\n" for n in range(9)))
    room.model.will(
        Reply(
            text=SAMPLE,
            thinking="first this\nthen that",
            calls=[("read", {"path": "x.py"})],
        )
    )
    room.model.will_call("edit", path="x.py", old_text="line 7", new_text="row 7")
    room.model.will_call("bash", command="echo 1 failed; false")
    room.model.will_say("That did not work.")
    return room


def shot(
    snap_compare: Any,
    room: Room,
    act: Callable[[Desk], Awaitable[object]],
    *,
    size: tuple[int, int],
    mode: Any = "yolo",
    theme: str = "dark",
) -> bool:
    made = Desk(room, mode=mode, theme=theme, clock=lambda: 0.0)

    async def before(pilot: Pilot[int]) -> None:
        made.pilot = pilot
        await made.until(lambda: made.app.talk.conversation)
        # The greeting tells the version, the status line what things cost: both have tests of
        # their own, and here every release or price would change the picture.
        made.app.transcript.clear()
        made.app.status.display = False
        await made.send("go")
        await act(made)
        await pilot.pause()

    return bool(snap_compare(made.app, run_before=before, terminal_size=size))


async def finish(d: Desk) -> None:
    await d.until(lambda: "That did not work." in d.text)
    await d.idle()


def test_a_finished_run(snap_compare: Any, finished: Room):
    assert shot(snap_compare, finished, finish, size=(90, 64))


@pytest.mark.parametrize("theme", ["light", "phosphor"])
def test_the_other_themes(snap_compare: Any, finished: Room, theme: str):
    assert shot(snap_compare, finished, finish, theme=theme, size=(70, 45))


def test_a_run_with_something_queued_and_a_draft(snap_compare: Any, room: Room):
    async def queue_and_type(d: Desk) -> None:
        await d.until(lambda: "\n   cc a.c" in d.screen)
        await d.send("and hurry")
        await d.until(lambda: d.talk.queued())
        await d.type("then")

    room.model.will_call("bash", command=HELD)
    assert shot(snap_compare, room, queue_and_type, size=(80, 16))


def test_a_question(snap_compare: Any, finished: Room):
    async def ask(d: Desk) -> None:
        await finish(d)
        d.ask(CHANGE)
        await d.asked()

    assert shot(snap_compare, finished, ask, size=(80, 24))


def test_a_question_on_the_smallest_screen(snap_compare: Any, room: Room):
    async def ask(d: Desk) -> None:
        await d.until(lambda: d.dialog and d.dialog.has_focus)

    room.model.will_call("bash", command="git push")
    assert shot(snap_compare, room, ask, mode="standard", size=(20, 5))
