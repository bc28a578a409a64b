"""Processes that start quickly: forks of a server process that has only loaded the program.

A test uses such a process for state it must not share with other tests, such as memory and locks,
or to test how a process ends. Loading the modules again would take most of the test's time.
"""

import contextlib
import fcntl
import gc
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import IO, Any

import pytest

from dirge_py.cli.entry import main

ROOT = Path(__file__).resolve().parents[2]


def run_forked(
    target: Callable[..., object],
    *arguments: Any,
    environment: Mapping[str, str],
    cwd: Path,
    patience_s: float,
    stdin: str | None = None,
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `target(*arguments)`. `stdin` None is /dev/null.

    Raises:
        TimeoutExpired: it took longer than `patience_s`; it is killed then.
    """
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        given = Path(os.devnull)
        if stdin is not None:
            given = folder / "in"
            given.write_bytes(stdin.encode())
        streams = (given, folder / "out", folder / "err")
        process = _loaded().Process(
            target=_play, args=(target, arguments, dict(environment), cwd, streams)
        )
        process.start()
        process.join(patience_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(repr(target), patience_s)
        exit_code = process.exitcode
        process.close()
        return exit_code, streams[1].read_bytes().decode(), streams[2].read_bytes().decode()


class Forked:
    """A process with the interface of `subprocess.Popen`."""

    returncode: int | None = None

    def __init__(self, target: Callable[..., object], *arguments: Any) -> None:
        self._process = _loaded().Process(target=target, args=arguments, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit code if it has ended."""
        if self.returncode is None and self._process.exitcode is not None:
            self.returncode = self._process.exitcode
            self._process.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code.

        Raises:
            TimeoutExpired: it took longer than `timeout`.
        """
        if self.returncode is None:
            self._process.join(timeout)
        exit_code = self.poll()
        if exit_code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return exit_code


class OnTerminal(Forked):
    """`python ARGUMENTS` on a terminal.

    `terminal` is a descriptor of it, which is taken over. `owns_it`: the terminal's end is told
    to it by a signal, as a login arranges it.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        terminal: int,
        *,
        environment: Mapping[str, str],
        cwd: Path,
        owns_it: bool,
    ) -> None:
        # A connection is what the standard library hands from process to process.
        with Connection(terminal) as handed:
            super().__init__(_play_on, tuple(arguments), handed, dict(environment), cwd, owns_it)


class Piped(Forked):
    """`target(*arguments)` with text pipes.

    `stdin` is a descriptor, `PIPE` or `DEVNULL`, and `stdout` is a descriptor or `PIPE`.
    """

    stdin: IO[str] | None = None
    stdout: IO[str] | None = None
    stderr: IO[str] | None

    def __init__(
        self,
        target: Callable[..., object],
        *arguments: Any,
        environment: Mapping[str, str],
        cwd: Path,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
    ) -> None:
        if stdin == subprocess.PIPE:
            given, writing = os.pipe()
            self.stdin = os.fdopen(writing, "w", encoding="utf-8")
        else:
            given = os.open(os.devnull, os.O_RDONLY) if stdin < 0 else os.dup(stdin)
        if stdout == subprocess.PIPE:
            reading, out = os.pipe()
            self.stdout = os.fdopen(reading, encoding="utf-8")
        else:
            out = os.dup(stdout)
        reading, err = os.pipe()
        self.stderr = os.fdopen(reading, encoding="utf-8")
        with Connection(given) as first, Connection(out) as second, Connection(err) as third:
            handed = (first, second, third)
            super().__init__(_play_piped, target, arguments, handed, dict(environment), cwd)

    def __enter__(self) -> "Piped":
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self.kill()
        self.wait()
        if error is None:
            for stream in filter(None, (self.stdin, self.stdout, self.stderr)):
                stream.close()

    def communicate(
        self, given: str | None = None, timeout: float | None = None
    ) -> tuple[str, str]:
        """Send `given`, close stdin, and read stdout and stderr to their end.

        Raises:
            TimeoutExpired: that took longer than `timeout`.
        """
        said = ["", ""]

        def tell() -> None:
            with contextlib.suppress(BrokenPipeError), self.stdin or io.StringIO() as stdin:
                stdin.write(given or "")

        def hear(number: int, stream: IO[str]) -> None:
            with stream:
                said[number] = stream.read()

        threads = [threading.Thread(target=tell, daemon=True)]
        for number, stream in enumerate((self.stdout, self.stderr)):
            if stream is not None:
                threads.append(threading.Thread(target=hear, args=(number, stream), daemon=True))
        for thread in threads:
            thread.start()
        end = None if timeout is None else time.monotonic() + timeout
        for thread in threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
            if thread.is_alive():
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        self.wait(None if end is None else max(0.0, end - time.monotonic()))
        return said[0], said[1]


def dirge(*words: str) -> None:
    """Do what `python -m dirge_py WORDS` does."""
    sys.argv[1:] = words
    main()


def _loaded() -> ForkServerContext:
    """Starts processes from one server process, which ends with the tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.preloaded"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        forkserver.ensure_running()
    return context


def _play(
    target: Callable[..., object],
    arguments: tuple[Any, ...],
    environment: dict[str, str],
    cwd: Path,
    streams: tuple[Path, Path, Path],
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    _redirect(*streams)
    warnings.filterwarnings("error", category=ResourceWarning)
    target(*arguments)
    # A process that ends by itself complains of what was left open, and so must this one.
    gc.collect()
    sys.stdout.flush()


def _play_piped(
    target: Callable[..., object],
    arguments: tuple[Any, ...],
    streams: "tuple[Connection[object, object], ...]",
    environment: dict[str, str],
    cwd: Path,
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    _take_over(*(os.dup(stream.fileno()) for stream in streams))
    for stream in streams:
        stream.close()
    warnings.filterwarnings("error", category=ResourceWarning)
    target(*arguments)
    sys.stdout.flush()


def _play_on(
    arguments: tuple[str, ...],
    terminal: "Connection[object, object]",
    environment: dict[str, str],
    cwd: Path,
    owns_it: bool,
) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    with terminal:
        _take_over(*(os.dup(terminal.fileno()) for _ in range(3)), buffering=1)
    # Textual reads and writes these.
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[assignment]
    if owns_it:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    match arguments:
        case ("-c", code, *words):
            sys.argv[:] = ["-c", *words]
            exec(code, {"__name__": "__main__"})
        case ("-m", "dirge_py", *words):
            dirge(*words)
        case _:
            raise ValueError(arguments)


def _redirect(given: Path, out: Path, err: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    _take_over(os.open(given, os.O_RDONLY), os.open(out, flags), os.open(err, flags))


def _take_over(*opened: int, buffering: int = -1) -> None:
    for number, descriptor in enumerate(opened):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
