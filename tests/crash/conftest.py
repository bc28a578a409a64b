"""Marks every test of this folder, and prints the counts."""

import os
from pathlib import Path

import pytest

from tests.security.sizes import ASKED, COUNTS
from tests.support.product import product

__all__ = ["product"]

HERE = f"{Path(__file__).parent}{os.sep}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.crash)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ours = {name: lines for name, lines in COUNTS.items() if name.startswith("crash: ")}
    if ASKED and ours:
        terminalreporter.section("crash counts")
        for name, lines in sorted(ours.items()):
            for line in lines:
                terminalreporter.write_line(f"{name}: {line}")
