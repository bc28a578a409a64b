"""What the terminal UI imports before its first frame, and that it rests when nothing happens."""

import json
import signal
from pathlib import Path
from typing import Any

from tests.speed.conftest import COUNTED_START, is_ours
from tests.support.terminal import Terminal

RESTS_S = 2.5
"""Longer than any interval in which a status line would change."""


def test_first_frame_needs_no_more_modules(tmp_path: Path, bounds: dict[str, Any]) -> None:
    report = tmp_path / "report.json"
    words = (str(COUNTED_START), str(report))
    terminal = Terminal(words, cwd=tmp_path, is_fresh=True)
    terminal.read_until("ready")
    terminal.child.send_signal(signal.SIGTERM)
    terminal.finish()
    modules = set(json.loads(report.read_text("utf-8"))["first_frame"])
    ours = sum(map(is_ours, modules))
    most = bounds["terminal_ui"]
    assert 0 < ours <= most["dirge_modules"]
    assert len(modules) - ours <= most["other_modules"]
    assert modules & set(most["unwanted"]) == set()


def test_idle_terminal_ui_writes_nothing(tmp_path: Path) -> None:
    terminal = Terminal(cwd=tmp_path)
    terminal.read_until("ready")
    terminal.read_until_silent(RESTS_S)
    terminal.child.send_signal(signal.SIGTERM)
    terminal.finish()
