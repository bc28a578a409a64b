"""Processes of their own that start at once: forks of one that has loaded the program and no more.

A test starts such a process for what it must not share with another: memory, locks, an end.
Loading the same modules each time would be most of its time.
"""

import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from dirge_py.entry import main

ROOT = Path(__file__).resolve().parents[1]


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


def dirge(*words: str) -> None:
    """What `python -m dirge_py WORDS` does."""
    sys.argv[1:] = words
    main()


def _loaded() -> ForkServerContext:
    """Starts processes from one that is started with the first of them and ends with the tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.loaded"])
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


def _redirect(given: Path, out: Path, err: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, opened in enumerate(
        (os.open(given, os.O_RDONLY), os.open(out, flags), os.open(err, flags))
    ):
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
