"""What a test needs of the machine: missing, it skips, or fails where everything is required."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def lacking(what: str) -> None:
    if os.environ.get("DIRGE_TEST_REQUIRE") == "all":
        pytest.fail(f"{what} is required here and missing")
    pytest.skip(f"needs {what}")


def require_root_tools(*programs: str) -> None:
    if os.geteuid() != 0:
        lacking("root")
    for program in programs:
        if shutil.which(program) is None:
            lacking(program)


@contextmanager
def small_disk(folder: Path, *options: str) -> Iterator[Path]:
    """`folder` as a file system of its own for the time of the block."""
    require_root_tools("mount", "umount")
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        lacking("permission to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
