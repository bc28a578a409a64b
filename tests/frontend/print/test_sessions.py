"""Sessions from the command line: continuing, forking, saving nothing."""

import os
import signal
import threading
from typing import Any

from tests.frontend.print.test_outcomes import wait_for_pid
from tests.support.fake_service import ModelReply
from tests.support.product import HeldReply, Product, finish


def prompts(product: Product, number: int = -1) -> list[str]:
    """The user's prompts in one request."""
    return [m["content"] for m in product.sent(number) if m["role"] == "user"]


def test_continue_sends_earlier_messages(product: Product) -> None:
    product.will(ModelReply(text="Noted."), ModelReply(text="Blue."))
    first = product.ask("My colour is blue.").json

    second = product.ask("-c", "Which is it?").json

    assert second["session_id"] == first["session_id"]
    assert prompts(product) == ["My colour is blue.", "Which is it?"]
    assert product.sent()[-2] == {"role": "assistant", "content": "Noted."}


def test_continue_without_session_starts_new_one_with_notice(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = product.ask("-c", "ping")

    assert result.exit_code == 0
    assert "this project has no sessions yet" in result.stderr
    assert result.json["session_id"] == product.journals[0].stem


def test_continue_uses_newest_session_of_project(product: Product) -> None:
    other = product.base / "other"
    other.mkdir()
    product.will(ModelReply(text="a"), ModelReply(text="b"), ModelReply(text="c"))
    here = product.ask("here").json["session_id"]
    product.ask("there", cwd=other)

    assert product.ask("-c", "again").json["session_id"] == here


def test_resume_accepts_prefix_of_id(product: Product) -> None:
    product.will(ModelReply(text="one"), ModelReply(text="two"))
    product.run("-p", "--session", "alpha-1", "first")

    result = product.ask("-r", "alph", "second")

    assert result.json["session_id"] == "alpha-1"
    assert prompts(product) == ["first", "second"]


def test_unknown_session_of_resume_is_reported(product: Product) -> None:
    result = product.ask("-r", "nope", "x")

    assert result.exit_code == 1
    assert "no session 'nope'" in result.stderr
    assert result.json["is_error"] is True
    assert result.json["exit_code"] == 1
    assert result.json["session_id"] is None
    assert product.service.requests == []


def test_named_session_is_created_then_reopened(product: Product) -> None:
    product.will(ModelReply(text="one"), ModelReply(text="two"))

    ids = [product.ask("--session", "my-run_1", word).json["session_id"] for word in ("a", "b")]

    assert ids == ["my-run_1", "my-run_1"]
    assert [path.stem for path in product.journals] == ["my-run_1"]
    assert prompts(product) == ["a", "b"]


def test_session_id_that_is_a_path_is_refused(product: Product) -> None:
    result = product.run("-p", "--session", "../evil", "x")

    assert result.exit_code == 2
    assert "../evil" in result.stderr
    assert not (product.state_dir / "sessions" / "evil.jsonl").exists()


def test_fork_leaves_original_session_unchanged(product: Product) -> None:
    product.will(ModelReply(text="one"), ModelReply(text="two"))
    first = product.ask("first").json["session_id"]
    (origin,) = product.journals
    before = origin.read_bytes()

    second = product.ask("-c", "--fork-session", "second").json["session_id"]

    assert second != first
    assert prompts(product) == ["first", "second"]
    assert origin.read_bytes() == before


def test_no_session_flag_stores_nothing(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = product.ask("--no-session", "ping")

    assert result.json["session_id"] is None
    assert product.journals == []
    assert not product.state_dir.exists()


def test_second_writer_of_session_is_refused(product: Product) -> None:
    gate = threading.Event()
    product.will(HeldReply(reply=ModelReply(text="one"), gate=gate))
    first = product.start("-p", "--session", "shared", "first")
    product.service.wait_for(1)

    second = product.ask("--session", "shared", "second")
    gate.set()

    assert second.exit_code == 1
    assert "in use" in second.stderr or "another" in second.stderr
    assert second.json["is_error"] is True
    assert finish(first).stdout == "one\n"
    assert len(product.service.requests) == 1


def test_resumed_session_keeps_its_model(product: Product) -> None:
    product.will(ModelReply(text="one"), ModelReply(text="two"), ModelReply(text="three"))
    product.ask("-m", "fake/gpt-4.1", "first")

    assert product.ask("-c", "second").json["model"] == "gpt-4.1"
    assert product.ask("-c", "-m", "fake/gpt-4o", "third").json["model"] == "gpt-4o"


def test_a79_killed_command_is_not_rerun_on_continue(product: Product) -> None:
    command = "echo x >> runs; echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600"
    product.will(ModelReply(calls=[("bash", {"command": command})]), ModelReply(text="going on"))
    process = product.start("-p", "--yolo", "x")
    child = wait_for_pid(product.project / "pid", process)
    process.kill()
    process.communicate()
    os.kill(child, signal.SIGKILL)

    result = product.run_forked("-p", "--continue", "--yolo", "and now?")

    assert (result.exit_code, result.stdout) == (0, "going on\n")
    assert (product.project / "runs").read_text() == "x\n"
    [tool_result] = [message["content"] for message in product.sent() if message["role"] == "tool"]
    assert "outcome is unknown" in tool_result


def test_a72_denied_call_stays_error_after_restart(product: Product) -> None:
    product.configure(wire="anthropic", model="claude-sonnet-4-5")
    product.will(
        ModelReply(calls=[("bash", {"command": "make"})]),
        ModelReply(text="no then"),
        ModelReply(text="yes"),
    )
    assert product.run_forked("-p", "go").exit_code == 0

    process = product.run_forked("-p", "-c", "again")

    assert process.exit_code == 0
    for request in (1, 2):
        [result] = [
            block
            for message in product.sent(request)
            for block in message["content"]
            if isinstance(block, dict) and block["type"] == "tool_result"
        ]
        assert result["is_error"] is True


def test_a86_second_process_sends_complete_history_of_first(product: Product) -> None:
    product.configure(wire="anthropic", model="claude-sonnet-4-5")
    product.file("note.txt", "remember\n")
    call = ("bash", {"command": "echo ran >> ran.txt"})
    thought = ModelReply(
        thinking="hm", signature="sig-1", calls=[("read", {"path": "note.txt"}), call]
    )
    product.will(thought, ModelReply(text="first answer"), ModelReply(text="second answer"))
    product.run_forked("-p", "--yolo", "--thinking", "high", "first")
    before = product.sent()

    product.run_forked("-p", "-c", "--yolo", "--thinking", "high", "second")

    sent = [bare(message) for message in product.sent()]
    assert sent[: len(before)] == [bare(message) for message in before]
    assert {"type": "thinking", "thinking": "hm", "signature": "sig-1"} in sent[1]["content"]
    assert (product.project / "ran.txt").read_text() == "ran\n"
    assert [m["role"] for m in sent] == ["user", "assistant", "user", "assistant", "user"]


def bare(message: dict[str, Any]) -> dict[str, Any]:
    """The message without cache marks."""
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    kept = [{k: v for k, v in block.items() if k != "cache_control"} for block in content]
    return {**message, "content": kept}


def test_killed_session_can_be_continued(product: Product) -> None:
    command = "echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 600"
    product.will(ModelReply(calls=[("bash", {"command": command})]), ModelReply(text="going on"))
    process = product.start("-p", "--yolo", "--session", "mine", "x")
    child = wait_for_pid(product.project / "pid", process)

    process.kill()
    process.communicate()
    os.kill(child, signal.SIGKILL)
    result = product.ask("--session", "mine", "and now?")

    assert result.exit_code == 0
    assert "interrupted" in result.stderr
    results = [message for message in product.sent() if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in results] == ["call_0"]
    assert prompts(product) == ["x", "and now?"]
