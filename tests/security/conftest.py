"""Marks every test of this folder, and prints what was counted."""

from pathlib import Path

import pytest

from tests.security.sizes import ASKED, COUNTS

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.security)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if ASKED and COUNTS:
        terminalreporter.section("security counts")
        for name, lines in sorted(COUNTS.items()):
            for line in lines:
                terminalreporter.write_line(f"{name}: {line}")
