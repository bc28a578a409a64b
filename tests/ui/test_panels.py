"""Side panels, the todo list, and the user's editor."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.pilot import Pilot

from dirge_py.processes.programs import start_detached
from dirge_py.processes.runner import ShellState
from dirge_py.providers.scripted import Reply
from dirge_py.slash.base import Choice
from dirge_py.types.errors import ProcessError
from dirge_py.types.events import ContextCompacted, MessageEnd
from dirge_py.types.extensions import PluginReport
from dirge_py.types.messages import ToolResultMessage
from dirge_py.ui.git_status import GitStatus, parse_git_status, read_git_status
from dirge_py.ui.options import UiSettings
from dirge_py.ui.panels.side_panels import left_lines, right_lines, todo_lines
from dirge_py.ui.programs import ScreenPrograms
from dirge_py.ui.status import MOST_FILES, ChangedFile, ContextGauge, RunActivity, changed_files
from dirge_py.ui.terminal.editor import MOST_AT_ONCE, EditorFollower, editor_command
from dirge_py.ui.theme.styles import load_theme, styles_for
from dirge_py.ui.transcript.lines import Line
from tests.support.app_driver import WAITING_COMMAND, running_app
from tests.support.project import ScriptedProject

STYLES = styles_for(load_theme("phosphor"))
TODOS = [("done" if n < 3 else "pending", f"step {n}") for n in range(9)]
SHELL = ShellState(
    id="s1", command="make\x1b[2J\nall", cwd="/", status="running", started=0.0, duration_s=1.0
)


def texts(lines: Sequence[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


# -- panel content


def test_left_panel_shows_context_activity_and_git():
    lines = left_lines(
        30,
        STYLES,
        gauge=ContextGauge(used=100_000, window=200_000, fold_at=0.75),
        foldings=2,
        recent=[("read", "run.py"), ("bash", "cargo test " + "x" * 40)],
        git=GitStatus(branch="main", staged=1, untracked=2, subject="Begin"),
    )
    assert texts(lines) == [
        "CONTEXT",
        "██████████░░░░░░░░░░",
        "100k/200k 50%",
        "compacted 2 times",
        "",
        "ACTIVITY",
        "read run.py",
        "bash cargo test xxxxxxxxxxx…",
        "",
        "GIT",
        "main",
        "1 staged, 2 new",
        "Begin",
        "",
    ]


def test_right_panel_shows_todos_files_plugins_and_shells():
    lines = right_lines(
        24,
        40,
        STYLES,
        todos=[
            ("pending", "later"),
            ("in_progress", "now"),
        ],
        files=["old.py", "src/" + "deep/" * 9 + "new.py"],
        plugins=[
            PluginReport(name="good", where="", state="on"),
            PluginReport(name="bad", where="", state="failed"),
        ],
        shells=[SHELL],
    )
    assert texts(lines) == [
        "TODO 0/2",
        "▶ now",
        "[ ] later",
        "",
        "MODIFIED",
        "…/new.py",
        "old.py",
        "",
        "PLUGINS",
        "● good",
        "✗ bad failed",
        "",
        "SHELLS",
        "s1 make…",
        "",
    ]


def test_long_todo_and_file_lists_are_cut_with_a_count():
    assert texts(todo_lines(TODOS, 20, STYLES))[-2:] == ["[x] step 0", "… 2 more"]
    assert len(todo_lines(TODOS, 20, STYLES)) == 8
    lines = texts(right_lines(20, 10, STYLES, files=[f"f{n}" for n in range(30)]))
    assert lines[:4] == ["MODIFIED", "f29", "f28", "f27"]
    assert "+24 older" in lines


untrusted = st.text(alphabet="ab/日é\x1b[2J\u202e\x9b\n;", max_size=50)


@given(untrusted, st.integers(20, 40))
def test_panels_strip_control_characters_and_keep_width(text: str, width: int):
    left = left_lines(
        width,
        STYLES,
        gauge=ContextGauge(used=1, window=2),
        recent=[("bash", text), (text, text)],
        git=GitStatus(branch=text, subject=text),
    )
    right = right_lines(
        width,
        40,
        STYLES,
        todos=[("pending", text)],
        files=[text],
        plugins=[PluginReport(name=text, where="", state="off")],
        shells=[SHELL],
    )
    for line in texts([*left, *right]):
        assert cell_len(line) <= width
        assert not set(line) & set("\x1b\u202e\x9b\n")


def test_git_status_is_counted_by_kind():
    status = "\n".join(
        [
            "# branch.oid 0123456789abcdef",
            "# branch.head (detached)",
            "1 M. N... 100644 100644 100644 a a staged.py",
            "1 .M N... 100644 100644 100644 a a changed.py",
            "2 RM N... 100644 100644 100644 a a R100 new.py\told.py",
            "u UU N... 100644 100644 100644 100644 a b c both.py",
            "? new.txt",
            "? two\u20281",
        ]
    )
    assert parse_git_status(status, "Hi") == GitStatus(
        branch="01234567", staged=2, unstaged=3, untracked=2, subject="Hi"
    )


async def test_git_status_is_read_from_checkout(tmp_path: Path):
    programs = ScreenPrograms()
    assert await read_git_status(programs, tmp_path) is None
    git(tmp_path, "init", "-qb", "main")
    (tmp_path / "a").write_text("a")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-qm", "First")
    (tmp_path / "b").write_text("b")
    found = await read_git_status(programs, tmp_path)
    await programs.aclose()
    assert found == GitStatus(branch="main", untracked=1, subject="First")


async def test_git_status_never_runs_filter_programs_of_repository(project: ScriptedProject):
    git(project.folder, "init", "-qb", "main")
    (project.folder / "a").write_text("a")
    (project.folder / ".gitattributes").write_text("* filter=x\n")
    git(project.folder, "add", ".")
    git(project.folder, "config", "filter.x.clean", f"touch {project.folder}/ran; cat")
    (project.folder / "a").write_text("b")
    found = await read_git_status(ScreenPrograms(), project.folder)
    assert found == GitStatus(branch="main", is_withheld=True)
    assert not (project.folder / "ran").exists()
    lines = left_lines(30, STYLES, gauge=ContextGauge(used=1, window=0), git=found)
    assert "status not read" in texts(lines)


# -- activity of a conversation


DIFF = (
    "--- a.py\n+++ a.py\n@@ -3,3 +3,3 @@\n x\n-y\n+z\n--- /dev/null\n+++ b.py\n@@ -0,0 +1,1 @@\n+n"
)


def test_diff_lists_changed_files_and_first_changed_line():
    removed = "--- c.py\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x"
    assert list(changed_files(f"{DIFF}\n{removed}")) == [
        ChangedFile("a.py", 4),
        ChangedFile("b.py", 1),
        ChangedFile("c.py", 0),
    ]


def test_compaction_count_ignores_undone_compactions():
    activity = RunActivity(lambda: 0.0)
    for kind in ("summary", "prune", "undone", "shown_again"):
        activity.on_event(
            ContextCompacted(tokens_before=9, tokens_after=1, first_kept_index=2, kind=kind)
        )
    assert activity.foldings == 2


def test_changed_files_are_limited_to_newest():
    activity = RunActivity(lambda: 0.0)
    for number in range(MOST_FILES + 5):
        diff = f"--- f{number}\n+++ f{number}\n@@ -1,1 +1,1 @@\n-a\n+b"
        result = ToolResultMessage(
            tool_call_id="c", tool_name="edit", content=(), details={"diff": diff}
        )
        activity.on_event(MessageEnd(result))
    assert (len(activity.changed), next(iter(activity.changed))) == (MOST_FILES, "f5")


# -- on the screen


async def resized(pilot: Pilot[int], width: int, height: int = 40) -> None:
    await pilot.resize_terminal(width, height)
    await pilot.pause()


@pytest.fixture
def working(project: ScriptedProject) -> ScriptedProject:
    """A run that plans, writes a file and runs a command that waits."""
    git(project.folder, "init", "-qb", "main")
    todo = {"id": "1", "text": "write it", "status": "in_progress"}
    project.model.will_call("todo", items=[todo, {"id": "2", "text": "test it"}])
    project.model.will_call("write", path="x.py", content="x = 1\n")
    project.model.will_call("bash", command=WAITING_COMMAND)
    return project


async def test_panels_appear_only_on_wide_screen(working: ScriptedProject):
    async with running_app(working, mode="yolo", size=(200, 40)) as driver:
        await driver.send("go")
        await driver.until(
            lambda: "▶ write it" in driver.screen and "bash echo cc" in driver.screen
        )
        await driver.until(lambda: "1 new" in driver.screen)
        assert "MODIFIED" in driver.screen
        await resized(driver.pilot, 100)
        assert not driver.app.chrome.is_shown
        assert "MODIFIED" not in driver.screen
        driver.release_command()
        await driver.idle()


async def test_resumed_session_shows_its_todos_and_changed_files(working: ScriptedProject):
    async with running_app(working, mode="yolo") as driver:
        driver.release_command()
        await driver.send("go")
        await driver.idle()
        session = driver.conversation.session_id or ""
    async with running_app(working, resumes=session, size=(170, 40)) as driver:
        await driver.until(lambda: "TODO 0/2" in driver.screen and "x.py" in driver.screen)
        assert driver.app.chrome.activity.recent[-1][0] == "bash"


async def test_resizing_across_panel_width_during_stream_loses_no_text(
    project: ScriptedProject,
):
    text = "".join(f"word {number} " for number in range(400))
    project.model.will(Reply(text=text, chunk_chars=40, pause_s=0.001))
    async with running_app(project, size=(200, 40)) as driver:
        await driver.send("go")
        await driver.until(lambda: "word 3" in driver.text)
        for width in (100, 200, 151, 152, 20, 100):
            await resized(driver.pilot, width)
        await driver.idle()
        await driver.until(lambda: "word 399" in driver.text)
        assert driver.app.transcript.outer_size.width == 100


async def test_hidden_panels_do_not_run_git(project: ScriptedProject):
    async with running_app(project, size=(151, 40)) as driver:
        await driver.send("go")
        await driver.idle()
        assert driver.app.chrome.programs._runner is None


async def test_panel_and_display_commands_select_panels(project: ScriptedProject):
    async with running_app(project, size=(120, 30)) as driver:
        around = driver.app.chrome
        await driver.send("/panel on")
        await driver.until(lambda: around.is_shown)
        assert "CONTEXT" in driver.screen
        await driver.send("/display main|right")
        await driver.until(lambda: not around.left.display)
        await driver.send("/display sideways")
        await driver.until(lambda: "/display doesn't take 'sideways'." in driver.text)
        await driver.send("/panel off")
        await driver.until(lambda: not around.is_shown)
        assert "Panels: off; displayed: main|right." in driver.text


async def test_transcript_can_be_hidden_and_shown_again(project: ScriptedProject):
    async with running_app(project, size=(160, 30)) as driver:
        await driver.send("/display left right")
        await driver.until(lambda: "CONTEXT" in driver.screen and "dirge 0" not in driver.screen)
        await driver.send("hello")
        await driver.idle()
        await driver.send("/display main")
        await driver.until(
            lambda: "Nothing more to do." in driver.screen and "CONTEXT" not in driver.screen
        )


async def test_panel_settings_select_panels(project: ScriptedProject):
    settings = UiSettings(panel="on", display=["main", "right"])
    async with running_app(project, size=(120, 30), prepare=lambda: settings) as driver:
        assert driver.app.chrome.right.display
        assert not driver.app.chrome.left.display


async def test_ctrl_t_toggles_todo_list_above_input(working: ScriptedProject):
    async with running_app(working, mode="yolo", size=(60, 24)) as driver:
        driver.release_command()
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: "Nothing is on the todo list." in driver.screen)
        await driver.send("go")
        await driver.until(lambda: "▶ write it" in driver.screen and "[ ] test it" in driver.screen)
        await driver.idle()
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: "[ ] test it" not in driver.screen)


# -- the user's editor


@given(st.text(alphabet="ab {}$;'\"`line path", min_size=1, max_size=20), st.integers(1, 99))
def test_path_is_one_argument_of_editor_command(name: str, line: int):
    path = Path("/p") / name
    assert editor_command("code -g '{path}:{line}' {path}", path, line) == [
        "code",
        "-g",
        f"{path}:{line}",
        str(path),
    ]


@pytest.mark.parametrize("command", ["code -g", "code '{path}"])
def test_editor_command_that_cannot_open_a_file_is_refused(command: str):
    with pytest.raises(ProcessError):
        editor_command(command, Path("/x"), 1)


class Editors:
    """Editor programs that run until told to end."""

    def __init__(self) -> None:
        self.open: list[Callable[[int], object]] = []
        self.started: list[str] = []

    def __call__(
        self, arguments: Sequence[str], *, cwd: Path, ended: Callable[[int], object]
    ) -> None:
        self.started.append(Path(arguments[1]).name)
        self.open.append(ended)


def test_parallel_editors_are_limited_and_failure_is_reported_once(tmp_path: Path):
    editors, complaints = Editors(), list[Any]()
    following = EditorFollower(complaints.append, editors)
    following.command = "edit {path}"
    for number in range(9):
        (tmp_path / str(number)).touch()
        following.open(tmp_path / str(number), 1, cwd=tmp_path)
    following.open(tmp_path / "gone", 1, cwd=tmp_path)
    assert len(editors.started) == MOST_AT_ONCE
    editors.open.pop(0)(0)
    assert editors.started == ["0", "1", "2", "3", "4"]
    for ended in list(editors.open):
        ended(3)
    following.open(tmp_path / "1", 1, cwd=tmp_path)
    assert (len(editors.started), len(complaints)) == (5, 1)


async def test_detached_program_has_no_terminal_and_reports_exit_code(tmp_path: Path):
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    script = "import sys; sys.exit(7 if sys.stdin.read() == '' and not sys.stdout.isatty() else 1)"
    start_detached([sys.executable, "-c", script], cwd=tmp_path, ended=future.set_result)
    assert await asyncio.wait_for(future, 20) == 7
    with pytest.raises(ProcessError):
        start_detached([str(tmp_path / "none")], cwd=tmp_path, ended=future.set_result)


async def test_file_changed_by_agent_is_opened_in_editor_at_its_line(working: ScriptedProject):
    seen = working.folder.parent / "seen"
    script = f"import sys; open({str(seen)!r}, 'a').write(' '.join(sys.argv[1:]))"
    settings = UiSettings(editor_open_command=f'{sys.executable} -c "{script}" {{path}} {{line}}')
    async with running_app(working, mode="yolo", prepare=lambda: settings) as driver:
        driver.release_command()
        await driver.send("go")
        await driver.until(lambda: seen.exists() and seen.read_text())
        await driver.idle()
    assert seen.read_text() == f"{working.folder}/x.py 1"


def test_malformed_todo_details_show_no_list():
    activity = RunActivity(lambda: 0.0)
    for items in (5, "abc", [{"text": "x", "status": "unheard of"}]):
        result = ToolResultMessage(
            tool_call_id="1", tool_name="todo", content=(), details={"items": items}
        )
        activity.load_history([result])
        assert activity.todos == ()


async def test_panel_without_news_is_hidden_and_others_are_as_wide_as_their_text(
    working: ScriptedProject,
):
    async with running_app(working, mode="yolo", size=(200, 40)) as driver:
        around = driver.app.chrome
        assert not around.left.display and not around.right.display
        await driver.send("go")
        await driver.until(lambda: "TODO 0/2" in driver.screen)
        assert around.right.outer_size.width < 24
        driver.release_command()
        await driver.idle()


async def test_rule_above_the_input_names_the_mode_where_there_is_room(project: ScriptedProject):
    async with running_app(project, size=(60, 24)) as driver:
        await driver.until(lambda: "─ standard ──" in driver.screen)
        assert driver.screen.count("standard") == 2  # The greeting names it, too.
        await driver.pilot.press("shift+tab")
        await driver.until(lambda: "─ accept ──" in driver.screen)
        await resized(driver.pilot, 60, 10)
        await driver.until(lambda: "│ accept │" in driver.screen)
        assert "──" not in driver.screen


async def test_picker_has_a_key_line_a_reversed_row_and_page_keys(project: ScriptedProject):
    async with running_app(project, size=(80, 30)) as driver:
        choices = [Choice(id=str(number), label=f"choice {number}") for number in range(40)]
        answer = asyncio.ensure_future(driver.app.dialogs.pick("Which?", choices, ""))
        await driver.until(lambda: "Enter: choose · Esc: cancel" in driver.screen)
        picker = driver.app.picker
        row = [segment for segment in picker.render_line(1) if "choice 0" in segment.text]
        assert row[0].style and row[0].style.reverse
        await driver.pilot.press("pagedown")
        await driver.until(lambda: "▸ choice 9" in driver.screen)
        await driver.pilot.press("pagedown", "pageup", "pageup", "enter")
        assert await answer == "0"


async def test_completion_list_aligns_summaries_and_names_its_keys(project: ScriptedProject):
    async with running_app(project) as driver:
        await driver.type("/co")
        await driver.until(lambda: "Tab: complete · Enter: choose · Esc: close" in driver.screen)
        rows = [row for row in driver.screen.split("\n") if row.startswith((" ▸ /", "   /"))]
        assert len({re.match(r"...\S+ +", row).end() for row in rows}) == 1
        cut = [row.rstrip() for row in rows if row.rstrip().endswith("…")]
        assert cut
        assert all(row.endswith(" …") for row in cut), "no word is cut"


async def test_line_question_names_its_keys(project: ScriptedProject):
    async with running_app(project) as driver:
        question = asyncio.ensure_future(driver.app.dialogs.ask_line("New title", value="a"))
        await driver.until(lambda: "Enter: confirm · Esc: cancel" in driver.screen)
        await driver.pilot.resize_terminal(20, 5)
        await driver.until(lambda: "New title" in driver.screen and " a" in driver.screen)
        await driver.pilot.press("b", "enter")
        assert await question == "ab"
