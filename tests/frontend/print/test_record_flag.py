"""`--record` writes a run without keys, and the recording replays without the service."""

import json
import os
import signal
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dirge_py.agent_loop.retry import RecoveryPolicy
from dirge_py.providers.replay import read_recording
from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import KEY, NO_SNAPSHOTS, ProcessResult, Product, finish
from tests.support.provider_client import KINDS
from tests.support.requirements import as_nobody, small_disk
from tests.support.terminal import until

NATIVE = ("--output-format", "stream-json", "--event-format", "native")
OF_ONE_RUN = frozenset(
    {
        "cost_usd",
        "total_cost_usd",
        "ts",
        "event_id",
        "session_id",
        "run_id",
        "id",
        "tool_call_id",
        "tool_use_id",
        "duration_ms",
        "duration_s",
    }
    | {"duration_api_ms", "key", "timestamp", "at", "elapsed_s", "ttft_ms"}
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecoveryPolicy, "delay_s", lambda *_: 0.0)


def configure(product: Product, kind: str, **entry: str) -> None:
    """Configure one provider of that type, named `fake`."""
    values = {"type": kind, "model": "m", **entry}
    lines = "".join(f'{name} = "{value}"\n' for name, value in values.items())
    (product.config_dir / "config.toml").write_text(f"{NO_SNAPSHOTS}[providers.fake]\n{lines}")


def comparable(value: Any) -> Any:
    """The output without what differs between any two runs."""
    if isinstance(value, dict):
        return {name: comparable(v) for name, v in value.items() if name not in OF_ONE_RUN}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def without_notices(result: ProcessResult) -> Sequence[Any]:
    return [line for line in comparable(result.lines) if line.get("type") != "system_notice"]


def play(product: Product, file: Path, *words: str) -> ProcessResult:
    configure(product, "replay", script=str(file))
    return product.run("-p", *NATIVE, *words)


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_run_can_be_replayed(product: Product, kind: str) -> None:
    configure(product, kind, base_url=product.service.url(kind), api_key_env="FAKE_KEY")
    product.file("a.txt", "rain\n")
    product.will(
        ModelReply(text="I look.", calls=[("read", {"path": "a.txt"})], delta_chars=3),
        RawReply(status=500, body="no"),
        ModelReply(text="half of the answer", delta_chars=3, after_bytes=900, then="reset"),
        ModelReply(text=f"It rains on {KEY}.", delta_chars=3),
    )
    file = product.base / "run.jsonl"

    result = product.run("-p", *NATIVE, "--record", str(file), "what is the weather?")
    asked = len(product.service.requests)
    played = play(product, file, "what is the weather?")

    assert (result.exit_code, played.exit_code) == (0, 0)
    assert asked == len(product.service.requests) == len(read_recording(str(file)))
    assert without_notices(played) == json.loads(
        json.dumps(without_notices(result)).replace(KEY, "[redacted]")
    )
    assert KEY not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert result.stderr.count(str(file)) == 1


def test_recording_replays_for_another_prompt_and_ends_when_exhausted(product: Product) -> None:
    product.will(ModelReply(calls=[("list_dir", {"path": "."})]), ModelReply(text="ok"))
    file = product.base / "run.jsonl"
    product.run("-p", "--record", str(file), "x")

    played = play(product, file, "something else")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    again = play(product, file, "x")

    assert played.lines[-1]["result"] == "ok"
    assert again.exit_code != 0


def test_existing_file_is_not_overwritten_by_recording(product: Product) -> None:
    file = product.file("run.jsonl", "mine")

    result = product.run("-p", "--record", "run.jsonl", "x")

    assert result.exit_code == 2
    assert f"{file}: this file exists already" in result.stderr
    assert file.read_text() == "mine"
    assert product.service.requests == []


def test_failed_start_leaves_no_recording_file(product: Product) -> None:
    product.will(ModelReply(text="ok"))
    words = ("-p", "--record", "run.jsonl", "x")

    failed = [product.run(*words, env={"FAKE_KEY": ""}), product.run("--allow", "nonsense", *words)]
    result = product.run(*words)

    assert [each.exit_code for each in failed] == [2, 2]
    assert result.stdout == "ok\n"


def test_unwritable_folder_of_recording_ends_start(open_tmp_path: Path, product: Product) -> None:
    nobody = as_nobody()
    closed = product.base / "closed"
    closed.mkdir()
    product.state_dir.mkdir()
    os.chown(product.state_dir, 65534, 65534)

    file = closed / "run.jsonl"
    result = product.run_apart("-p", "--no-session", "--record", str(file), "x", prefix=nobody)

    assert result.exit_code == 2
    assert f"{file}: the file cannot be created: Permission denied" in result.stderr
    assert product.service.requests == []


def test_full_disk_stops_recording_but_not_run(product: Product) -> None:
    product.will(ModelReply(calls=[("list_dir", {"path": "."})]), ModelReply(text="done"))
    with small_disk(product.base / "small", "size=8k") as folder:
        file = folder / "run.jsonl"
        result = product.run("-p", "--record", str(file), "x")

        again = product.run("-p", "--record", str(folder / "other.jsonl"), "x")

        assert (result.exit_code, result.stdout) == (0, "done\n")
        assert (again.exit_code, os.listdir(folder)) == (2, ["run.jsonl"])
        assert result.stderr.count("cannot be written: No space left on device") == 1
        assert file.stat().st_size <= 8192


def test_recording_of_killed_run_can_be_replayed(product: Product) -> None:
    product.will(
        ModelReply(calls=[("list_dir", {"path": "."})]),
        ModelReply(text="one two three four five", delta_chars=4, after_bytes=1500, then="stall"),
    )
    file = product.base / "run.jsonl"
    killed = product.start("-p", "--record", str(file), "x")
    # The line of a request may still be incomplete when its start is readable; the line of
    # the response head follows it.
    until(lambda: file.exists() and file.read_text().count('"status":200') == 2)
    killed.send_signal(signal.SIGKILL)
    finish(killed)

    first, second = read_recording(str(file))
    assert (first.end, second.end) == ("complete", "cut")
    assert "list_dir" in play(product, file, "x").stdout


def test_turn_and_line_mode_can_be_recorded(product: Product) -> None:
    product.will(ModelReply(text="one"), ModelReply(text="two"), ModelReply(text="three"))
    turn = product.run("turn", "--session", "s", "--record", "turn.jsonl", "x")
    line = product.run("--line", "--record", "line.jsonl", stdin="y\n/clear\nz\n")

    assert (turn.exit_code, line.exit_code) == (0, 0)
    answers = {
        name: [exchange.status for exchange in read_recording(str(product.project / name))]
        for name in ("turn.jsonl", "line.jsonl")
    }
    # Two sessions of one process share one recording, which is reported once.
    assert answers == {"turn.jsonl": [200], "line.jsonl": [200, 200]}
    assert (line.stdout + line.stderr).count("without keys") == 1


@pytest.mark.parametrize("content", ["nonsense\n", '{"dirge_recording": 9}\n'])
def test_invalid_recording_is_reported(product: Product, content: str) -> None:
    file = product.file("run.jsonl", content)

    result = play(product, file, "x")

    assert result.exit_code != 0
    assert f"{file}, line 1: " in result.stderr
