"""`dirge stats` and `/stats`."""

import json
from datetime import date

import pytest

from dirge_py.cli.main import run
from dirge_py.types.messages import Usage
from tests.support.project import ScriptedProject
from tests.support.typed_commands import run_command


async def test_stats_sum_stored_requests_by_day_model_and_project(
    project: ScriptedProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for _ in range(3):
        project.model.will_say("Answer.", usage=Usage(input=1000, output=10))
    async with project.open() as conversation:
        await conversation.send("one")
        await conversation.send("two")
    async with project.open() as conversation:
        await run_command("/model fake/unheard-of", conversation)
        await conversation.send("three")
        text = (await run_command("/stats 7", conversation)).text

    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}
    assert lines[date.today().isoformat()][:3] == ["3", "3,000", "30"]
    assert lines["fake/gpt-4o"][:3] == ["2", "2,000", "20"]
    assert lines["fake/unheard-of"] == ["1", "1,000", "10", "unknown"]
    assert lines[project.folder.name][0] == "3"
    assert lines["Total"][3].endswith("+")

    monkeypatch.setenv("DIRGE_STATE_DIR", str(project.state_dir))
    assert run(["stats", "--json", "--days", "1"]) == 0
    rows = json.loads(capsys.readouterr().out)["spending"]
    assert [row["requests"] for row in rows] == [2, 1]
    assert run(["stats", "--days", "0"]) == 2
    assert run(["stats"]) == 0
    assert "By project" in capsys.readouterr().out
