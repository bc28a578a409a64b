"""Detecting questions in a command's output."""

import asyncio
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.processes.watch import WatchSettings, question_at_end, repeated_question
from tests.processes.test_process_cleanup import until

QUESTIONS = [
    "Password: ",
    "[sudo] password for x:",
    "Enter passphrase for key '/root/.ssh/id_rsa': ",
    "Username for 'https://github.com': ",
    "host login: ",
    "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
    "Do you want to continue? [Y/n] ",
    "Remove x? (y/n) [n]: ",
    "Ok to proceed? (y) ",
    "Press any key to continue . . . ",
    "-- Press ENTER --",
    "Continue?",
]
NO_QUESTIONS = [
    "",
    "Password: \n",
    "Continue? [y/N] y\n",
    "Building...",
    " 50%\r",
    "error: wrong password",
    "Testing yes/no questions, which takes until all of the hundred of them are answered",
    "Compiling login.c",
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_unanswered_question_at_end_is_detected(text):
    assert question_at_end(f"before\n{text}") == text.strip()
    assert question_at_end(f"50%\r\x1b[1m{text}\x1b[0m") == text.strip()


@pytest.mark.parametrize("text", NO_QUESTIONS)
def test_output_end_without_question_is_no_question(text):
    assert question_at_end(f"Password: secret\n{text}") == ""


@pytest.mark.parametrize(
    "loop", ["Continue? [y/N]\n", "Continue? [y/N] ", "Answer yes or no.\nContinue? [y/N]\n"]
)
@pytest.mark.parametrize("cut", [0, 1, 3, 7, 14])
def test_repeated_question_is_detected_at_any_cut(loop, cut):
    text = "make: done\n" + loop * 40

    assert repeated_question(text[: len(text) - cut]) == "Continue? [y/N]"
    assert repeated_question(loop * 9) == ""


def test_repeated_lines_without_question_are_ignored():
    assert repeated_question("y\n" * 2000) == ""
    assert repeated_question("".join(f"Password {n}:\n" for n in range(200))) == ""


@given(st.text(max_size=300), st.sampled_from(QUESTIONS), st.integers(10, 30))
def test_repeated_question_is_detected_after_any_text(before, question, times):
    assert repeated_question(before + "\n" + f"{question.strip()}\n" * times) == question.strip()


QUICK = WatchSettings(asks_s=0.3, look_s=0.1)


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("echo begun; printf 'Continue? [y/N] '; sleep 100", "Continue? [y/N]"),
        ("printf 'Password: ' >&2; while :; do sleep 0.05; done", "Password:"),
        ("while printf 'Retry? [y/N] '; ! read x; do :; done", "Retry? [y/N]"),
        ("yes 'Really? (yes/no)'", "Really? (yes/no)"),
    ],
)
async def test_command_that_asks_is_stopped_and_question_is_reported(
    runner, tmp_path, command, question
):
    finished = await runner.run(command, cwd=str(tmp_path), timeout_s=20, watching=QUICK)

    assert finished.question == question
    assert not finished.timed_out and finished.exit_code is None
    assert finished.duration_s < 5


async def test_command_that_keeps_working_after_question_is_not_stopped(runner, tmp_path):
    command = "printf 'Continue? [y/N] '; timeout 0.8 sh -c 'while :; do :; done'; echo done"
    finished = await runner.run(command, cwd=str(tmp_path), watching=QUICK)

    assert finished.output.head == b"Continue? [y/N] done\n"


async def test_without_watching_question_is_ordinary_output(runner, tmp_path):
    finished = await runner.run("printf 'Password: '; sleep 0.7", cwd=str(tmp_path))

    assert (finished.exit_code, finished.question) == (0, "")


async def test_quiet_command_reports_tail_until_new_output(runner, tmp_path):
    received = []
    watching = WatchSettings(
        quiet_s=0.15, look_s=0.05, on_quiet=lambda tail, quiet_s: received.append((tail, quiet_s))
    )
    run = asyncio.ensure_future(
        runner.run(
            "echo a; until [ -e gate ]; do sleep 0.01; done; echo b",
            cwd=str(tmp_path),
            watching=watching,
        )
    )
    await until(lambda: received)
    (tmp_path / "gate").touch()
    finished = await run

    assert [tail for tail, _ in received] == ["a\n"]
    assert 0.15 <= received[0][1] < 5
    assert finished.quiet_s < 1


async def test_watching_ends_with_command(runner, tmp_path):
    descriptors = os.listdir("/proc/self/fd")
    received = []
    watching = WatchSettings(
        quiet_s=0.01, look_s=0.01, on_quiet=lambda *quiet: received.append(quiet)
    )
    await runner.run("true", cwd=str(tmp_path), watching=watching)
    count = len(received)
    await runner.run("sleep 0.1", cwd=str(tmp_path))

    assert len(received) == count
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)
