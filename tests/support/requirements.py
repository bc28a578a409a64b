"""Requirements of tests on the machine; tests/conftest.py counts what is missing."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    pytest.skip(f"needs {what}")


def require_root_tools(*programs: str) -> None:
    if os.geteuid() != 0:
        lacking("root")
    for program in programs:
        if shutil.which(program) is None:
            lacking(program)


def as_nobody() -> list[str]:
    """A command prefix that runs the command as user nobody."""
    require_root_tools("setpriv")
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*prefix, sys.executable, "-c", ""], capture_output=True).returncode:
        lacking("a Python that other users may run")
    return prefix


@contextmanager
def small_disk(folder: Path, *options: str) -> Iterator[Path]:
    """`folder` as a small file system of its own, during the block."""
    require_root_tools("mount", "umount")
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        lacking("permission to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
