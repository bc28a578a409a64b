"""Weak models through the whole product: nothing is lost, every run ends, and none ends silently.

`make endurance` runs all scripts and prints the table; an ordinary test run uses a sample.
"""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.endurance.script_player import Played, Player, table
from tests.endurance.weak_models import weak_models

SAMPLE, ALL = 200, 1500
LEAST_REPAIRED = 0.95


@pytest.fixture
async def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Played]:
    monkeypatch.chdir(tmp_path)
    player = Player(tmp_path)
    count = ALL if os.environ.get("ENDURANCE") == "all" else SAMPLE
    return [await player.play(model) for model in weak_models(count)]


async def test_weak_models_finish_and_change_nothing_else(
    runs: list[Played], capsys: pytest.CaptureFixture[str]
) -> None:
    if os.environ.get("ENDURANCE"):
        with capsys.disabled():
            sys.stdout.write(f"\n{table(runs)}\n")
    broken = Counter(problem for run in runs for problem in run.problems)
    unrepaired = broken.pop("not repaired", 0)
    assert not broken, table(runs)
    repairable = sum(run.model.expected == "repaired" for run in runs)
    assert unrepaired <= (1 - LEAST_REPAIRED) * repairable, table(runs)
