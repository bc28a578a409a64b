import json
import stat
from pathlib import Path

import pytest

from dirge_py.files.log_file import Log
from dirge_py.lib.redaction import Redactor
from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from dirge_py.types.messages import AssistantMessage, TextBlock
from dirge_py.types.outcomes import Done
from dirge_py.types.tools import text_result

ANSWER = AssistantMessage(content=(TextBlock("hello"),), model="work/m")


class Seconds:
    """A clock that advances one second per call."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def log(tmp_path: Path, notes: list[str]):
    log = Log(
        tmp_path / "log" / "dirge.jsonl",
        Redactor(["topsecret"]).redact,
        session_id="s1",
        note=notes.append,
        clock=Seconds(),
    )
    yield log
    log.close()


def records(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_run_is_logged_with_ids_and_durations(log):
    for event in (
        AgentStart(run_id="r1"),
        TurnStart(turn=0),
        MessageStart(ANSWER),
        MessageUpdate(phase="text_delta", index=0, delta="hello"),
        MessageEnd(ANSWER),
        ToolExecutionStart(tool_call_id="c1", tool_name="bash", args={"command": "ls"}),
        ToolExecutionEnd(
            tool_call_id="c1",
            tool_name="bash",
            result=text_result("a\nb"),
            is_error=False,
            duration_ms=5,
        ),
        TurnEnd(message=ANSWER),
        AgentEnd(messages=(ANSWER,), outcome=Done()),
    ):
        log.sink(event)

    written = records(log.path)
    assert all(record.pop("ts") for record in written)
    turn = {"session": "s1", "run": "r1", "turn": 0}
    tool = {**turn, "call": "c1", "tool": "bash"}
    assert written == [
        {"session": "s1", "run": "r1", "kind": "agent_start"},
        {**turn, "kind": "turn_start"},
        {
            **turn,
            "kind": "model_call",
            "model": "work/m",
            "stop_reason": "stop",
            "characters": 5,
            "calls": [],
            "duration_ms": 1000,
        },
        {**tool, "kind": "tool_execution_start", "args": {"command": "ls"}},
        {
            **tool,
            "kind": "tool_execution_end",
            "outcome": "ok",
            "is_error": False,
            "duration_ms": 5,
            "characters": 3,
        },
        {**turn, "kind": "turn_end", "tool_results": 0, "duration_ms": 3000},
        {**turn, "kind": "agent_end", "outcome": "Done", "messages": 1, "duration_ms": 5000},
    ]


def test_log_redacts_secrets_at_the_cut_of_a_long_text(log):
    args = {"command": "x" * 1995 + "topsecret", "topsecret": ["topsecret"]}
    log.sink(ToolExecutionStart(tool_call_id="c", tool_name="bash", args=args))
    log.record("session", path=Path("/topsecret"), odd="\ud800\u2028")

    text = log.path.read_text("ascii")
    assert "topse" not in text
    assert len(records(log.path)) == 2


def test_log_file_is_created_late_and_private_and_its_path_shown(log, notes):
    assert not log.path.parent.exists() and notes == []
    log.record("session")

    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700
    assert notes == [f"Logging to {log.path}"]


def test_full_log_file_is_rotated(tmp_path, notes):
    log = Log(tmp_path / "dirge.jsonl", str, note=notes.append, max_bytes=500)
    for number in range(20):
        log.record("session", number=number)

    old = log.path.with_name("dirge.jsonl.1")
    assert log.path.stat().st_size <= 500 and old.stat().st_size <= 500
    assert records(log.path)[-1]["number"] == 19
    log.close()


def test_a_log_that_cannot_be_written_says_so_once_and_never_raises(tmp_path, notes):
    (tmp_path / "file").touch()
    log = Log(tmp_path / "file" / "log", str, note=notes.append)
    log.sink(AgentStart(run_id="r"))
    log.record("session")
    log.close()

    assert len(notes) == 1 and "Logging ended" in notes[0]


def test_a_full_disk_ends_the_log_quietly(notes):
    log = Log(Path("/dev/full"), str, note=notes.append)
    log.record("session")
    log.record("session")
    log.close()

    assert len(notes) == 2 and "No space left" in notes[1]


def test_values_that_are_not_json_are_logged_as_text(log):
    log.record("session", odd={1: {2, 3}, "nested": object})

    assert records(log.path)[0]["odd"]["1"] == "{2, 3}"
