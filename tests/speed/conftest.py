"""The bounds, and starts of the program that are counted."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_service import ModelReply, ReceivedRequest
from tests.support.product import ComputedReply, Product, finish, product

__all__ = ["product"]

COUNTED_START = Path(__file__).with_name("counted_start.py")
_GIT = re.compile(r"\bgit (?=[a-z-])")


@dataclass(frozen=True)
class Counts:
    """What `counted_start.py` reported, and what the run left behind."""

    report: dict[str, Any]
    stdout: str
    session_bytes: int

    @cached_property
    def modules(self) -> set[str]:
        return set(self.report["modules"])

    @property
    def processes(self) -> int:
        return len(self.report["processes"])

    @property
    def git_commands(self) -> int:
        """The git programs in the command lines of all processes."""
        return sum(len(_GIT.findall(line)) for line in self.report["processes"])

    @property
    def fsyncs(self) -> int:
        return int(self.report["fsyncs"])

    @property
    def writes(self) -> int:
        return int(self.report["writes"])


def is_ours(module: str) -> bool:
    return module.partition(".")[0] == "dirge_py"


def print_turn(
    product: Product, reply: Callable[[ReceivedRequest], ModelReply], *words: str
) -> Counts:
    """Start `dirge -p` twice, with snapshots as a user has them; the counts of the second start."""
    product.configure("[session]\n")
    product.service.replies[:] = [ComputedReply(reply)] * 100
    report = product.base / "report.json"
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, str(COUNTED_START), str(report), "-p", *words, "hi"],
            cwd=product.project,
            env=product.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        result = finish(process)
        assert result.exit_code == 0, result.stderr
    size = max(product.journals, key=lambda path: path.stat().st_mtime_ns).stat().st_size
    return Counts(json.loads(report.read_text("utf-8")), result.stdout, size)


@pytest.fixture(scope="session")
def bounds() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("bounds.toml").read_text("utf-8"))
