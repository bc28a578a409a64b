"""The example plugins do what their docstrings say."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dirge_py.types.events import PermissionAnswered, ToolExecutionUpdate
from dirge_py.types.outcomes import Done
from tests.house.source import ROOT
from tests.support.plugin_conversation import open_with_plugins
from tests.support.project import ScriptedProject

EXAMPLES = ROOT / "plugins"


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The user's plugin folder with the example of this test."""
    plugins = tmp_path / "users_plugins"
    plugins.mkdir()
    name = next(name for name in names() if name in request.node.name)
    shutil.copy(EXAMPLES / f"{name}.py", plugins)
    return plugins


def names() -> list[str]:
    return sorted(path.stem for path in EXAMPLES.glob("*.py"))


def test_there_are_six_example_plugins_of_20_to_80_lines() -> None:
    assert names() == [
        "confirm_destructive",
        "count_words",
        "custom_tool",
        "notify",
        "protected_paths",
        "turn_timing",
    ]
    lines = {name: (EXAMPLES / f"{name}.py").read_text().count("\n") for name in names()}
    assert [name for name, count in lines.items() if not 20 <= count <= 80] == []


async def test_protected_paths_denies_changes_by_any_tool(project: ScriptedProject, folder: Path):
    lock = project.folder / "poetry.lock"
    lock.write_text("old")
    async with open_with_plugins(
        project, folder, protected_paths={"paths": ["*.lock"], "why": "Run it."}
    ) as it:
        it.model.will_call("write", path="poetry.lock", content="new")
        it.model.will_call("edit", path="poetry.lock", old_text="old", new_text="new")
        it.model.will_call("write", path="notes.txt", content="new").will_say("done")
        await it.conversation.send("change it")
        assert [result.details["outcome"] for result in it.results] == ["denied", "denied", "ok"]
        assert it.results[0].text == f"{lock} is protected (*.lock). Run it."
    assert lock.read_text() == "old"
    assert (project.folder / "notes.txt").read_text() == "new"


async def test_confirm_destructive_denies_a_command_until_confirmed_and_allows_it_once(
    project: ScriptedProject, folder: Path
):
    build = project.folder / "build"
    build.mkdir()
    async with open_with_plugins(project, folder) as it:
        for _ in range(3):
            it.model.will_call("bash", command="rm -rf build").will_say("It would remove build.")
        await it.conversation.send("clean up")
        assert it.results[-1].details["outcome"] == "denied"
        assert build.exists()
        held = "confirm_destructive: held back: rm -rf build   (/confirm lets it run once)"
        assert held in it.notices
        assert it.project.user.asked == []

        assert "It may run once: rm -rf build" in await it.type("/confirm")
        await it.conversation.send("go on")
        assert it.results[-1].details["outcome"] == "ok"
        assert not build.exists()
        # The usual rules decided about it as well.
        assert [asked.tool_name for asked in it.project.user.asked] == ["bash"]

        await it.conversation.send("again")
        assert it.results[-1].details["outcome"] == "denied"
        assert "It may run once" in await it.type("/confirm")
        assert await it.type("/confirm") == "Nothing is held back."


async def test_confirm_destructive_does_not_hold_allowed_commands(
    project: ScriptedProject, folder: Path
):
    allowed = {"allow": ["rm -rf build"]}
    async with open_with_plugins(project, folder, confirm_destructive=allowed) as it:
        it.model.will_call("bash", command="rm -rf build").will_say("done")
        await it.conversation.send("clean up")
        assert it.results[-1].details["outcome"] == "ok"


@contextmanager
def terminal() -> Iterator[int]:
    """A pseudo-terminal as this process's stderr; yields its other end.

    No fixture: pytest puts stderr back between the set-up and the call of a test.
    """
    master, slave = os.openpty()
    os.set_blocking(master, False)
    kept = os.dup(2)
    os.dup2(slave, 2)
    try:
        yield master
    finally:
        os.dup2(kept, 2)
        for descriptor in (kept, master, slave):
            os.close(descriptor)


async def test_notify_rings_the_terminal_when_a_long_run_ends(
    project: ScriptedProject, folder: Path
):
    with terminal() as screen:
        async with open_with_plugins(project, folder, notify={"after_s": 0}) as it:
            it.model.will_say("done")
            assert isinstance(await it.conversation.send("hello"), Done)
        assert os.read(screen, 1000) == b"\x1b]9;dirge: Done after 0 s\x07\x07"


async def test_notify_is_silent_after_a_short_run(project: ScriptedProject, folder: Path):
    with terminal() as screen:
        async with open_with_plugins(project, folder, notify={"after_s": 3600}) as it:
            it.model.will_say("done")
            await it.conversation.send("hello")
        with pytest.raises(BlockingIOError):
            os.read(screen, 1000)


async def test_custom_tool_outlines_a_project_file_without_asking(
    project: ScriptedProject, folder: Path
):
    (project.folder / "a.py").write_text("class A:\n    def b(self, c=1): ...\n\ndef d(): ...\n")
    (project.folder / "b.py").write_text("def (\n")
    async with open_with_plugins(project, folder) as it:
        assert "outline" in it.conversation.tool_names
        for path in ("a.py", "b.py", "c.py"):
            it.model.will_call("outline", path=path)
        it.model.will_say("done")
        await it.conversation.send("what is in it?")
        texts = [result.text for result in it.results]
        assert texts[0].splitlines() == [
            "    1 class A",
            "    2   def b(self, c=1)",
            "    4 def d()",
        ]
        assert "cannot be parsed" in texts[1]
        assert texts[2] == "There is no c.py. Use `glob` to find it."
        assert it.project.user.asked == []


async def test_custom_tool_asks_about_files_outside_the_project(
    project: ScriptedProject, folder: Path
):
    (project.folder.parent / "out.py").write_text("def far(): ...\n")
    async with open_with_plugins(project, folder) as it:
        it.model.will_call("outline", path="../out.py").will_say("done")
        await it.conversation.send("what is in it?")
        assert [asked.tool_name for asked in it.project.user.asked] == ["outline"]
        answered: list[Any] = it.recorder.of(PermissionAnswered)
        assert [answer.effect for answer in answered] == ["allow"]
        assert it.results[-1].text == "    1 def far()"


async def test_count_words_reports_progress_and_is_not_offered_without_suffixes(
    project: ScriptedProject, folder: Path
):
    for name in ("a.md", "b.txt", "c.py"):
        (project.folder / name).write_text("one two two\n")
    async with open_with_plugins(project, folder) as it:
        it.model.will_call("count_words").will_call("count_words", folder="none").will_say("done")
        await it.conversation.send("count")
        assert json.loads(it.results[0].text) == {"two": 4, "one": 2}
        assert it.results[1].text == "none is no folder. Use `glob` to find one."
        shares = [update.partial_result.details for update in it.recorder.of(ToolExecutionUpdate)]
        assert [(each["done"], each["total"]) for each in shares] == [(1, 2), (2, 2)]
        assert await it.type("/tools count_words --chain") == "log_failures → count_words"

    async with open_with_plugins(project, folder, count_words={"suffixes": []}) as it:
        it.model.will_say("done")
        await it.conversation.send("count")
        assert "count_words" not in [tool.name for tool in it.model.seen[-1].tools]
        assert "suffixes" in await it.type("/tools")


async def test_turn_timing_shows_the_time_of_each_turn_and_its_tools(
    project: ScriptedProject, folder: Path
):
    (project.folder / "a.txt").write_text("x")
    async with open_with_plugins(project, folder) as it:
        it.model.will_call("read", path="a.txt").will_say("done")
        await it.conversation.send("read it")
        notices = [notice for notice in it.notices if notice.startswith("turn_timing: ")]
        assert [notice.rpartition(" took ")[0] for notice in notices] == [
            "turn_timing: turn 1",
            "turn_timing: turn 2",
        ]
        assert "(read 0." in notices[0]
        assert "(" not in notices[1]


async def test_turn_timing_shows_no_notice_for_short_turns(project: ScriptedProject, folder: Path):
    async with open_with_plugins(project, folder, turn_timing={"min_s": 3600}) as it:
        it.model.will_say("done")
        await it.conversation.send("hello")
        assert it.notices == []
