"""SVG snapshots. To update: `pytest tests/ui/test_snapshots.py --snapshot-update`."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from dirge_py.providers.scripted import Reply
from dirge_py.types.events import ToolExecutionStart, ToolExecutionUpdate
from dirge_py.types.questions import (
    ActingFile,
    AskedClaim,
    PermissionRequest,
    RuleOffer,
    TrustOffer,
)
from dirge_py.types.tools import Preview, text_result
from dirge_py.ui import app
from dirge_py.ui.transcript import tool_block
from tests.support.app_driver import AppDriver
from tests.support.project import ScriptedProject
from tests.ui.test_hunk_view import GONE, X
from tests.ui.test_hunk_view import request as change_of
from tests.ui.test_question_form import BASE, SEVERAL, pose
from tests.ui.test_transcript import SAMPLE
from tests.ui.test_trust_dialog import ask as ask_for_trust

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
    offers=(RuleOffer(("edit:/repo/.github/x.yml",)),),
    preview=Preview(
        kind="diff",
        path="/repo/.github/x.yml",
        text="--- a/x\n+++ b/x\n@@ -7,3 +7,3 @@\n on:\n-  push\n+  pull_request\n",
    ),
)


@pytest.fixture
def finished(project: ScriptedProject) -> ScriptedProject:
    """A project, and a run that reads, changes and fails in it."""
    # Gate messages have their own tests.
    project.configure("[loop.gates]\nresume = 0\nverifier = 0\n")
    (project.folder / "x.py").write_text("".join(f"line {n}\n" for n in range(9)))
    project.model.will(
        Reply(
            text=SAMPLE,
            thinking="first this\nthen that",
            calls=[("read", {"path": "x.py"})],
        )
    )
    project.model.will_call("edit", path="x.py", old_text="line 7", new_text="row 7")
    project.model.will_call("bash", command="echo 1 failed; false")
    project.model.will_say("That did not work.")
    return project


def shot(
    snap_compare: Any,
    project: ScriptedProject,
    act: Callable[[AppDriver], Awaitable[object]],
    *,
    size: tuple[int, int],
    mode: Any = "yolo",
    theme: str = "dark",
) -> bool:
    made = AppDriver(project, mode=mode, theme=theme, clock=lambda: 0.0)
    project.model.will_say("Done.")

    async def before(pilot: Pilot[int]) -> None:
        made.pilot = pilot
        await made.until(lambda: made.app.controller.conversation)
        # The greeting shows the version and the status line the cost. Both have their own
        # tests, and here every release or price change would change the snapshot.
        made.app.transcript.clear()
        made.app.status.display = False
        await made.send("go")
        await act(made)
        await pilot.pause()

    return bool(snap_compare(made.app, run_before=before, terminal_size=size))


@pytest.fixture(autouse=True)
def _no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides durations, which depend on the load of the machine."""
    monkeypatch.setattr(tool_block, "SHOW_TIME_FROM_MS", 1_000_000)
    monkeypatch.setattr(app, "TICK_S", 1_000_000)


async def finish(driver: AppDriver) -> None:
    await driver.until(lambda: "That did not work." in driver.text)
    await driver.idle()


def test_finished_run_matches_snapshot(snap_compare: Any, finished: ScriptedProject):
    assert shot(snap_compare, finished, finish, size=(90, 64))


def test_question_on_smallest_screen_matches_snapshot(snap_compare: Any, project: ScriptedProject):
    async def ask(driver: AppDriver) -> None:
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)

    project.model.will_call("bash", command="git push")
    assert shot(snap_compare, project, ask, mode="standard", size=(20, 5))


def test_several_questions_match_snapshot(snap_compare: Any, project: ScriptedProject):
    async def ask(driver: AppDriver) -> None:
        await driver.idle()
        push = replace(
            CHANGE,
            tool_name="bash",
            preview=Preview(kind="command", text="git push --force"),
            offers=(
                RuleOffer(("execute:git push --force",)),
                RuleOffer(("execute:git push *",)),
            ),
            can_keep=True,
            warning="overwrites what others have pushed",
        )
        driver.ask(CHANGE, push, change_of(X, GONE))
        await driver.asked()
        await driver.pilot.press("y", "enter")
        await driver.until(lambda: "2 of 3" in driver.screen)
        await driver.asked()
        await driver.pilot.press("tab")
        await driver.until(lambda: "git push *" in driver.screen)

    assert shot(snap_compare, project, ask, size=(90, 24))


def test_hunk_view_matches_snapshot(snap_compare: Any, project: ScriptedProject):
    async def choose(driver: AppDriver) -> None:
        await driver.idle()
        driver.ask(change_of(X, GONE))
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        await driver.pilot.press("end", "h", "enter", "down", "n", "enter")
        await driver.until(lambda: "accept 3 of 4" in driver.screen)

    assert shot(snap_compare, project, choose, size=(80, 44))


@pytest.mark.parametrize("size", [(80, 20), (40, 12)])
def test_form_matches_snapshot(snap_compare: Any, project: ScriptedProject, size: tuple[int, int]):
    async def ask(driver: AppDriver) -> None:
        await driver.idle()
        form = pose(driver, BASE, SEVERAL)
        await driver.until(lambda: "1 of 2" in driver.screen)
        await driver.pilot.press("2", "enter")
        await driver.until(lambda: "2 of 2" in driver.screen)
        await driver.pilot.press("down", "space", "down")
        await driver.until(lambda: "[✓] Linux" in driver.screen)
        assert not form.done()

    assert shot(snap_compare, project, ask, size=size)


def test_trust_question_matches_snapshot(snap_compare: Any, project: ScriptedProject):
    def file(path: str, kind: str, state: Any) -> ActingFile:
        return ActingFile(path=path, kind=kind, size=1234, sha256="0123456789abcdef", state=state)

    async def ask(driver: AppDriver) -> None:
        await driver.idle()
        files = (
            file(".dirge/config.toml", "settings", "changed"),
            file(".dirge/plugins/format\u202eyp.py", "plugin", "new"),
            file(".dirge/prompts/review.md", "prompt", "trusted"),
        )
        offer = TrustOffer(project="/home/me/project", files=files, digest="d")
        question = ask_for_trust(driver, offer)
        await driver.until(lambda: "select, then" in driver.screen)
        assert not question.done()

    assert shot(snap_compare, project, ask, size=(80, 18))


def test_running_calls_match_snapshot(snap_compare: Any, project: ScriptedProject):
    async def run(driver: AppDriver) -> None:
        await driver.idle()
        for name, details in (("bash", {"quiet_s": 75}), ("index", {"done": 3, "total": 8})):
            call = {"tool_call_id": name, "tool_name": name}
            start = ToolExecutionStart(args={"command": "make all"}, **call)
            result = text_result("cc a.c\ncc b.c", **details)
            update = ToolExecutionUpdate(args={}, partial_result=result, **call)
            driver.app.feed.renderer.on_event(start)
            driver.app.feed.renderer.on_event(update)
        driver.app.transcript.redraw()
        await driver.until(lambda: "3/8" in driver.screen)

    assert shot(snap_compare, project, run, size=(80, 18))
