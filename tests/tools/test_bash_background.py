"""Background commands: bash, bash_output and kill_shell, called as the loop does."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dirge_py.files.workspace import Workspace
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.output import OutputStore
from dirge_py.processes.runner import Runner, Shells
from dirge_py.processes.watch import WatchSettings
from dirge_py.tools import bash, bash_output, kill_shell
from dirge_py.tools.base import ToolContext, ToolServices
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProcessError, ToolFailed
from dirge_py.types.tools import LoopToolResult
from tests.frontend.print.test_outcomes import is_alive
from tests.support.fake_service import ModelReply
from tests.support.product import Product, product

__all__ = ["product"]

GATE = "until [ -e gate ]; do sleep 0.01; done"


class ShellTools:
    """A folder with all three tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner = Runner(EnvironmentPolicy())
        self.shells = Shells(self.runner)
        self.updates: list[LoopToolResult] = []
        self.ctx = self.context(shells=self.shells)

    def context(self, **services: Any) -> ToolContext:
        return ToolContext(
            cwd=str(self.folder),
            services=ToolServices(
                files=Workspace([self.folder], str(self.folder)),
                processes=self.runner,
                outputs=OutputStore(self.folder / "output"),
                **services,
            ),
            call_id="call-1",
            signal=AbortSignal(),
            on_update=self.updates.append,
        )

    async def start(self, command: str, **more: Any) -> LoopToolResult:
        args = bash.BashArgs(command=command, background=True, **more)
        return await bash.TOOL.run(args, self.ctx)

    async def output(self, shell_id: str = "sh1", **more: Any) -> LoopToolResult:
        return await bash_output.TOOL.run(bash_output.BashOutputArgs(id=shell_id, **more), self.ctx)

    async def kill(self, shell_id: str = "sh1") -> LoopToolResult:
        return await kill_shell.TOOL.run(kill_shell.KillShellArgs(id=shell_id), self.ctx)


@pytest.fixture
async def shell_tools(tmp_path: Path) -> AsyncIterator[ShellTools]:
    shell_tools = ShellTools(tmp_path)
    yield shell_tools
    await shell_tools.runner.shutdown()


async def test_a108_background_command_returns_id_and_bash_output_only_new_output(shell_tools):
    started = await shell_tools.start(f"echo a; {GATE}; echo b")
    (shell_tools.folder / "gate").touch()
    await shell_tools.shells.get("sh1").ended()
    rest = await shell_tools.output()

    assert started.text.startswith("a\nsh1 has been running for ")
    assert started.details["outcome"] == "ok"
    assert (started.details["shell_id"], started.details["state"]) == ("sh1", "running")
    assert rest.text.startswith("b\nsh1 has ended after ")
    assert (await shell_tools.output()).text.startswith("(no new output)\nsh1 has ended after ")


async def test_background_command_that_fails_at_start_is_reported_at_once(shell_tools):
    result = await shell_tools.start("no-such-program --serve")

    assert "no-such-program: command not found" in result.text
    assert result.text.endswith("\nExit code: 127")
    assert result.details["outcome"] == "failed_command"
    assert result.details["state"] == "exited"


async def test_a108_kill_shell_is_confirmed_and_output_stays_readable(shell_tools):
    await shell_tools.start(f"echo a; {GATE}; echo b")
    assert (await shell_tools.kill()).text.startswith("sh1 was stopped after ")

    result = await shell_tools.output()
    assert result.text.startswith("(no new output)\nsh1 was stopped after ")
    assert (result.details["state"], result.details["exit_code"]) == ("killed", None)


async def test_d55_ninth_background_command_is_rejected_with_list(shell_tools):
    for _ in range(8):
        shell_tools.shells.start("sleep 100", cwd=str(shell_tools.folder))

    with pytest.raises(ProcessError, match=r"8 commands run in the background.*sh1.*sh8"):
        await shell_tools.start("sleep 100")


@pytest.mark.parametrize("tool", ["output", "kill"])
async def test_unknown_shell_id_error_lists_known_ids(shell_tools, tool):
    shell_tools.shells.start("true", cwd=str(shell_tools.folder))

    with pytest.raises(ProcessError) as caught:
        await getattr(shell_tools, tool)("sh7")

    assert "'sh7'" in caught.value.message
    assert caught.value.hint == "There are: sh1."


async def test_timeout_applies_to_background_command(shell_tools):
    await shell_tools.start("sleep 100", timeout=0.1)

    result = await shell_tools.output(wait=10)

    assert "sh1 was stopped at its time limit, after 0." in result.text
    assert result.details["state"] == "timed_out"


async def test_question_of_background_command_is_reported_without_stopping_command(shell_tools):
    command = "printf 'Password: '; sleep 100"
    quick = WatchSettings(asks_s=0.3, look_s=0.1)
    shell = shell_tools.shells.start(command, cwd=str(shell_tools.folder), watching=quick)
    async with asyncio.timeout(20):
        while not shell.state.question:  # noqa: ASYNC110
            await asyncio.sleep(0)

    result = await shell_tools.output()

    assert result.text.startswith("Password: \nsh1 has been running for ")
    assert "waits for an answer that cannot come: 'Password:'" in result.text
    assert shell.is_running


async def test_input_is_passed_to_background_command(shell_tools):
    result = await shell_tools.start("read a; echo got $a", input="it\n")

    assert result.text.startswith("got it\nsh1 has ended")


async def test_long_background_output_shows_head_and_tail_and_path_of_full_output(shell_tools):
    await shell_tools.start(f"echo first; {GATE}; seq 1 100000")
    (shell_tools.folder / "gate").touch()
    await shell_tools.shells.get("sh1").ended()
    result = await shell_tools.output()

    path = Path(result.details["output_path"])
    assert path.read_text().split() == ["first", *(str(n) for n in range(1, 100_001))]
    shown = [line for line in result.text.split("\n") if line.isdecimal()]
    assert shown == [str(n) for n in [*range(1, 51), *range(99_951, 100_001)]]
    assert str(path) in result.text


async def test_command_moved_to_background_returns_id_and_output(shell_tools):
    args = bash.BashArgs(command=f"echo a; {GATE}; echo b")
    run = asyncio.ensure_future(bash.TOOL.run(args, shell_tools.ctx))
    async with asyncio.timeout(10):
        while not shell_tools.updates:  # noqa: ASYNC110
            await asyncio.sleep(0)

    assert shell_tools.shells.to_background("call-1") == "sh1"
    moved = await run
    (shell_tools.folder / "gate").touch()

    assert moved.text.startswith(
        "a\nThe user moved the command to the background. It continues.\nsh1"
    )
    assert (moved.details["outcome"], moved.details["shell_id"]) == ("ok", "sh1")
    assert (await shell_tools.output(wait=10)).text.startswith("b\n")


async def test_background_without_support_is_tool_error(shell_tools):
    with pytest.raises(ToolFailed, match="without `background`"):
        await bash.TOOL.run(bash.BashArgs(command="true", background=True), shell_tools.context())


@pytest.mark.parametrize("wait", [-1, 61])
def test_wait_of_bash_output_is_limited(wait):
    with pytest.raises(ValidationError):
        bash_output.BashOutputArgs(id="sh1", wait=wait)


def test_polling_bash_output_is_not_a_loop():
    assert bash_output.TOOL.polls and not kill_shell.TOOL.polls


def test_a108_background_commands_work_end_to_end_and_end_with_session(product: Product) -> None:
    command = "setsid sleep 100 & echo $! $$ > pids; echo up; wait"
    product.will(
        ModelReply(calls=[("bash", {"command": command, "background": True})]),
        ModelReply(calls=[("bash", {"command": "echo foreground"})]),
        ModelReply(calls=[("bash_output", {"id": "sh1", "wait": 0.1})]),
        ModelReply(calls=[("bash_output", {"id": "sh1", "wait": 0.1})]),
        ModelReply(text="done"),
    )

    result = product.run_forked("-p", "--yolo", "--output-format", "json", "x")

    results = [message["content"] for message in product.sent() if message["role"] == "tool"]
    assert result.json["result"] == "done"
    assert results[0].startswith("up\nsh1 has been running for ")
    assert all(text.startswith("(no new output)\nsh1 has been running") for text in results[2:])
    assert not any(is_alive(int(pid)) for pid in (product.project / "pids").read_text().split())


@pytest.mark.parametrize("events", ["claude", "native"])
def test_commands_ended_with_session_are_listed_after_result(product: Product, events: str) -> None:
    call = ("bash", {"command": "sleep 100", "background": True})
    product.will(ModelReply(calls=[call]), ModelReply(text="It runs."))

    formats = ("--output-format", "stream-json", "--event-format", events)
    result = product.run_forked("-p", "--yolo", *formats, "x")

    assert result.lines[-1]["result"] == "It runs."
    assert result.stderr == "dirge: Ended with the session: sh1 (`sleep 100`).\n"
