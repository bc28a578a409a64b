"""How it looks. Update on purpose only: `pytest tests/ui/test_snapshots.py --snapshot-update`."""

import asyncio
from typing import Any

import pytest
from textual.pilot import Pilot

from dirge_py.calls import Preview, text_result
from dirge_py.questions import AskedClaim, PermissionRequest
from tests.ui.desk import Desk
from tests.ui.fake import Play, Script
from tests.ui.test_transcript import SAMPLE

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -7,3 +7,3 @@\n def f():\n-    return 1\n+    return 2\n"


async def work(play: Play) -> None:
    play.say(SAMPLE, thinking="first this\nthen that")
    await play.tool("read", {"path": "x.py"}, "\n".join(f"{n}: line" for n in range(9)))
    await play.tool("edit", {"path": "x.py"}, text_result("ok", diff=DIFF, path="x.py"))
    failed = text_result("1 failed", outcome="failed_command", is_error=True, exit_code=1)
    await play.tool("bash", {"command": "pytest -q"}, failed)


async def hold(play: Play) -> None:
    await play.tool("bash", {"command": "make"}, "", gate=asyncio.Event().wait(), progress="cc a.c")


async def ask(play: Play) -> None:
    claim = AskedClaim(
        op="execute", resource="git push", effect="ask", policy="default", reason="no rule"
    )
    request = PermissionRequest(
        call_id="c",
        tool_name="bash",
        claims=(claim,),
        grant=("execute:git push",),
        preview=Preview(kind="command", text="git push"),
        cwd="/tmp/project",
    )
    await play.ask(request)


def shot(
    snap_compare: Any, script: Script, keys: str = "", theme: str = "dark", **size: Any
) -> bool:
    """Send `go`, wait until the script rests or waits, perhaps type, and compare."""
    made = Desk([script], {}, {"theme": theme}, [])

    async def before(pilot: Pilot[int]) -> None:
        made.pilot = pilot
        await made.until(lambda: made.opened)
        await made.send("go")
        waits = {"working": "cc a.c", "asking": "Allow bash?", "ready": "exit 1"}
        await made.until(lambda: (mark := waits.get(made.app.talk.state)) and mark in made.screen)
        if keys:
            await made.send("and hurry")
            await made.until(lambda: made.talk.queue)
            await made.type(keys)
        await pilot.pause()

    return bool(snap_compare(made.app, run_before=before, **size))


def test_a_finished_run(snap_compare: Any):
    assert shot(snap_compare, work, terminal_size=(90, 60))


@pytest.mark.parametrize("theme", ["light", "phosphor"])
def test_the_other_themes(snap_compare: Any, theme: str):
    assert shot(snap_compare, work, theme=theme, terminal_size=(70, 45))


def test_a_run_with_something_queued_and_a_draft(snap_compare: Any):
    assert shot(snap_compare, hold, keys="then", terminal_size=(80, 16))


def test_a_question(snap_compare: Any):
    assert shot(snap_compare, ask, terminal_size=(80, 20))


def test_a_question_on_the_smallest_screen(snap_compare: Any):
    assert shot(snap_compare, ask, terminal_size=(24, 6))
