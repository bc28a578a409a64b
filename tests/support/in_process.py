"""Calls the program's entry point inside the test process, which saves a start."""

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from dirge_py.cli.main import run


def run_here(
    words: Sequence[str], *, environment: Mapping[str, str], cwd: Path, stdin: str | None
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `dirge WORDS`, with real file descriptors 0 to 2."""
    with (
        tempfile.TemporaryFile("w+b") as given,
        tempfile.TemporaryFile("w+b") as out,
        tempfile.TemporaryFile("w+b") as err,
    ):
        given.write((stdin or "").encode())
        given.seek(0)
        with _standing_in(cwd, environment), _descriptors(given, out, err):
            try:
                exit_code = run(list(words))
            except SystemExit as end:
                exit_code = int(end.code or 0)
        return exit_code, _read(out), _read(err)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextlib.contextmanager
def _standing_in(cwd: Path, environment: Mapping[str, str]) -> Iterator[None]:
    before, variables = Path.cwd(), dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(variables)
        left = {number: signal.getsignal(number) for number in handlers}
        assert left == handlers, "the program left signal handlers behind"


@contextlib.contextmanager
def _descriptors(*files: IO[bytes]) -> Iterator[None]:
    streams = sys.stdin, sys.stdout, sys.stderr
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(number) for number in range(3)]
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
    with (
        open(0, encoding="utf-8", closefd=False) as stdin,
        open(1, "w", encoding="utf-8", closefd=False) as stdout,
        open(2, "w", encoding="utf-8", closefd=False) as stderr,
    ):
        sys.stdin, sys.stdout, sys.stderr = stdin, stdout, stderr
        try:
            yield
        finally:
            stdout.flush()
            stderr.flush()
            sys.stdin, sys.stdout, sys.stderr = streams
            for number, kept in enumerate(saved):
                os.dup2(kept, number)
                os.close(kept)
