"""Stop checks add few model calls to ordinary tasks."""

from pathlib import Path

import pytest

from tests.support.ordinary_tasks import MOST_EXTRA, TASKS, run_task


async def test_stop_checks_add_few_model_calls_to_ordinary_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for number, task in enumerate(TASKS):
        base = tmp_path / str(number)
        base.mkdir()
        runs.append(await run_task(task, base, monkeypatch.chdir))

    nudged = {run.name: run.gates for run in runs if run.extra}
    assert nudged == {
        "edit code, nothing run": ("verifier",),
        "edit, then commit as asked": ("verifier",),
    }
    calls, extra = sum(run.calls for run in runs), sum(run.extra for run in runs)
    assert extra <= MOST_EXTRA * calls
