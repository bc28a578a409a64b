import asyncio
import sys
import time
from pathlib import Path

import pytest

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.profile import LaunchSpec
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProcessError


async def text_of(runner: Runner, command: str | list[str], cwd: Path, **options: object) -> str:
    finished = await runner.run(command, cwd=str(cwd), **options)  # type: ignore[arg-type]
    return (finished.output.head + finished.output.tail).decode()


async def test_stdout_and_stderr_are_merged_in_order(runner, tmp_path):
    text = await text_of(runner, "echo a; echo b >&2; echo c; echo d >&2", tmp_path)

    assert text == "a\nb\nc\nd\n"


async def test_exit_code_and_signal_are_distinguished(runner, tmp_path):
    failed = await runner.run("exit 3", cwd=str(tmp_path))
    killed = await runner.run("kill -SEGV $$", cwd=str(tmp_path))

    assert (failed.exit_code, failed.signal) == (3, None)
    assert (killed.exit_code, killed.signal) == (None, 11)


async def test_argument_list_runs_without_shell(runner, tmp_path):
    assert await text_of(runner, ["printf", "%s|", "$HOME", "a b", "*"], tmp_path) == "$HOME|a b|*|"


async def test_command_starting_with_dash_is_not_bash_option(runner, tmp_path):
    finished = await runner.run("-c 'echo hidden'", cwd=str(tmp_path))

    assert finished.exit_code == 127
    assert b"hidden\n" not in finished.output.head


async def test_command_starts_in_given_folder(runner, tmp_path):
    assert await text_of(runner, "pwd -P", tmp_path) == f"{tmp_path.resolve()}\n"


@pytest.mark.parametrize(
    "command",
    [
        "cat",
        "read line",
        "read line </dev/tty",
        "head -c1 /dev/tty",
        [sys.executable, "-c", "input()"],
        [sys.executable, "-c", "import getpass; getpass.getpass()"],
    ],
    ids=str,
)
async def test_command_that_reads_input_ends_at_once(runner, tmp_path, command):
    finished = await runner.run(command, cwd=str(tmp_path), timeout_s=30)

    assert not finished.timed_out
    assert finished.duration_s < 5


async def test_missing_folder_is_named(runner, tmp_path):
    with pytest.raises(ProcessError, match="gone"):
        await runner.run("true", cwd=str(tmp_path / "gone"))


async def test_missing_program_is_named(runner, tmp_path):
    with pytest.raises(ProcessError, match="no-such-program"):
        await runner.run(["no-such-program"], cwd=str(tmp_path))


@pytest.mark.parametrize("text", ["echo \0", "echo \ud800", "echo " + "x" * 200_000])
async def test_unstartable_command_is_error_with_hint(runner, tmp_path, text):
    with pytest.raises(ProcessError) as caught:
        await runner.run(text, cwd=str(tmp_path))

    assert caught.value.hint


async def test_aborted_run_starts_nothing(runner, tmp_path):
    signal = AbortSignal()
    signal.abort()

    finished = await runner.run("touch made", cwd=str(tmp_path), signal=signal)

    assert finished.aborted
    assert not (tmp_path / "made").exists()


async def test_prepared_variables_apply_to_one_call_once(runner, tmp_path):
    runner.prepare("call-1", {"GIT_NO_LAZY_FETCH": "1"})

    other = await text_of(runner, "echo $GIT_NO_LAZY_FETCH", tmp_path, call_id="call-2")
    first = await text_of(runner, "echo $GIT_NO_LAZY_FETCH", tmp_path, call_id="call-1")
    second = await text_of(runner, "echo $GIT_NO_LAZY_FETCH", tmp_path, call_id="call-1")

    assert (other, first, second) == ("\n", "1\n", "\n")


async def test_input_is_passed_and_then_closed(runner, tmp_path):
    text = await text_of(
        runner, "read a; echo first $a; cat; read b || echo over", tmp_path, stdin_text="é\nx\ny\n"
    )

    assert text == "first é\nx\ny\nover\n"


async def test_launcher_wraps_every_command(tmp_path):
    seen: list[LaunchSpec] = []

    def launcher(arguments: list[str], spec: LaunchSpec) -> list[str]:
        seen.append(spec)
        return ["env", "INSIDE=yes", *arguments]

    runner = Runner(EnvironmentPolicy(), launcher)
    text = await text_of(runner, "echo $INSIDE", tmp_path, call_id="c")

    assert text == "yes\n"
    assert (seen[0].cwd, seen[0].call_id) == (str(tmp_path), "c")


async def test_output_updates_are_at_most_twenty_per_second(runner, tmp_path):
    sizes: list[int] = []
    began = time.monotonic()
    await runner.run(
        "for i in $(seq 300); do echo line $i; sleep 0.001; done",
        cwd=str(tmp_path),
        on_output=lambda tail, size: sizes.append(size),
    )
    took = time.monotonic() - began

    assert sizes == sorted(sizes)
    assert 1 <= len(sizes) <= took * 20 + 2


async def test_output_update_shows_tail(runner, tmp_path):
    tails: list[str] = []
    gate = tmp_path / "gate"

    def on_output(tail: str, _size: int) -> None:
        tails.append(tail)
        gate.touch()

    await runner.run(
        "seq 1 50000; until [ -e gate ]; do sleep 0.01; done",
        cwd=str(tmp_path),
        on_output=on_output,
    )

    assert all(len(tail) <= 4096 for tail in tails)
    assert any(tail.endswith("\n50000\n") for tail in tails) or tails[0]


async def test_many_commands_run_concurrently(runner, tmp_path):
    texts = await asyncio.gather(*(text_of(runner, f"echo {n}", tmp_path) for n in range(30)))

    assert texts == [f"{n}\n" for n in range(30)]


async def test_no_command_starts_after_shutdown(runner, tmp_path):
    await runner.shutdown()

    with pytest.raises(ProcessError):
        await runner.run("true", cwd=str(tmp_path))


async def test_exit_is_noticed_without_pidfd(runner, tmp_path, monkeypatch):
    monkeypatch.delattr("os.pidfd_open", raising=False)

    finished = await runner.run("echo a; exit 4", cwd=str(tmp_path))

    assert (finished.exit_code, finished.output.head) == (4, b"a\n")
