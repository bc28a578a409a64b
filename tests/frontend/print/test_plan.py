"""`/plan` in scripts: one result for the whole plan, its exit code, and resuming it."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_service import ModelReply
from tests.support.product import HeldReply, Product, finish

CHECK = "python3 check.py"
PLAN = f"""## Name

The total

## Steps

1. Write 42 into `total.txt`.
2. Verify: `{CHECK}`
"""
ALLOWED = ("--allow", f"execute:{CHECK}")
NO_REMINDERS = "[loop.gates]\ntodo = 0\n"
"""An ordinary run after a stopped plan has an open todo list."""
FINDINGS = ModelReply(text="`check.py:1` reads `total.txt`.")
PLANNED = ModelReply(text=PLAN)
SAYS_SO = ModelReply(text="It is written.")
RUNS = ModelReply(calls=[("bash", {"command": CHECK})])


def writes(content: str) -> ModelReply:
    return ModelReply(calls=[("write", {"path": "total.txt", "content": f"{content}\n"})])


def verdict(word: str, status: str, missing: str = "") -> ModelReply:
    item = {"requirement": "the total is 42", "status": status, "evidence": [CHECK]}
    block = json.dumps({"verdict": word, "checklist": [item], "missing": missing})
    return ModelReply(text=f"I ran it.\n\n```json\n{block}\n```")


DONE = verdict("DONE", "verified")
NEEDS_FIX = verdict("NEEDS_FIX", "not_verified", "total.txt must hold 42")
LOOKED = (FINDINGS, PLANNED)
VERIFIED = (*LOOKED, writes("42"), SAYS_SO, RUNS, DONE)


@pytest.fixture
def product(product: Product) -> Product:
    product.file("check.py", "assert open('total.txt').read() == '42\\n'\n")
    return product


def files(product: Product) -> dict[str, bytes]:
    """The project's files, without `.git`."""
    paths = (path for path in product.project.rglob("*") if ".git" not in path.parts)
    return {str(p.relative_to(product.project)): p.read_bytes() for p in paths if p.is_file()}


def last_message(product: Product, number: int) -> str:
    """The last message of a request."""
    return json.dumps(product.sent(number)[-1]["content"])


def test_verified_plan_gives_one_result_for_all_phases(product: Product) -> None:
    product.will(*VERIFIED)

    process = product.ask("/plan make the total 42")

    result: dict[str, Any] = process.json
    assert (process.exit_code, result["exit_code"], result["subtype"]) == (0, 0, "success"), process
    assert CHECK in result["result"] and "Verified" in result["result"]
    assert result["num_turns"] == 2
    assert (result["usage"]["input_tokens"], result["usage"]["output_tokens"]) == (60, 30)
    assert 0 < result["duration_api_ms"] <= result["duration_ms"]
    assert result["permission_denials"] == []
    assert product.journals[0].stem == result["session_id"]
    assert "E1: python3 check.py: passed, exit 0." in process.stderr

    status = product.run("-p", "-c", "/plan status")

    assert (status.exit_code, len(product.service.requests)) == (0, 6)
    assert "make the total 42" in status.stdout and "verified" in status.stdout


def test_plan_flag_combines_words_and_stdin(product: Product) -> None:
    product.will(*VERIFIED)

    result = product.run("-p", "--plan", "make the total", stdin="as this says: 42")

    assert result.exit_code == 0
    assert "Verified" in result.stdout
    for phase in (0, 1, 4):
        assert "make the total\\n\\nas this says: 42" in last_message(product, phase)


def test_unverified_plan_has_exit_code_56(product: Product) -> None:
    product.configure("[plan]\nmax_review_cycles = 1\n")
    round_of = (writes("41"), SAYS_SO, RUNS, NEEDS_FIX)
    product.will(*LOOKED, *round_of, *round_of)

    process = product.ask("/plan make the total 42", "-o", str(product.base / "report.md"))

    result = process.json
    assert (process.exit_code, result["subtype"], result["is_error"]) == (
        *(56, "error_verification"),
        True,
    )
    assert result["error"]["hint"] == "Continue it with `dirge -c -p '/plan resume'`."
    assert "Not verified" in result["result"]
    assert (product.base / "report.md").read_text() == result["result"] + "\n"
    assert len(product.service.requests) == 10
    assert "total.txt must hold 42" in last_message(product, 6)


def test_plan_without_session_suggests_no_resume(product: Product) -> None:
    product.configure("[plan]\nmax_review_cycles = 0\n")
    product.will(*LOOKED, writes("41"), SAYS_SO, RUNS, NEEDS_FIX)

    result = product.ask("--no-session", "/plan make the total 42")

    assert (result.exit_code, result.json["session_id"]) == (56, None)
    assert "resume" not in result.stderr
    assert product.journals == []


def test_disabled_plan_is_refused_with_hint(product: Product) -> None:
    product.configure("[plan]\nenabled = false\n")

    result = product.run("-p", "/plan make the total 42")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "[plan] enabled" in result.stderr
    assert product.service.requests == []


@pytest.mark.parametrize("words", [("/plan",), ("--plan", "/plan  ")])
def test_empty_plan_request_is_usage_error(product: Product, words: tuple[str, ...]) -> None:
    result = product.run("-p", *words)

    assert result.exit_code == 2
    assert "/plan REQUEST" in result.stderr
    assert product.service.requests == []


def test_unaccepted_plan_waits_and_can_be_accepted_later(product: Product) -> None:
    product.configure("[plan]\nauto_accept = false\n")
    before = files(product)
    product.will(*LOOKED)

    waits = product.ask("/plan make the total 42")

    assert (waits.exit_code, waits.json["subtype"]) == (11, "awaiting_confirmation"), waits
    assert waits.json["result"].strip() == PLAN.strip()
    assert waits.json["continuation"] is None
    assert "dirge -c -p '/plan accept'" in waits.stderr
    assert files(product) == before

    product.will(writes("42"), SAYS_SO, RUNS, DONE)
    done = product.ask("-c", "/plan accept")

    assert (done.exit_code, done.json["session_id"]) == (0, waits.json["session_id"])
    assert files(product) == {**before, "total.txt": b"42\n"}


def test_native_lines_include_phases_and_evidence(product: Product) -> None:
    product.will(*VERIFIED)

    result = product.run(
        *("-p", "--output-format", "stream-json", "--event-format", "native"),
        "/plan make the total 42",
    )

    lines = result.lines
    assert [(e["phase"], e["state"]) for e in lines if e["type"] == "phase"] == [
        (phase, state)
        for phase in ("explore", "plan", "implement", "review")
        for state in ("started", "ended")
    ]
    [evidence] = [e for e in lines if e["type"] == "evidence"]
    assert (evidence["command"], evidence["exit_code"], evidence["step"]) == (CHECK, 0, 1)
    assert evidence["tree"] and evidence["output_sha256"]
    assert [e["role"] for e in lines if e["type"] == "usage" and e["role"]] == [
        *("explore", "plan", "review", "review")
    ]
    assert "fork_event" not in {e["type"] for e in lines}
    assert [e["seq"] for e in lines] == list(range(len(lines)))
    assert (lines[-1]["type"], lines[-1]["exit_code"]) == ("result", 0)


def test_claude_lines_include_only_main_conversation(product: Product) -> None:
    product.will(*VERIFIED)

    result = product.run("-p", "--output-format", "stream-json", "/plan make the total 42")

    assert [line["type"] for line in result.lines] == [
        *("system", "assistant", "user", "assistant", "user", "result")
    ]
    assert result.lines[-2]["isSynthetic"] is True  # The report, for the model.
    assert "plan" in result.lines[0]["slash_commands"]
    assert "Verified" in result.lines[-1]["result"]


def test_denial_in_read_only_phase_is_in_result(product: Product) -> None:
    product.will(ModelReply(calls=[("bash", {"command": "touch total.txt"})]), *VERIFIED)

    result = product.ask("--yolo", "/plan make the total 42")

    assert result.exit_code == 0, result
    [denial] = result.json["permission_denials"]
    assert denial["tool_input"] == {"command": "touch total.txt"}
    assert "denied bash" in result.stderr


def test_on_ask_abort_ends_plan_at_question(product: Product) -> None:
    product.will(*LOOKED, ModelReply(calls=[("bash", {"command": "make total"})]))

    result = product.ask("--on-ask", "abort", "/plan make the total 42")

    assert (result.exit_code, result.json["subtype"]) == (55, "error_aborted")
    assert len(product.service.requests) == 3


def test_plan_stopped_by_limit_is_reviewed_only_after_resume(
    product: Product,
) -> None:
    product.configure(NO_REMINDERS)
    product.will(*LOOKED, writes("42"))

    cut = product.ask("--max-turns", "1", "/plan make the total 42")

    assert (cut.exit_code, cut.json["subtype"]) == (53, "error_max_turns"), cut
    assert "/plan resume" in cut.json["error"]["hint"]
    assert "review" not in cut.stderr.replace("not reviewed", "")

    product.will(ModelReply(text="Hello."))
    assert product.ask("-c", "say hello").json["result"] == "Hello."

    product.will(SAYS_SO, RUNS, DONE)
    done = product.ask("-c", *ALLOWED, "/plan resume")

    assert done.exit_code == 0, done
    assert len(product.service.requests) == 7


def test_deferred_call_is_decided_before_plan_resumes(product: Product) -> None:
    product.configure(NO_REMINDERS)
    product.will(*LOOKED, ModelReply(calls=[("bash", {"command": "echo 42 > total.txt"})]))

    waits = product.ask("--on-ask", "defer", "/plan make the total 42")

    assert waits.exit_code == 11, waits
    [call] = waits.json["pending_calls"]
    assert call["tool_input"] == {"command": "echo 42 > total.txt"}

    product.will(SAYS_SO)
    decided = product.run("resume", waits.json["continuation"], "--confirm")
    assert decided.exit_code == 0, decided

    product.will(ModelReply(text="Nothing is left to do."), RUNS, DONE)
    done = product.ask("-c", *ALLOWED, "/plan resume")
    assert done.exit_code == 0, done


def test_signal_during_phase_ends_plan(product: Product) -> None:
    held = HeldReply(reply=FINDINGS)
    product.will(held)
    process = product.start("-p", "--output-format", "json", "/plan make the total 42")
    product.service.wait_for(1)

    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    held.gate.set()

    assert (stopped.exit_code, stopped.json["subtype"]) == (130, "error_aborted")
    assert "/plan resume" in stopped.stderr
    assert len(product.service.requests) == 1


def test_plan_works_in_folder_without_git(product: Product, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "check.py").write_text((product.project / "check.py").read_text())
    product.will(*VERIFIED)

    result = product.ask("/plan make the total 42", cwd=folder)

    assert result.exit_code == 0, result
    assert (folder / "total.txt").read_text() == "42\n"


def test_deferred_call_in_review_has_no_continuation_and_names_next_steps(product: Product) -> None:
    asks = ModelReply(calls=[("bash", {"command": "curl http://example.org"})])
    product.will(*LOOKED, SAYS_SO, asks)

    result = product.ask("--on-ask", "defer", "/plan make the total 42")

    assert (result.exit_code, result.json["pending_calls"], result.json["continuation"]) == (
        11,
        [],
        None,
    )
    assert "--allow" in result.stderr and "/plan resume" in result.stderr
