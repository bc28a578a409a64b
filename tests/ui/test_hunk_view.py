"""Accepting a change in part, or an edited one."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.drivers.headless_driver import HeadlessDriver

from dirge_py.types.questions import AskedClaim, PermissionAnswer, PermissionRequest, RuleOffer
from dirge_py.types.tools import FileChange, Preview
from dirge_py.ui.panels.hunk_view import ChangeSelection, HunkView, paint_files
from tests.support.app_driver import AppDriver, running_app
from tests.support.project import ScriptedProject
from tests.ui.test_permission import STYLES

BEFORE = "".join(f"line {n}\r\n" for n in range(1, 31))
AFTER = BEFORE.replace("line 3\r", "row 3\r").replace("line 20\r", "row 20\r") + "last"
FIRST_ONLY = BEFORE.replace("line 3\r", "row 3\r")
X = FileChange(path="/p/x.py", before=BEFORE, after=AFTER, before_sha256="x")
NEW = FileChange(path="/p/new.py", before=None, after="a\nb\n")
GONE = FileChange(path="/p/gone.py", before="g\n", after=None, before_sha256="g")


def request(*changes: FileChange) -> PermissionRequest:
    return PermissionRequest(
        call_id="c",
        tool_name="apply_patch",
        claims=(
            AskedClaim(op="edit", resource="/p", effect="ask", policy="default", reason="asks"),
        ),
        offers=(RuleOffer(("edit:/p/*",)),),
        preview=Preview(kind="diff", text="shortened", path="/p/x.py", changes=changes),
    )


def allowed(*changes: FileChange) -> PermissionAnswer:
    return PermissionAnswer(effect="allow", changes=changes or None)


async def choosing(driver: AppDriver) -> None:
    await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
    await driver.pilot.press("end")
    await driver.asked()
    await driver.pilot.press("h", "enter")
    await driver.until(lambda: any(view.is_mounted for view in driver.app.query(HunkView)))


async def test_permission_question_shows_complete_diff_of_every_file(project: ScriptedProject):
    async with running_app(project, size=(80, 60)) as driver:
        driver.ask(request(X, NEW, GONE))
        await driver.asked()
        for line in (
            " 3 -line 3",
            " 3 +row 3",
            "20 +row 20",
            "/p/new.py  new file",
            "1 +a",
            "1 -g",
        ):
            assert line in driver.screen
        assert "U+000D" not in driver.screen
        assert "shortened" not in driver.screen


def test_moved_file_is_one_entry_with_its_hunks():
    old = FileChange(path="/p/old", before=BEFORE, after=None, before_sha256="o")
    new = FileChange(path="/p/new", before=None, after=AFTER, moved_from="/p/old")
    moved = ChangeSelection((GONE, old, new))

    assert [(file.path, file.count, file.is_new) for file in moved.files] == [
        ("/p/gone.py", 1, False),
        ("/p/new", 3, False),
    ]
    assert painted(moved).startswith("/p/gone.py  removed\n1 -g\n/p/old → /p/new\n 1  line 1\n")
    assert moved.outcome() is None

    moved.at = 1
    moved.mark(accepted=False)
    assert moved.outcome() == (replace(new, after=AFTER.replace("row 3\r", "line 3\r")),)

    for moved.at in (1, 2, 3):
        moved.mark(accepted=False)
    assert moved.outcome() == (replace(new, after=None),)


def test_pure_move_can_be_rejected():
    old = FileChange(path="/p/old", before="x\n", after=None, before_sha256="o")
    new = FileChange(path="/p/new", before=None, after="x\n", moved_from="/p/old")
    moved = ChangeSelection((old, new))

    assert painted(moved) == "/p/old → /p/new\n  only moved"
    moved.mark(accepted=False)
    assert moved.outcome() == (replace(new, after=None),)


def painted(selection: ChangeSelection) -> str:
    return "\n".join(line.text.rstrip() for line in paint_files(selection.files, 60, STYLES))


TAKEN: list[tuple[list[int], PermissionAnswer]] = [
    ([], allowed()),
    ([1, 2], allowed(replace(X, after=FIRST_ONLY))),
    ([0, 1, 2], allowed(replace(X, after=None))),
    ([0, 1, 2, 3], allowed(replace(X, after=None), replace(NEW, after=None))),
    ([4], allowed(replace(GONE, after=None))),
]


@pytest.mark.parametrize(("refused", "answer"), TAKEN)
def test_selection_outcome_lists_only_changed_files(refused: list[int], answer: PermissionAnswer):
    selection = ChangeSelection((X, NEW, GONE))
    for number in refused:
        selection.at = number
        selection.mark(accepted=False)
    assert selection.outcome() == answer.changes
    selection.reset_all()
    assert selection.outcome() is None


def test_hunk_of_edited_text_can_be_rejected():
    selection = ChangeSelection((X,))
    selection.files[0].edit(AFTER.replace("row 3\r", "my 3\r"))
    selection.at = 1
    selection.mark()
    wrote = AFTER.replace("row 3\r", "my 3\r").replace("row 20\r", "line 20\r")
    assert selection.outcome() == (replace(X, after=wrote),)


def test_empty_new_file_is_one_hunk():
    selection = ChangeSelection((FileChange(path="/p/e", before=None, after=""),))
    assert (selection.accepted, selection.outcome()) == (1, None)


KEYS = [
    (["enter", "down", "enter"], allowed()),
    (
        ["down", "down", "space", "down", "space", "enter"],
        allowed(replace(X, after=FIRST_ONLY)),
    ),
    (["down", *["n", "enter"] * 5, "enter"], PermissionAnswer(effect="deny")),
    (["down", "n", "enter", "escape", "y", "enter"], allowed()),
]


async def test_answer_contains_exactly_accepted_hunks(project: ScriptedProject):
    async with running_app(project, size=(80, 60)) as driver:
        for keys, answer in KEYS:
            question = driver.ask(request(X, NEW, GONE))
            await choosing(driver)
            await driver.pilot.press(*keys)
            assert (keys, await question) == (keys, [answer])
            await driver.until(lambda: driver.dialog is None and driver.app.composer.has_focus)


async def test_hunk_cursor_stays_in_view(project: ScriptedProject):
    async with running_app(project, size=(60, 14)) as driver:
        driver.ask(request(X))
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        await driver.pilot.press("h", "enter")
        await driver.pilot.press("down", "down")
        await driver.until(lambda: "▸ [✓] 2 of 3" in driver.screen)
        await driver.pilot.press("n", "enter")
        await driver.until(lambda: "▸ [✓] 3 of 3" in driver.screen)


async def test_hunks_can_be_confirmed_only_after_scrolling_to_end(project: ScriptedProject):
    async with running_app(project, size=(60, 14)) as driver:
        question = driver.ask(request(X))
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        await driver.pilot.press("h", "enter", "down", "enter")
        await driver.until(lambda: "read to the end to accept" in driver.screen)
        assert not question.done()
        await driver.pilot.press("down", "down", "down")
        await driver.until(lambda: "accept 3 of 3" in driver.screen)
        await driver.pilot.press("enter")
        assert await question == [allowed()]


async def test_esc_and_ctrl_c_in_hunk_view_return_to_question(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(request(X))
        await choosing(driver)
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        assert not question.done()
        await choosing(driver)
        await driver.pilot.press("ctrl+c")
        await driver.until(lambda: driver.dialog and driver.dialog.has_focus)
        assert not question.done()


async def test_hunks_cannot_be_chosen_without_file_changes(project: ScriptedProject):
    async with running_app(project) as driver:
        driver.ask(request())
        await driver.asked()
        assert "choose hunks" not in driver.screen
        await driver.pilot.press("h", "enter")
        assert not driver.app.query(HunkView)


async def test_aborted_question_removes_hunk_view(project: ScriptedProject):
    async with running_app(project) as driver:
        question = driver.ask(request(X))
        await choosing(driver)
        question.cancel()
        await driver.until(lambda: driver.dialog is None)
        assert not driver.app.query(HunkView)
        assert driver.app.composer.has_focus


# -- with an editor


@pytest.fixture
def hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that can be handed to another program."""
    monkeypatch.setattr(HeadlessDriver, "can_suspend", True)


@pytest.fixture
def edits_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Set an editor that runs Python code on `path`; returns its log."""
    log = tmp_path / "log"

    def use(code: str) -> Path:
        script = tmp_path / "editor.py"
        script.write_text(
            "import os, sys, pathlib\n"
            "path = pathlib.Path(sys.argv[1])\n"
            "mode = os.stat(path).st_mode & 0o777\n"
            f"pathlib.Path({str(log)!r}).write_text(f'{{mode:o}} {{path}}')\n" + code
        )
        monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
        return log

    return use


async def test_text_edited_by_user_is_kept_byte_for_byte(
    project: ScriptedProject, edits_with: Callable[[str], Path], hands_over: None
):
    log = edits_with("path.write_bytes(path.read_bytes().replace(b'row 3', b'my 3') + b'\\r\\n')")
    async with running_app(project) as driver:
        question = driver.ask(request(X))
        await choosing(driver)
        await driver.pilot.press("down", "e", "enter")
        await driver.until(lambda: "my 3" in driver.screen)
        await driver.pilot.press("enter")
        wrote = AFTER.replace("row 3", "my 3") + "\r\n"
        assert await question == [allowed(replace(X, after=wrote))]
    mode, _, draft = log.read_text().partition(" ")
    assert mode == "600"
    assert draft.endswith(".py")
    assert not os.path.exists(draft)


async def test_editor_gets_only_accepted_hunks(
    project: ScriptedProject, edits_with: Callable[[str], Path], hands_over: None
):
    edits_with("path.write_bytes(path.read_bytes() + b'mine')")
    async with running_app(project) as driver:
        question = driver.ask(request(X))
        await choosing(driver)
        await driver.pilot.press("down", "y", "enter", *["n", "enter"] * 2, "e", "enter")
        await driver.until(lambda: "+mine" in driver.screen)
        await driver.pilot.press("enter")
        assert await question == [allowed(replace(X, after=FIRST_ONLY + "mine"))]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("sys.exit(3)", "ended with exit code 3. Nothing was changed."),
        ("path.write_bytes(b'\\xff')", "not UTF-8"),
        ("path.unlink()", "cannot be read"),
    ],
)
async def test_failing_editor_changes_nothing(
    project: ScriptedProject,
    edits_with: Callable[[str], Path],
    hands_over: None,
    code: str,
    expected: str,
):
    edits_with(code)
    async with running_app(project) as driver:
        question = driver.ask(request(X))
        await choosing(driver)
        await driver.pilot.press("down", "e", "enter")
        await driver.until(lambda: expected in " ".join(driver.screen.split()))
        await driver.pilot.press("enter")
        assert await question == [allowed()]


# -- with the engine


async def test_only_accepted_hunks_of_edit_are_written(project: ScriptedProject):
    lines = [f"line {n}\n" for n in range(30)]
    (project.folder / "x.py").write_text("".join(lines))
    edited = "".join(lines).replace("line 3\n", "row 3\n").replace("line 20\n", "row 20\n")
    project.model.will_call("read", path="x.py")
    project.model.will_call("write", path="x.py", content=edited)
    async with running_app(project, mode="restrictive", size=(80, 40)) as driver:
        await driver.send("go")
        await choosing(driver)
        await driver.pilot.press("down", "n", "enter", "enter")
        await driver.idle()
        written = "".join(lines).replace("line 20\n", "row 20\n")
        assert (project.folder / "x.py").read_text() == written
        assert "did not accept all of it" in driver.results[-1]
