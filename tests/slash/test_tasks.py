"""`/tasks`, as typed, with real commands."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from dirge_py import slash
from dirge_py.frontend.print.print_mode import PrintFront
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner, Shells
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import DirgeError, UsageError

COMMANDS = Registry(discover(slash))


@pytest.fixture
async def shells() -> AsyncIterator[Shells]:
    runner = Runner(EnvironmentPolicy())
    yield Shells(runner)
    await runner.shutdown()


async def run_line(line: str, shells: Shells | None) -> str:
    front = PrintFront(COMMANDS)
    typed = COMMANDS.read(line)
    assert typed is not None
    conversation: Any = SimpleNamespace(
        is_running=True,
        is_compacting=False,
        exclusive_owner=None,
        environment=SimpleNamespace(shells=shells),
    )
    await COMMANDS.run(typed, conversation, front)
    return "\n".join(front.shown)


async def test_tasks_lists_every_command_with_its_state(shells):
    shells.start("# wait\nsleep 100", cwd="/")
    await shells.start("printf abc; exit 3 # \x1b[31mred\nmore", cwd="/").ended()
    await shells.start("sleep 100", cwd="/", timeout_s=0.01).ended()

    lines = [line.split() for line in (await run_line("/tasks", shells)).split("\n")]

    assert [line[:2] for line in lines] == [["sh1", "running"], ["sh2", "exit"], ["sh3", "time"]]
    assert lines[0][-2:] == ["sleep", "100"]
    assert lines[1][2:6] == ["3", "0:00", "3", "bytes"]
    assert "\x1b" not in await run_line("/ps", shells)


async def test_tasks_without_background_commands_says_so(shells):
    assert await run_line("/bashes", shells) == "Nothing is running in the background."


async def test_task_can_be_killed_by_id_during_a_run(shells):
    shell = shells.start("sleep 100", cwd="/")

    assert await run_line("/tasks kill sh1", shells) == "sh1 was stopped."
    assert not shell.is_running
    assert await run_line("/tasks kill sh1", shells) == "sh1 has already ended."


@pytest.mark.parametrize("line", ["/tasks kill", "/tasks end sh1", "/tasks kill sh9"])
async def test_invalid_tasks_arguments_are_explained(shells, line):
    with pytest.raises(DirgeError) as caught:
        await run_line(line, shells)

    assert caught.value.hint


async def test_tasks_without_shell_tool_is_refused():
    with pytest.raises(UsageError, match="cannot run commands"):
        await run_line("/tasks", None)
