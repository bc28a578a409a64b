"""Sessions continued by other processes: one turn at a time, or after a decision."""

import json
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from dirge_py.session.journal import read_journal
from tests.support.fake_service import ModelReply
from tests.support.product import HeldReply, ProcessResult, Product, finish

BATCH = ModelReply(
    calls=[
        ("read", {"path": "note.txt"}),
        ("bash", {"command": "echo ran >> ran.txt"}),
        ("read", {"path": "other.txt"}),
    ]
)
TWO_ASKS = ModelReply(
    calls=[
        ("bash", {"command": "echo one >> ran.txt"}),
        ("read", {"path": "note.txt"}),
        ("bash", {"command": "echo two >> ran.txt"}),
    ]
)
LOOK = ModelReply(calls=[("list_dir", {"path": "."})], usage=(100, 10, 0, 0))
DONE = ModelReply(text="done", usage=(200, 20, 0, 0))


@pytest.fixture
def notes(product: Product) -> Product:
    product.file("note.txt", "remember\n")
    product.file("other.txt", "the milk\n")
    return product


def pause(product: Product, batch: ModelReply = BATCH) -> ProcessResult:
    """A run that waits for a decision, in its own process."""
    product.will(batch)
    return product.run_forked("-p", "--output-format", "json", "--on-ask", "defer", "go")


def resume(product: Product, file: str, *words: str, **options: Any) -> ProcessResult:
    return product.run_forked("resume", file, *words, "--output-format", "json", **options)


def commands_run(product: Product) -> list[str]:
    path = product.project / "ran.txt"
    return path.read_text().split() if path.exists() else []


def results(product: Product) -> list[tuple[str, str]]:
    """The ids and results of calls in the last request."""
    return [(m["tool_call_id"], m["content"]) for m in product.sent() if m["role"] == "tool"]


def record_data(product: Product, type_name: str) -> list[Any]:
    records = read_journal(product.journals[0]).records
    return [record.data for record in records if record.type == type_name]


def turn(product: Product, *words: str, **options: Any) -> ProcessResult:
    return product.run_forked(
        "turn", "--session", "s", "--output-format", "json", *words, **options
    )


# -- turns


def test_a56_each_process_takes_one_turn(product: Product) -> None:
    product.will(LOOK, LOOK, DONE)

    first, second, third = (turn(product, *words) for words in (("--input", "look around"), (), ()))

    assert [r.exit_code for r in (first, second, third)] == [10, 10, 0]
    assert [r.json["turn"] for r in (first, second, third)] == [1, 2, 3]
    assert [r.json["turn_usage"]["input_tokens"] for r in (first, second, third)] == [100, 100, 200]
    assert [r.json["total_usage"]["input_tokens"] for r in (first, second, third)] == [
        *(100, 200),
        400,
    ]
    assert [r.json["outcome"] for r in (first, third)] == ["NeedsMoreTurns", "Done"]
    assert [r.json["subtype"] for r in (first, third)] == ["success", "success"]
    assert (first.json["is_error"], third.json["result"]) == (False, "done")
    roles = [message["role"] for message in product.sent() if message["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]


def test_a56_session_in_use_is_busy_and_unchanged(product: Product) -> None:
    gate = threading.Event()
    product.will(HeldReply(reply=DONE, gate=gate))
    first = product.start("turn", "--session", "s", "go")
    product.service.wait_for(1)
    before = product.journals[0].read_bytes()

    second = turn(product, "--input", "me too")

    assert second.exit_code == second.json["exit_code"] == 1
    assert "is in use" in second.stderr
    assert second.json["error"]["kind"] == "session_busy"
    assert product.journals[0].read_bytes() == before
    gate.set()
    assert finish(first).stdout == "done\n"
    assert len(product.service.requests) == 1


def test_prompt_of_turn_comes_from_arguments_stdin_or_input_flag(product: Product) -> None:
    product.will(DONE, DONE, DONE)

    product.run("turn", "--session", "s", "from", "words")
    product.run("turn", "--session", "s", stdin="from stdin\n")
    product.run("turn", "--session", "s", "--input", "from input", stdin="not read")

    prompts = [m["content"] for m in product.sent() if m["role"] == "user"]
    assert prompts == ["from words", "from stdin", "from input"]


def test_input_of_turn_runs_no_slash_command(product: Product) -> None:
    product.will(DONE)

    product.run("turn", "--session", "s", "--input", "/why bash ls")

    assert product.sent()[-1]["content"] == "/why bash ls"


def test_turn_count_restarts_with_each_prompt(product: Product) -> None:
    product.will(LOOK, DONE, LOOK)
    turn(product, "--input", "one")
    turn(product)

    again = turn(product, "--input", "two").json

    assert (again["turn"], again["total_usage"]["input_tokens"]) == (1, 100)


@pytest.mark.parametrize("session", ["nothing said", "answered", "waiting"])
def test_turn_without_prompt_needs_an_unfinished_run(product: Product, session: str) -> None:
    if session == "answered":
        product.will(DONE)
        turn(product, "--input", "x")
    elif session == "waiting":
        product.will(BATCH)
        assert turn(product, "--input", "x", "--on-ask", "defer").exit_code == 11
    before = [path.read_bytes() for path in product.journals]
    asked = len(product.service.requests)

    ended = turn(product)

    assert ended.exit_code == ended.json["exit_code"] == 1
    assert {
        "nothing said": "it has no messages yet",
        "answered": "the last answer is complete",
        "waiting": "waits for a decision about 'bash: echo ran >> ran.txt'",
    }[session] in ended.json["error"]["message"]
    assert [path.read_bytes() for path in product.journals] == before
    assert len(product.service.requests) == asked


def test_limit_of_turn_has_same_exit_code_as_limit_of_run(product: Product) -> None:
    product.will(LOOK, LOOK)

    assert turn(product, "--input", "x", "--max-tokens", "50").exit_code == 54
    assert turn(product, "--max-turns", "1").exit_code == 53


def test_failed_turn_can_be_repeated(product: Product) -> None:
    product.will(LOOK)
    assert turn(product, "--input", "x").exit_code == 10
    assert turn(product).exit_code == 1
    product.will(DONE, DONE)

    assert turn(product).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("turn", "--input", "no session"),
        ("turn", "--session", "s", "--input", ""),
        ("turn", "--session", "s", "--input", "a", "b"),
        ("turn", "--session", "../x", "a"),
        ("turn", "--session", "s", "--fork-session"),
        ("turn", "--session", "s", "--no-session", "a"),
        ("turn", "--session", "s", "-p", "a"),
        ("resume", "--confirm"),
        ("resume", "file"),
        ("resume", "file", "--confirm", "--reject", "no"),
        ("resume", "file", "other", "--confirm"),
        ("resume", "file", "--confirm", "--session", "s"),
    ],
)
def test_invalid_arguments_of_turn_and_resume_are_usage_errors(
    product: Product, words: tuple[str, ...]
) -> None:
    product.file("file", "{}")

    ended = product.run(*words, stdin="")

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("dirge: ")
    assert product.service.requests == []


@pytest.mark.parametrize(
    "prompt",
    [("turn",), ("turn", "the", "page"), ("resume", "the", "work"), ("resume", "note.md", "?")],
)
def test_words_that_do_not_fit_turn_or_resume_are_a_prompt(
    product: Product, prompt: tuple[str, ...]
) -> None:
    assert "the terminal UI needs a terminal" in product.run(*prompt).stderr


@pytest.mark.parametrize("name", ["turn", "resume"])
def test_turn_and_resume_have_help(product: Product, name: str) -> None:
    ended = product.run_forked(name, "--help")

    assert (ended.exit_code, ended.stderr) == (0, "")
    assert f"dirge {name}" in ended.stdout
    assert f"dirge {name}" in product.run("--help").stdout


# -- decisions


def test_a57_deferred_call_writes_continuation_file_for_decision(notes: Product) -> None:
    paused = pause(notes)

    result = paused.json
    assert (paused.exit_code, result["subtype"]) == (11, "awaiting_confirmation")
    assert [call["tool_use_id"] for call in result["pending_calls"]] == ["call_1", "call_2"]
    waiting = result["pending_calls"][0]
    assert waiting["tool_input"] == {"command": "echo ran >> ran.txt"}
    assert waiting["title"] == "bash: echo ran >> ran.txt"
    assert waiting["description"].startswith("bash: ")
    file = Path(result["continuation"])
    assert f"dirge resume {file} --confirm" in paused.stderr
    assert file.parent == notes.state_dir / "continuations"
    assert file.name.startswith(result["session_id"] + "-")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    stored = json.loads(file.read_text())
    assert (stored["awaiting"], stored["completed"]) == ("call_1", ["call_0"])
    assert [call["name"] for call in record_data(notes, "tool_started")] == ["read"]
    assert commands_run(notes) == []


def test_a58_confirmed_call_runs_once_and_run_continues(notes: Product) -> None:
    file = pause(notes).json["continuation"]
    notes.will(DONE)

    resumed = resume(notes, file, "--confirm")

    assert (resumed.exit_code, resumed.json["result"]) == (0, "done")
    assert commands_run(notes) == ["ran"]
    assert [call_id for call_id, _ in results(notes)] == ["call_0", "call_1", "call_2"]
    assert [call["call_id"] for call in record_data(notes, "tool_started")] == [
        *("call_0", "call_1"),
        "call_2",
    ]


def test_a58_turn_of_decided_call_ends_once(notes: Product) -> None:
    file = pause(notes).json["continuation"]
    notes.will(DONE)

    resumed = notes.run_forked(
        *("resume", "--confirm", file, "--output-format", "stream-json"),
        *("--event-format", "native", "--tool-call-id", "call_1"),
    )

    ends = [line for line in resumed.lines if line["type"] == "turn_end"]
    assert [r["tool_call_id"] for r in ends[0]["tool_results"]] == ["call_1", "call_2"]
    assert len(ends) == 2
    assert resumed.lines[-1]["type"] == "result"


def test_a58_rejected_call_gets_result_and_run_continues(notes: Product) -> None:
    file = pause(notes).json["continuation"]
    notes.will(DONE)

    resumed = resume(notes, file, "--reject", "too risky")

    assert resumed.exit_code == 0
    assert commands_run(notes) == []
    assert dict(results(notes))["call_1"] == "Rejected: too risky"
    assert "the milk" in dict(results(notes))["call_2"]
    assert [d["reason"] for d in resumed.json["permission_denials"]] == ["too risky"]


def test_confirmed_call_does_not_run_script_changed_since(notes: Product) -> None:
    notes.file("b.sh", "echo benign >> ran.txt\n")
    file = pause(notes, ModelReply(calls=[("bash", {"command": "bash b.sh"})])).json["continuation"]
    notes.file("b.sh", "echo EVIL >> ran.txt\n")
    notes.will(DONE)

    resumed = resume(notes, file, "--confirm")

    assert resumed.exit_code == 0
    assert commands_run(notes) == []
    assert "`b.sh` was changed after it was allowed" in dict(results(notes))["call_0"]
    assert "`b.sh` was changed" in resumed.json["permission_denials"][0]["reason"]


def test_confirmed_call_runs_unchanged_script(notes: Product) -> None:
    notes.file("b.sh", "echo benign >> ran.txt\n")
    file = pause(notes, ModelReply(calls=[("bash", {"command": "bash b.sh"})])).json["continuation"]
    notes.file("b.sh", "echo benign >> ran.txt\n")
    notes.will(DONE)

    assert resume(notes, file, "--confirm").exit_code == 0
    assert commands_run(notes) == ["benign"]


@pytest.mark.parametrize("member", ["title", "description", "cwd"])
def test_tampered_continuation_file_is_refused(notes: Product, member: str) -> None:
    file = Path(pause(notes).json["continuation"])
    stored = json.loads(file.read_text())
    (stored["calls"][1] if member == "title" else stored)[member] = "git status"
    file.write_text(json.dumps(stored))

    refused = resume(notes, str(file), "--confirm")

    assert refused.exit_code == 1
    assert "it was changed" in refused.json["error"]["message"]
    assert commands_run(notes) == []


def test_a59_deny_rule_added_later_overrides_confirmation(notes: Product) -> None:
    file = pause(notes).json["continuation"]
    notes.will(DONE)

    resumed = resume(notes, file, "--confirm", "--deny", "execute:echo *")

    assert resumed.exit_code == 0
    assert commands_run(notes) == []
    assert "Permission denied" in dict(results(notes))["call_1"]


def test_a60_continuation_can_be_used_only_once(notes: Product) -> None:
    file = pause(notes).json["continuation"]
    notes.will(DONE)
    resume(notes, file, "--confirm")

    again = resume(notes, file, "--confirm")

    assert again.exit_code == again.json["exit_code"] == 1
    assert "was used already" in again.json["error"]["message"]
    assert commands_run(notes) == ["ran"]
    assert len(notes.service.requests) == 2


def test_a60_continuation_of_advanced_session_is_stale(notes: Product) -> None:
    file = pause(notes).json["continuation"]
    notes.will(DONE)
    notes.ask("-c", "never mind")

    stale = resume(notes, file, "--confirm")

    assert stale.exit_code == 1
    assert "stale" in stale.json["error"]["message"]
    assert commands_run(notes) == []
    tool_result = dict(results(notes))["call_1"]
    assert tool_result.startswith("Not run: it waited for a decision that never came.")


def test_a60_unusable_continuation_explains_reason(notes: Product) -> None:
    file = Path(pause(notes).json["continuation"])
    stored = json.loads(file.read_text())
    before = notes.journals[0].read_bytes()
    elsewhere = notes.base / "elsewhere"
    elsewhere.mkdir()

    def refused(content: Any, *words: str, **options: Any) -> str:
        text = content if isinstance(content, str) else json.dumps(content)
        ended = resume(notes, str(notes.file("c.json", text)), "--confirm", *words, **options)
        assert ended.exit_code == ended.json["exit_code"] == 1
        assert ended.json["error"]["hint"]
        message: str = ended.json["error"]["message"]
        return message

    assert "format 2" in refused({**stored, "v": 2})
    assert "cut off" in refused(file.read_text()[:200])
    assert "no session 'gone'" in refused({**stored, "session_id": "gone"})
    assert "another project" in refused(stored, cwd=elsewhere)
    assert "does not fit" in refused({**stored, "awaiting": "call_2"})
    assert "not about 'call_9'" in refused(stored, "--tool-call-id", "call_9")
    file.unlink()
    gone = resume(notes, str(file), "--confirm")
    assert (gone.exit_code, "cannot be read" in gone.stderr) == (1, True)
    assert notes.journals[0].read_bytes() == before
    assert commands_run(notes) == []


def test_continuation_path_is_relative_to_start_folder(notes: Product) -> None:
    file = Path(pause(notes).json["continuation"])
    notes.will(DONE)
    elsewhere = notes.base / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(file, elsewhere / "c.json")

    resumed = resume(notes, "c.json", "--confirm", "--cwd", str(notes.project), cwd=elsewhere)

    assert (resumed.exit_code, commands_run(notes)) == (0, ["ran"])


def test_a61_batch_with_two_questions_pauses_twice(notes: Product) -> None:
    first = pause(notes, TWO_ASKS).json["continuation"]

    paused = resume(notes, first, "--confirm")

    assert (paused.exit_code, commands_run(notes)) == (11, ["one"])
    second = paused.json["continuation"]
    stored = [json.loads(Path(file).read_text()) for file in (first, second)]
    assert [(c["awaiting"], c["completed"]) for c in stored] == [
        ("call_0", []),
        ("call_2", ["call_0", "call_1"]),
    ]
    assert len(notes.service.requests) == 1
    assert "used already" in resume(notes, first, "--confirm").stderr

    notes.will(DONE)
    resumed = resume(notes, second, "--confirm")
    assert (resumed.exit_code, commands_run(notes)) == (0, ["one", "two"])
    assert [call_id for call_id, _ in results(notes)] == ["call_0", "call_1", "call_2"]


def test_later_questions_can_be_denied_on_resume(notes: Product) -> None:
    file = pause(notes, TWO_ASKS).json["continuation"]
    notes.will(DONE)

    resumed = resume(notes, file, "--confirm", "--on-ask", "deny")

    assert (resumed.exit_code, commands_run(notes)) == (0, ["one"])


def test_deferred_run_in_text_mode_prints_resume_command(notes: Product) -> None:
    notes.will(BATCH)

    paused = notes.run("-p", "--on-ask", "defer", "go")

    [file] = (notes.state_dir / "continuations").iterdir()
    assert (paused.exit_code, paused.stdout) == (11, "")
    assert f"dirge resume {file} --confirm" in paused.stderr


def test_deferred_call_without_session_has_no_continuation(notes: Product) -> None:
    notes.will(BATCH)

    paused = notes.ask("--no-session", "--on-ask", "defer", "go")

    assert (paused.exit_code, paused.json["continuation"]) == (11, None)
    assert "the session isn't stored" in paused.stderr
    assert not notes.state_dir.exists()


def test_continuation_contains_no_api_key(notes: Product) -> None:
    key = notes.environment["FAKE_KEY"]
    paused = pause(notes, ModelReply(calls=[("bash", {"command": f"make {key}"})]))

    assert key not in Path(paused.json["continuation"]).read_text()


def test_resume_is_refused_while_another_process_uses_session(notes: Product) -> None:
    file = pause(notes).json["continuation"]
    gate = threading.Event()
    notes.will(HeldReply(reply=DONE, gate=gate))
    first = notes.start("resume", file, "--confirm")
    notes.service.wait_for(2)

    second = resume(notes, file, "--confirm")
    gate.set()

    assert (second.exit_code, "is in use" in second.stderr) == (1, True)
    assert finish(first).stdout == "done\n"
    assert commands_run(notes) == ["ran"]
