import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dirge_py.files.workspace import Workspace
from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.output import OutputStore
from dirge_py.processes.runner import Runner
from dirge_py.tools.base import ToolContext, ToolLimits, ToolServices
from dirge_py.tools.bash import TOOL, BashArgs
from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import Claim, LoopToolResult, ShellCommand


class Shell:
    """The bash tool in a folder, as the loop would call it."""

    def __init__(self, folder: Path) -> None:
        self.signal = AbortSignal()
        self.updates: list[LoopToolResult] = []
        self.runner = Runner(EnvironmentPolicy())
        self.folder = folder
        services = ToolServices(
            files=Workspace([folder], str(folder)),
            processes=self.runner,
            outputs=OutputStore(folder / "output"),
        )
        self.ctx = ToolContext(
            cwd=str(folder),
            services=services,
            call_id="call-1",
            signal=self.signal,
            on_update=self.updates.append,
        )

    async def run(self, command: str, **options: Any) -> LoopToolResult:
        return await TOOL.run(BashArgs(command=command, **options), self.ctx)


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    await shell.runner.shutdown()


async def test_command_output_is_tool_result(shell):
    result = await shell.run("echo hello")

    assert (result.text, result.is_error) == ("hello", False)
    assert result.details["outcome"] == "ok"
    assert result.details["exit_code"] == 0


async def test_model_gets_output_as_a_terminal_shows_it_in_the_end(shell):
    result = await shell.run(
        r"printf '\033]0;title\007\033[31mred\033[0m\n';"
        r" for n in $(seq 1 5000); do printf '\r%d %%' $n; done; echo; echo done"
    )

    assert result.text == "red\n5000 %\ndone"


async def test_failed_command_result_ends_with_exit_code_and_is_no_tool_error(shell):
    result = await shell.run("echo broken >&2; exit 7")

    assert (result.text, result.is_error) == ("broken\nExit code: 7", False)
    assert result.details["outcome"] == "failed_command"
    assert result.details["exit_code"] == 7


async def test_command_without_output_says_no_output(shell):
    assert (await shell.run("true")).text == "(no output)"


async def test_command_ended_by_signal_names_signal_and_exit_code(shell):
    result = await shell.run("kill -KILL $$")

    assert result.text.split("\n")[1:] == ["The command was ended by SIGKILL.", "Exit code: 137"]


async def test_d49_timeout_ends_background_and_foreground_processes(shell):
    result = await shell.run("sleep 30 & echo $! > pid; sleep 30", timeout=1)

    assert result.is_error
    assert result.details["outcome"] == "timeout"
    assert "timed out after 1 s" in result.text
    assert result.details["duration_ms"] < 3000
    assert not os.path.exists(f"/proc/{(shell.folder / 'pid').read_text().strip()}")


async def test_a16_timeout_kills_grandchildren(shell):
    result = await shell.run("(setsid sleep 300 & echo $! > pid; wait)", timeout=1.0)

    assert "timed out after 1 s" in result.text
    assert "It wrote nothing at all." in result.text
    assert result.details["duration_ms"] < 1500
    assert not os.path.exists(f"/proc/{(shell.folder / 'pid').read_text().strip()}")


async def test_timeout_result_says_how_long_command_was_silent(shell):
    result = await shell.run("echo a; sleep 30", timeout=1.1)

    assert result.text.startswith("a\nThe command timed out after 1.1 s")
    assert re.search(r"It wrote nothing in its last \d+ s\.", result.text)


async def test_d51_long_output_shows_head_and_tail_and_path_of_full_output(shell):
    result = await shell.run("seq 1 100000")

    numbers = [line for line in result.text.split("\n") if line.isdecimal()]
    assert numbers == [str(n) for n in [*range(1, 51), *range(99_951, 100_001)]]
    path = Path(result.details["output_path"])
    assert str(path) in result.text
    assert path.read_text().split() == [str(n) for n in range(1, 100_001)]


async def test_d53_cd_does_not_persist_between_commands(shell):
    await shell.run("cd /tmp")

    assert (await shell.run("pwd -P")).text == str(shell.folder.resolve())


@pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
async def test_result_names_pid_of_process_that_is_still_running(shell):
    gate = "until [ -e gate ]; do sleep 0.01; done"
    other = asyncio.ensure_future(shell.run(f"touch began; {gate}"))
    async with asyncio.timeout(10):
        while not (shell.folder / "began").exists():  # noqa: ASYNC110 - set by another process
            await asyncio.sleep(0)
    # The orphan has no call marker, so it could belong to either command.
    orphan = "(exec env -i setsid sh -c 'echo $$ > pid; exec sleep 100' >/dev/null 2>&1 &)"
    ready = "until [ -s pid ]; do sleep 0.01; done"
    result = await shell.run(f"{orphan}; {ready}")
    (shell.folder / "gate").touch()
    await other

    pid = (shell.folder / "pid").read_text().strip()
    assert f"1 process of this command is still running (pid {pid})" in result.text


async def test_leftover_background_processes_are_stopped_and_counted(shell):
    result = await shell.run("sleep 100 & sleep 100 & echo started")

    assert result.text.startswith("started\n2 background processes were stopped")
    assert result.details["outcome"] == "ok"


async def test_aborted_command_is_distinguished_from_timeout(shell):
    run = asyncio.ensure_future(shell.run("echo begun; sleep 100"))
    async with asyncio.timeout(10):
        while not shell.updates:  # noqa: ASYNC110
            await asyncio.sleep(0)
    shell.signal.abort()
    result = await run

    assert result.is_error
    assert result.details["outcome"] == "aborted"
    assert result.text.startswith("begun\nThe command was aborted.")


async def test_output_is_streamed_while_command_runs(shell):
    run = asyncio.ensure_future(shell.run("echo first; until [ -e gate ]; do sleep 0.01; done"))
    async with asyncio.timeout(10):
        while not shell.updates:  # noqa: ASYNC110
            await asyncio.sleep(0)
    (shell.folder / "gate").touch()
    await run

    assert shell.updates[0].text == "first\n"


def test_bash_claims_raw_command_and_preview_shows_it(shell):
    args = BashArgs(command="ls; rm x")

    assert TOOL.claims(args, shell.ctx) == [
        Claim("execute", ShellCommand("ls; rm x", str(shell.folder)))
    ]
    assert TOOL.preview(args, shell.ctx).text == "ls; rm x"
    behind = BashArgs(command="ls", background=True)
    assert TOOL.preview(behind, shell.ctx).note == "in the background"


@pytest.mark.parametrize("timeout", [0, -1, 3601])
def test_timeout_must_be_positive_and_at_most_one_hour(timeout):
    with pytest.raises(ValidationError):
        BashArgs(command="ls", timeout=timeout)


def test_bash_description_explains_shell_behavior():
    for word in ("fresh bash", "cd", "Exit code: N", "no terminal", "3600", "background"):
        assert word in TOOL.description


async def test_input_is_passed_to_stdin(shell):
    result = await shell.run("read name; echo hello $name; cat", input="you\nrest")

    assert result.text == "hello you\nrest"


@pytest.mark.parametrize("text", ["y\n", "y", "", "INPUT\nrm -rf x\n", "$(id) `id` \\ 'x'\n"])
async def test_input_is_claimed_and_previewed_as_equivalent_command(shell, text):
    args = BashArgs(command="sleep 0 | cat; cat", input=text)
    [claim] = TOOL.claims(args, shell.ctx)

    typed = await shell.run(claim.resource.text)
    given = await shell.run(args.command, input=text)

    assert TOOL.preview(args, shell.ctx).text == claim.resource.text
    assert typed.text == given.text


async def test_command_that_waits_for_an_answer_is_stopped(shell):
    result = await shell.run("printf 'Proceed? [y/N] '; sleep 100", timeout=30)

    assert result.is_error and result.details["outcome"] == "error"
    assert "The command asked 'Proceed? [y/N]' and was stopped" in result.text
    assert "`input`" in result.text and "--yes" in result.text


async def test_silent_command_reports_quiet_time(shell):
    impatient = replace(shell.ctx.services, limits=ToolLimits(quiet_s=0.1))
    run = asyncio.ensure_future(
        TOOL.run(
            BashArgs(command="echo a; until [ -e gate ]; do sleep 0.01; done"),
            replace(shell.ctx, services=impatient),
        )
    )
    async with asyncio.timeout(10):
        while not any("quiet_s" in update.details for update in shell.updates):  # noqa: ASYNC110
            await asyncio.sleep(0)
    (shell.folder / "gate").touch()
    await run

    assert "quiet_s" not in shell.updates[0].details
    assert shell.updates[-1].text == "a\n"
    assert 0 <= shell.updates[-1].details["quiet_s"] < 10


async def test_command_without_timeout_gets_default_timeout(shell):
    quick = replace(shell.ctx.services, limits=ToolLimits(command_timeout_s=0.3))

    result = await TOOL.run(BashArgs(command="sleep 30"), replace(shell.ctx, services=quick))

    assert result.details["outcome"] == "timeout"
    assert "timed out after 0.3 s" in result.text
