"""Exit code, subtype and message of every outcome."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dirge_py import slash
from dirge_py.agent_loop.retry import RecoveryPolicy
from dirge_py.frontend.print.print_mode import print_all
from dirge_py.frontend.print.printer import Printer, PrintOptions
from dirge_py.frontend.print.result import ending_of
from dirge_py.sdk.options import SessionChoice
from dirge_py.slash.registry import Registry, discover
from dirge_py.types.errors import ProviderError
from dirge_py.types.hooks import Hooks, StopRun, TurnInfo
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    Cancelled,
    Done,
    Failed,
    HookTerminated,
    LimitExceeded,
    MaxTurns,
    NeedsMoreTurns,
    Outcome,
    Refused,
)
from tests.support.fake_service import ModelReply, RawReply
from tests.support.forked_process import Piped
from tests.support.product import HeldReply, Product, finish
from tests.support.project import ScriptedProject
from tests.support.terminal import until

LOOK = ModelReply(calls=[("list_dir", {"path": "."})], usage=(1000, 100, 0, 0))


def refusal(status: int, message: str = "no", **headers: str) -> RawReply:
    return RawReply(
        status=status, body=json.dumps({"error": {"message": message}}), headers=headers
    )


@pytest.mark.parametrize(
    ("outcome", "exit_code", "subtype"),
    [
        (Done(), 0, "success"),
        (MaxTurns(max=3), 53, "error_max_turns"),
        (LimitExceeded(name="cost", used=2, max=1), 54, "error_max_budget"),
        (LimitExceeded(name="time", used=2, max=1), 54, "error_max_budget"),
        (Failed(kind="usage_cap", message="used up"), 54, "error_usage_cap"),
        (Failed(kind="rate_limit", message="slow"), 75, "error_during_execution"),
        (Failed(kind="network", message="gone"), 75, "error_during_execution"),
        (Failed(kind="auth", message="who"), 1, "error_during_execution"),
        (Failed(kind="bug", message=""), 1, "error_during_execution"),
        (Refused(reason="no"), 1, "error_during_execution"),
        (Refused(reason=""), 1, "error_during_execution"),
        (HookTerminated(point="before", reason="no"), 1, "error_during_execution"),
        (Cancelled(reason="on-ask"), 55, "error_aborted"),
        (Cancelled(reason="SIGINT"), 130, "error_aborted"),
        (Cancelled(reason="SIGTERM"), 143, "error_aborted"),
        (AwaitingConfirmation(call_ids=("a",)), 11, "awaiting_confirmation"),
        (NeedsMoreTurns(turn=1), 10, "success"),
    ],
)
def test_outcome_decides_exit_code_and_subtype(
    outcome: Outcome, exit_code: int, subtype: str
) -> None:
    ending = ending_of(outcome)

    assert (ending.exit_code, ending.subtype) == (exit_code, subtype)
    assert bool(ending.message) == (exit_code not in (0, 10, 11))


@pytest.mark.parametrize(
    ("outcome", "exit_code", "subtype", "kind"),
    [
        (HookTerminated(point="after_llm_call", reason="no"), 1, "error_during_execution", "hook"),
        (Refused(reason="not this"), 1, "error_during_execution", "refused"),
        (MaxTurns(max=1), 53, "error_max_turns", "max_turns"),
        (LimitExceeded(name="requests", used=2, max=1), 54, "error_max_budget", "limit_requests"),
        (Cancelled(reason="on-ask"), 55, "error_aborted", "aborted"),
    ],
)
def test_a54_outcome_set_by_hook_decides_exit_code_and_error_kind(
    project: ScriptedProject,
    capfd: pytest.CaptureFixture[str],
    outcome: Outcome,
    exit_code: int,
    subtype: str,
    kind: str,
) -> None:
    project.model.will_say("half way")

    def stop(info: TurnInfo) -> bool:
        raise StopRun(outcome)

    async def work(printer: Printer) -> int:
        ending = Hooks(name="the test", should_stop_after_turn=stop)
        return await printer.follow(printer.conversation.send("go", bundles=[ending]))

    ended = print_all(
        lambda: project.build(project.user, SessionChoice()),
        work,
        options=PrintOptions(output="json"),
        commands=Registry(discover(slash)),
    )

    data = json.loads(capfd.readouterr().out)
    assert (ended, data["exit_code"], data["subtype"]) == (exit_code, exit_code, subtype)
    assert (data["error"]["kind"], data["result"]) == (kind, "half way")


def test_max_turns_gives_exit_code_53(product: Product) -> None:
    product.will(LOOK, LOOK, LOOK)

    result = product.ask("--max-turns", "2", "x")

    assert result.exit_code == result.json["exit_code"] == 53
    assert result.json["subtype"] == "error_max_turns"
    assert result.json["is_error"] is True
    assert result.json["num_turns"] == 2
    assert "2 turns" in result.json["error"]["message"]
    assert len(product.service.requests) == 2


def test_run_that_ends_in_last_allowed_turn_succeeds(product: Product) -> None:
    product.will(LOOK, ModelReply(text="done"))

    assert product.ask("--max-turns", "2", "x").exit_code == 0


def test_gate_does_not_ask_again_when_no_turns_are_left(product: Product) -> None:
    """The run ends in its last turn, and its code is not checked."""
    edit = ModelReply(calls=[("write", {"path": "a.py", "content": "x = 1\n"})])
    product.will(edit, ModelReply(text="The report."))
    result = product.ask("--max-turns", "2", "x")
    assert (result.exit_code, result.json["result"]) == (0, "The report.")


def test_last_answer_is_kept_when_turn_limit_follows(product: Product) -> None:
    edit = ModelReply(calls=[("write", {"path": "a.py", "content": "x = 1\n"})])
    product.will(edit, ModelReply(text="The report."), LOOK)
    result = product.ask("--max-turns", "3", "x")
    assert result.exit_code == 53
    assert result.json["result"].startswith("The report.\n\nI had to stop here, after 3 turns")


@pytest.mark.parametrize(
    ("flag", "most", "name"), [("--max-tokens", "1500", "tokens"), ("--max-cost", "0.004", "cost")]
)
def test_exceeded_limit_is_named(product: Product, flag: str, most: str, name: str) -> None:
    product.will(LOOK, LOOK, LOOK)

    result = product.ask(flag, most, "x")

    assert result.exit_code == 54
    assert result.json["subtype"] == "error_max_budget"
    assert result.json["limit"]["name"] == name
    assert result.json["limit"]["used"] > result.json["limit"]["max"] == float(most)
    assert len(product.service.requests) == 2


def test_time_limit_ends_run_during_answer(product: Product) -> None:
    product.will(ModelReply(text="a long answer", after_bytes=400, then="stall"))

    result = product.ask("--timeout", "0.3", "x")

    assert result.exit_code == 54
    assert result.json["limit"]["name"] == "time"
    assert result.json["limit"]["max"] == 0.3


def test_time_limit_kills_running_command(product: Product) -> None:
    product.will(ModelReply(calls=[("bash", {"command": "echo $$ > pid; sleep 600"})]))

    result = product.ask("--yolo", "--timeout", "1", "x")

    assert result.exit_code == 54
    assert not is_alive(int((product.project / "pid").read_text()))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_client_error_is_reported_without_retry(product: Product, status: int) -> None:
    product.will(refusal(status, "the reason it gave"))

    result = product.ask("x")

    assert result.exit_code == result.json["exit_code"] == 1
    assert result.json["subtype"] == "error_during_execution"
    assert result.json["is_error"] is True
    assert result.json["error"]["message"]
    assert str(status) in result.json["error"]["message"]
    assert len(product.service.requests) == 1
    assert product.journals


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_transient_error_is_retried(
    product: Product, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecoveryPolicy, "delay_s", lambda *_: 0.0)
    product.will(refusal(status, **{"retry-after": "0"}), ModelReply(text="pong"))

    result = product.ask("x")

    assert result.exit_code == 0
    assert result.json["result"] == "pong"
    assert "retrying" in result.stderr


def test_exhausted_quota_is_not_retried(product: Product) -> None:
    product.will(refusal(429, **{"retry-after": "3600"}))

    result = product.ask("x")

    assert (result.exit_code, result.json["subtype"]) == (54, "error_usage_cap")


def test_exhausted_retries_give_exit_code_75(
    product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecoveryPolicy, "delay_s", lambda *_: 0.0)
    product.will(*[refusal(503)] * 6)

    result = product.ask("x")

    assert (result.exit_code, result.json["subtype"]) == (75, "error_during_execution")
    assert len(product.service.requests) == 6
    assert result.json["error"]["kind"] == "server"


def test_on_ask_abort_ends_run_at_question(product: Product) -> None:
    product.will(ModelReply(calls=[("bash", {"command": "make"})]))

    result = product.ask("--on-ask", "abort", "x")

    assert (result.exit_code, result.json["subtype"]) == (55, "error_aborted")
    assert len(product.service.requests) == 1


def test_deferred_call_waits_and_session_can_continue(product: Product) -> None:
    product.will(ModelReply(calls=[("bash", {"command": "make"})]), ModelReply(text="fine"))

    waiting = product.ask("--on-ask", "defer", "x")
    later = product.ask("-c", "never mind")

    assert (waiting.exit_code, waiting.json["subtype"]) == (11, "awaiting_confirmation")
    assert waiting.json["is_error"] is False
    assert [call["tool_input"] for call in waiting.json["pending_calls"]] == [{"command": "make"}]
    assert later.exit_code == 0
    roles = [message["role"] for message in product.sent() if message["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_run_and_command_and_session_can_continue(
    product: Product, number: signal.Signals
) -> None:
    product.will(
        ModelReply(calls=[("bash", {"command": "echo $$ > pid.tmp; mv pid.tmp pid; sleep 600"})]),
        ModelReply(text="going on"),
    )
    process = product.start("-p", "--output-format", "json", "--yolo", "x")
    child = wait_for_pid(product.project / "pid", process)

    process.send_signal(number)
    result = finish(process)

    assert result.exit_code == result.json["exit_code"] == {2: 130, 15: 143}[number]
    assert result.json["subtype"] == "error_aborted"
    assert not is_alive(child)
    later = product.ask("-c", "go on")
    assert later.exit_code == 0
    assert later.json["session_id"] == result.json["session_id"]
    roles = [message["role"] for message in product.sent() if message["role"] != "system"]
    assert roles[:3] == ["user", "assistant", "tool"]
    assert roles[-1] == "user"


@pytest.mark.parametrize("loading", ["dirge_py.lib.garbage_collector", "dirge_py.cli.main"])
def test_ctrl_c_during_import_exits_quietly_with_130(loading: str) -> None:
    pressed = f"""
import sys
class Pressed:
    def find_spec(self, name, *_):
        if name == {loading!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Pressed())
sys.argv[1:] = ["-p", "x"]
from dirge_py.cli.entry import main
main()
"""
    result = subprocess.run([sys.executable, "-c", pressed], capture_output=True, check=False)

    assert (result.returncode, result.stdout, result.stderr) == (130, b"", b"")


def test_signal_during_answer_keeps_partial_text(product: Product) -> None:
    product.will(ModelReply(text="the first half", after_bytes=900, then="stall"))
    process = product.start(
        *("-p", "--output-format", "stream-json", "--include-partial-messages", "x")
    )
    assert process.stdout is not None
    while "text_delta" not in process.stdout.readline():
        assert process.poll() is None

    process.send_signal(signal.SIGINT)
    result = finish(process)

    assert result.exit_code == 130
    assert result.lines[-1]["subtype"] == "error_aborted"
    assert "the first half" in product.journals[0].read_text()


def test_signal_during_blocked_output_is_no_success(product: Product) -> None:
    product.will(ModelReply(text="z" * 400_000))
    process = product.start("-p", "x")
    assert process.stdout is not None
    process.stdout.read(1)

    process.send_signal(signal.SIGTERM)

    assert process.wait(30) == 143
    assert finish(process).stderr == ""


def test_signal_between_prompts_ends_stream_input(product: Product) -> None:
    product.will(ModelReply(text="one"))
    process = product.start(
        *("-p", "--input-format", "stream-json", "--output-format", "stream-json"),
        stdin=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    message = {"type": "user", "message": {"role": "user", "content": "first"}}
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    while '"type":"result"' not in process.stdout.readline():
        assert process.poll() is None

    process.send_signal(signal.SIGTERM)

    assert process.wait(30) == 143
    hang_up(process)
    assert finish(process).stderr == ""


def test_signal_during_run_ends_stream_input(product: Product) -> None:
    product.will(HeldReply(reply=ModelReply(text="never")))
    process = product.start(
        *("-p", "--input-format", "stream-json", "--output-format", "stream-json"),
        stdin=subprocess.PIPE,
    )
    assert process.stdin is not None
    message = {"type": "user", "message": {"role": "user", "content": "first"}}
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    product.service.wait_for(1)

    process.send_signal(signal.SIGINT)

    assert process.wait(30) == 130
    hang_up(process)
    product.service.replies[0].gate.set()
    assert finish(process).lines[-1]["exit_code"] == 130


def test_provider_error_kind_becomes_ending_kind() -> None:
    error = ProviderError("no", kind="auth", status=401)

    assert ending_of(Failed(kind=error.kind, message=error.message)).kind == "auth"


def hang_up(process: Piped) -> None:
    """Close its stdin, which `finish` does not do."""
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_for_pid(path: Path, process: Piped) -> int:
    until(lambda: path.exists() or process.poll() is not None)
    return int(path.read_text())
