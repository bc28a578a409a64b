"""Writing to readers that are slow, closed or interrupted."""

import fcntl
import os
import signal
import threading
from contextlib import ExitStack

import pytest

from dirge_py.frontend.print.streams import Stdout, on_signals

MUCH = "0123456789\n" * 100_000


def drained(fd: int) -> bytes:
    pieces = []
    while piece := os.read(fd, 65536):
        pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("blocking", [True, False])
def test_slow_reader_gets_every_byte_in_order(blocking: bool) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(drained(reading)))
    reader.start()

    Stdout(writing).write(MUCH)

    os.close(writing)
    reader.join()
    os.close(reading)
    assert got == [MUCH.encode()]


def test_closed_reader_stops_output() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stdout = Stdout(writing)

    stdout.write("one\n")
    stdout.write("two\n")

    os.close(writing)
    assert stdout.is_closed


def test_signal_abandons_blocked_write() -> None:
    reading, writing = os.pipe()
    stdout = Stdout(writing)
    heard: list[str] = []
    handled = ExitStack()
    handled.enter_context(on_signals(stdout, heard.append))
    full = threading.Thread(target=lambda: _when_blocked(stdout, signal.SIGTERM))
    full.start()
    try:
        stdout.write(MUCH)
    finally:
        full.join()
        handled.close()
        os.close(reading)
        os.close(writing)

    assert stdout.is_closed
    assert heard == ["SIGTERM"]


def test_signal_does_not_disturb_write_that_succeeds() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1024 * 1024)
    stdout = Stdout(writing)
    handled = ExitStack()
    handled.enter_context(on_signals(stdout, lambda name: None))
    over = threading.Event()

    def disturb() -> None:
        while not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            os.sched_yield()

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        stdout.write(MUCH[:900_000])
    finally:
        over.set()
        disturber.join()
        handled.close()
        os.close(writing)

    assert not stdout.is_closed
    assert drained(reading) == MUCH[:900_000].encode()
    os.close(reading)


def _when_blocked(stdout: Stdout, number: signal.Signals) -> None:
    while not stdout.is_blocked:
        os.sched_yield()
    os.kill(os.getpid(), number)


def test_closed_reader_is_not_a_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stdout = Stdout(writing)
    stdout.write("one\n")
    os.close(writing)

    assert stdout.failure == ""


def test_full_disk_is_a_failure() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    stdout = Stdout(full)
    stdout.write("one\n")
    os.close(full)

    assert (stdout.is_closed, stdout.failure) == (True, "No space left on device")
