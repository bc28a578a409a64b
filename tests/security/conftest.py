"""Marks every test of this folder, and prints the counts."""

import os
from pathlib import Path

import pytest

from tests.security.sizes import ASKED, COUNTS

HERE = f"{Path(__file__).parent}{os.sep}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.security)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ASKED and COUNTS:
        terminalreporter.section("security counts")
        for name, lines in sorted(COUNTS.items()):
            for line in lines:
                terminalreporter.write_line(f"{name}: {line}")
