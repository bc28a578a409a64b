"""Output as text, JSON and JSON lines, also for readers that leave."""

import json
import subprocess

import pytest

from dirge_py.session.store import Store
from dirge_py.types.errors import SessionError
from tests.support.fake_service import ModelReply
from tests.support.product import ComputedReply, HeldReply, Product, finish

RESULT_KEYS = {
    "type",
    "subtype",
    "is_error",
    "exit_code",
    "result",
    "session_id",
    "model",
    "provider",
    "num_turns",
    "duration_ms",
    "duration_api_ms",
    "total_cost_usd",
    "usage",
    "permission_denials",
}


def test_text_output_is_answer_only(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = product.run_apart("-p", "ping")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "pong\n", "")


def test_empty_answer_is_reported_on_stderr(product: Product) -> None:
    product.will(*[ModelReply(thinking="hm")] * 4)
    text = "dirge: The model gave an empty answer twice in a row.\n"

    result = product.run("-p", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(text)
    result = product.ask("x")
    assert (result.exit_code, result.json["result"]) == (1, "")


def test_text_output_is_last_answer_only(product: Product) -> None:
    product.will(
        ModelReply(text="Let me look.", calls=[("list_dir", {"path": "."})]),
        ModelReply(text="Empty."),
    )

    assert product.run("-p", "look").stdout == "Empty.\n"


def test_text_output_to_pipe_has_no_escape_sequences(product: Product) -> None:
    product.will(ModelReply(text="**pong**", thinking="hm"))

    result = product.run("-p", "ping")

    assert "\x1b" not in result.stdout + result.stderr


OBEYED = "a\x1b]0;TITLE\x07b\x1b[2Jc\x9b31md\u202ee\rf"
"""Control characters with a letter between each."""


def test_text_output_to_pipe_strips_control_characters(product: Product) -> None:
    product.will(ModelReply(text=OBEYED))

    result = product.run("-p", "-o", "exact.txt", "ping")

    assert result.stdout == "abcd<U+202E>e\nf\n"
    assert (product.project / "exact.txt").read_bytes().decode() == OBEYED + "\n"


@pytest.mark.parametrize("shape", ["json", "claude", "native"])
def test_json_output_escapes_control_characters_without_loss(product: Product, shape: str) -> None:
    product.will(
        ModelReply(text=OBEYED, calls=[("bash", {"command": f"rm {OBEYED}"})]),
        ModelReply(text=OBEYED),
    )
    flags = ["--output-format", "json"]
    if shape != "json":
        flags = ["--output-format", "stream-json", "--event-format", shape]
        flags.append("--include-partial-messages")

    result = product.run("-p", *flags, "ping")

    assert not {"\x1b", "\x9b", "\u202e", "\r"} & set(result.stdout + result.stderr)
    assert result.lines[-1]["result"] == OBEYED
    assert result.lines[-1]["permission_denials"][0]["tool_input"]["command"] == f"rm {OBEYED}"


def test_output_of_slash_command_strips_control_characters(product: Product) -> None:
    result = product.run("-p", f"/why bash echo {OBEYED}")

    assert result.exit_code == 0 and "<U+202E>" in result.stdout
    assert not {"\x1b", "\x9b", "\u202e", "\r"} & set(result.stdout + result.stderr)


def test_json_output_is_one_object_with_every_key(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    result = product.ask("x")

    assert result.stdout.count("\n") == 1
    assert set(result.json) == RESULT_KEYS
    assert result.json["subtype"] == "success"
    assert result.json["is_error"] is False
    assert result.json["exit_code"] == 0
    assert result.json["num_turns"] == 1
    assert result.json["result"] == "ok"
    assert result.json["duration_ms"] >= result.json["duration_api_ms"] >= 0
    assert result.json["permission_denials"] == []


def test_claude_lines_have_expected_order(product: Product) -> None:
    product.file("a.txt", "one\n")
    product.will(
        ModelReply(text="Reading.", calls=[("read", {"path": "a.txt"})]),
        ModelReply(text="It is one."),
    )

    lines = product.run("-p", "--output-format", "stream-json", "x").lines

    kinds = [
        (line["type"], [block["type"] for block in line.get("message", {}).get("content", [])])
        for line in lines
    ]
    assert kinds == [
        ("system", []),
        ("assistant", ["text", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text"]),
        ("result", []),
    ]
    assert lines[0]["subtype"] == "init"
    assert {"cwd", "model", "tools", "permissionMode", "slash_commands"} <= set(lines[0])
    call = lines[1]["message"]["content"][1]
    assert (call["name"], call["input"]) == ("read", {"path": "a.txt"})
    assert lines[2]["message"]["content"][0]["tool_use_id"] == call["id"]
    assert {line["session_id"] for line in lines} == {product.journals[0].stem}
    assert set(lines[-1]) == RESULT_KEYS


def test_native_event_ids_are_unique_and_resumable_from_journal(
    product: Product,
) -> None:
    product.will(ModelReply(calls=[("ls", {"path": "."})]), ModelReply(text="one"))
    product.will(ModelReply(text="two"))
    flags = ("-p", "--output-format", "stream-json", "--event-format", "native")
    first = product.run(*flags, "--include-partial-messages", "x")
    second = product.run("-c", *flags, "y")

    events = [line for line in (*first.lines, *second.lines) if line["type"] != "result"]
    ids = [event["event_id"] for event in events]
    assert len(set(ids)) == len(ids)
    [path] = product.journals
    records = [json.loads(line) for line in path.read_text().splitlines()]
    known = {record["id"]: record["seq"] for record in records}
    for event in events:
        record_id, _, rest = event["event_id"].partition(".")
        assert record_id in known or record_id == "0"
        if "journal_seq" in event:
            assert (known[record_id], rest) == (event["journal_seq"], "")

    folder = path.parent
    store = Store(folder.parent.parent, product.project, app_version="0")
    for event in events:
        tail = store.events_since(path.stem, event["event_id"])
        assert [r.id for r in tail] == list(known)[known.get(event["event_id"][:12], 0) :]
    with pytest.raises(SessionError, match=r"has no event 'nothing\.1'"):
        store.events_since(path.stem, "nothing.1")


def test_native_lines_are_numbered(product: Product) -> None:
    product.file("a.txt", "one\n")
    product.will(ModelReply(calls=[("read", {"path": "a.txt"})]), ModelReply(text="It is one."))

    lines = product.run(
        "-p", "--output-format", "stream-json", "--event-format", "native", "x"
    ).lines

    assert [line["seq"] for line in lines] == list(range(len(lines)))
    types = [line["type"] for line in lines]
    assert types[:3] == ["agent_start", "turn_start", "message_start"]
    assert types[-2:] == ["agent_end", "result"]
    assert "message_update" not in types
    started = next(line for line in lines if line["type"] == "tool_execution_start")
    assert (started["tool_name"], started["args"]) == ("read", {"path": "a.txt"})
    ended = next(line for line in lines if line["type"] == "tool_execution_end")
    assert ended["tool_call_id"] == started["tool_call_id"]
    assert ended["duration_ms"] >= 0
    results = [
        line["message"]
        for line in lines
        if line["type"] == "message_end" and line["message"]["role"] == "toolResult"
    ]
    assert [(r["tool_name"], r["is_error"]) for r in results] == [("read", False)]
    assert all(line["cost_usd"] is not None for line in lines if line["type"] == "usage")


def test_stored_event_has_sequence_number_of_its_record(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    lines = product.run(
        "-p", "--output-format", "stream-json", "--event-format", "native", "ping"
    ).lines

    stored = [json.loads(line) for line in product.journals[0].read_text().splitlines()]
    types = {record["seq"]: record["type"] for record in stored}
    ends = [line for line in lines if line["type"] == "message_end"]
    assert [types[line["journal_seq"]] for line in ends] == ["message", "message"]


@pytest.mark.parametrize("shape", ["claude", "native"])
def test_partial_messages_add_up_to_answer(product: Product, shape: str) -> None:
    product.will(ModelReply(text="a longer answer", delta_chars=3))

    lines = product.run(
        *("-p", "--output-format", "stream-json", "--event-format", shape),
        *("--include-partial-messages", "x"),
    ).lines

    if shape == "claude":
        events = [line["event"] for line in lines if line["type"] == "stream_event"]
        pieces = [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"]
        assert events[0]["type"] == "message_start"
        assert events[-1]["type"] == "message_stop"
    else:
        pieces = [line["delta"] for line in lines if line["type"] == "message_update"]
    # Those that arrive together are joined.
    assert 1 <= len([piece for piece in pieces if piece]) <= 5
    assert "".join(pieces) == "a longer answer"


def test_answer_is_also_written_to_output_file(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = product.ask("-o", "answer.txt", "ping")

    assert (product.project / "answer.txt").read_text() == "pong\n"
    assert result.json["result"] == "pong"


def test_unwritable_output_file_is_reported(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    (product.project / "answer.txt").symlink_to("/proc/self/nothing")
    result = product.run("-p", "-o", "answer.txt", "ping")

    assert result.stdout == "pong\n"
    assert "cannot write answer.txt" in result.stderr
    assert result.exit_code == 1


def test_output_file_in_missing_folder_is_refused_before_run(product: Product) -> None:
    result = product.run("-p", "-o", "missing/answer.txt", "ping")

    assert result.exit_code == 2
    assert "missing" in result.stderr
    assert product.service.requests == []


def test_lines_are_utf8_with_any_character(product: Product) -> None:
    product.will(ModelReply(text="naïve 雪 \u2028 end"))

    result = product.run("-p", "--output-format", "stream-json", "x")

    assert result.lines[-1]["result"] == "naïve 雪 \u2028 end"
    assert "雪" in result.stdout


@pytest.mark.parametrize("shape", ["claude", "native"])
def test_closed_stdout_stops_output_but_not_run(product: Product, shape: str) -> None:
    marker = product.base / "done"
    held = HeldReply(
        reply=ModelReply(calls=[("bash", {"command": f"echo {'x' * 3000}; touch {marker}"})])
    )
    product.will(held, *[ModelReply(text="y" * 3000)] * 2)
    process = product.start(
        *("-p", "--yolo", "--output-format", "stream-json", "--event-format", shape, "x")
    )
    product.service.wait_for(1)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["session_id"]
    process.stdout.close()
    process.stdout = None

    held.gate.set()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.stderr.close()

    assert process.wait() == 0
    assert errors == ""
    assert marker.exists()


def test_output_piped_into_head_shows_no_traceback(product: Product) -> None:
    product.will(ModelReply(text="y\n" * 50_000))
    command = "set -o pipefail; dirge -p x 2>err.txt | head -1"

    done = subprocess.run(
        ["bash", "-c", command.replace("dirge", "python -m dirge_py")],
        cwd=product.project,
        env=product.environment,
        capture_output=True,
        text=True,
    )

    assert done.stdout == "y\n"
    assert (product.project / "err.txt").read_text() == ""


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_answer_that_cannot_be_written_fails(product: Product, output: str) -> None:
    product.will(ModelReply(text="pong"))

    with open("/dev/full", "w") as full:
        result = finish(product.start("-p", "--output-format", output, "x", stdout=full.fileno()))

    assert result.exit_code == 1
    assert "cannot write the output: No space left on device" in result.stderr


def test_other_commands_fail_when_stdout_cannot_be_written(product: Product) -> None:
    to_full = ["bash", "-c", 'exec "$@" >/dev/full', "bash"]

    for command in ("--help", "sessions"):
        result = finish(product.start_fresh(command, prefix=to_full))

        assert result.exit_code == 1
        assert "cannot write the output: No space left on device" in result.stderr


def test_slow_reader_gets_complete_output(product: Product) -> None:
    product.will(ModelReply(text="z" * 400_000))
    process = product.start("-p", "--output-format", "json", "x")
    product.service.wait_for(1)

    assert len(json.loads(finish(process).stdout)["result"]) == 400_000


def test_harness_message_is_marked_synthetic(product: Product) -> None:
    product.will(ComputedReply(lambda request: ModelReply(calls=[("list_dir", {"path": "."})])))

    lines = product.run("-p", "--max-turns", "1", "--output-format", "stream-json", "x").lines

    synthetic = [line for line in lines if line.get("isSynthetic")]
    assert [line["type"] for line in synthetic] == ["assistant"]


@pytest.mark.parametrize("shape", ["claude", "native"])
def test_value_that_json_cannot_represent_is_null(product: Product, shape: str) -> None:
    folder = product.config_dir / "plugins"
    folder.mkdir(parents=True)
    (folder / "mean.py").write_text(
        "def register(dirge):\n"
        "    @dirge.tool(op='read')\n"
        "    def mean() -> float:\n"
        "        'The mean.'\n"
        "        return float('nan')\n"
    )
    product.will(ModelReply(calls=[("mean", {})]), ModelReply(text="There is none."))

    words = ("-p", "--output-format", "stream-json", "--event-format", shape, "x")
    result = product.run(*words)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    lines = [json.loads(line, parse_constant=refuse) for line in result.stdout.splitlines()]
    assert lines[-1]["result"] == "There is none."
