"""`--input-format stream-json`: prompts as lines, and steering during a run."""

import json
import subprocess
import threading
from typing import Any

import pytest

from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import HeldReply, Product, finish

FLAGS = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")


def line(content: Any) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"


def results(lines: list[Any]) -> list[Any]:
    return [one for one in lines if one["type"] == "result"]


class Dialogue:
    """A process that is driven line by line."""

    def __init__(self, product: Product, *flags: str) -> None:
        self.process = product.start(*FLAGS, *flags, stdin=subprocess.PIPE)
        self.lines: list[Any] = []

    def tell(self, content: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line(content))
        self.process.stdin.flush()

    def read_until(self, kind: str) -> Any:
        assert self.process.stdout is not None
        while text := self.process.stdout.readline():
            self.lines.append(json.loads(text))
            if self.lines[-1]["type"] == kind:
                return self.lines[-1]
        raise AssertionError(f"no {kind} came")

    def end(self) -> int:
        result = finish(self.process)
        self.lines += result.lines
        return result.exit_code


def test_each_prompt_gets_its_own_result(product: Product) -> None:
    product.will(ModelReply(text="one"), ModelReply(text="two"))
    dialogue = Dialogue(product)

    dialogue.tell("first")
    first = dialogue.read_until("result")
    dialogue.tell([{"type": "text", "text": "second"}])
    second = dialogue.read_until("result")

    assert dialogue.end() == 0
    assert (first["result"], second["result"]) == ("one", "two")
    assert first["session_id"] == second["session_id"]
    assert [one["type"] for one in dialogue.lines].count("system") == 1
    assert [m["content"] for m in product.sent() if m["role"] == "user"] == ["first", "second"]


def test_line_sent_during_run_steers_it(product: Product) -> None:
    held = HeldReply(reply=ModelReply(calls=[("list_dir", {"path": "."})]))
    product.will(held, ModelReply(calls=[("list_dir", {"path": "."})]), ModelReply(text="done"))
    dialogue = Dialogue(product)
    dialogue.tell("first")
    product.service.wait_for(1)

    dialogue.tell("rather look at CI")
    held.gate.set()
    result = dialogue.read_until("result")

    assert dialogue.end() == 0
    assert result["num_turns"] == 3
    assert len(results(dialogue.lines)) == 1
    roles = [m["role"] for m in product.sent(1) if m["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "user"]
    assert "rather look at CI" in product.sent(1)[-1]["content"]


def test_line_too_late_to_steer_starts_its_own_run(product: Product) -> None:
    product.will(ModelReply(text="one"), ModelReply(text="two"))

    result = product.run(*FLAGS, stdin=line("first") + line("second"))

    assert result.exit_code == 0
    said = [m["content"] for m in product.sent() if m["role"] == "user"]
    assert "first" in said[0] and any("second" in text for text in said)


def test_run_finishes_after_end_of_input(product: Product) -> None:
    gate = threading.Event()
    product.will(HeldReply(reply=ModelReply(text="pong"), gate=gate))
    dialogue = Dialogue(product)
    dialogue.tell("ping")
    assert dialogue.process.stdin is not None
    dialogue.process.stdin.close()
    dialogue.process.stdin = None
    product.service.wait_for(1)

    gate.set()

    assert dialogue.end() == 0
    assert [one["result"] for one in results(dialogue.lines)] == ["pong"]


def test_invalid_line_is_reported_and_later_lines_are_handled(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = product.run(*FLAGS, stdin='{"type":\nnonsense\n[]\n' + line("ping"))

    assert result.exit_code == 1
    assert result.stderr.count("a line of stdin was skipped") == 3
    assert [one["result"] for one in results(result.lines)] == ["pong"]


def test_empty_input_is_usage_error(product: Product) -> None:
    result = product.run(*FLAGS, stdin="")

    assert result.exit_code == 2
    assert "no message" in result.stderr


def test_line_longer_than_pipe_buffer_is_read_completely(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    finish(product.start(*FLAGS, stdin=subprocess.PIPE), line("x" * 300_000))

    assert len(product.sent()[-1]["content"]) == 300_000


def test_undelivered_steering_of_failed_run_is_reported(product: Product) -> None:
    held = HeldReply(reply=RawReply(status=401, body='{"error":{"message":"no"}}'))
    product.will(held)
    process = product.start(*FLAGS, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(line("first"))
    process.stdin.flush()
    product.service.wait_for(1)
    process.stdin.write(line("and this"))
    process.stdin.flush()

    held.gate.set()
    result = finish(process)

    assert result.exit_code == 1
    assert "and this" in result.stderr


def test_words_with_stream_input_are_refused(product: Product) -> None:
    result = product.run(*FLAGS, "some words", stdin=line("ping"))

    assert result.exit_code == 2
    assert "stream-json" in result.stderr


def test_prompt_after_deferred_call_continues_without_it(product: Product) -> None:
    product.will(
        ModelReply(calls=[("bash", {"command": "make"})]), ModelReply(text="never mind then")
    )
    dialogue = Dialogue(product, "--on-ask", "defer")

    dialogue.tell("build it")
    waiting = dialogue.read_until("result")
    dialogue.tell("never mind")
    passed = dialogue.read_until("result")

    assert (waiting["exit_code"], passed["exit_code"]) == (11, 0)
    assert dialogue.end() == 11
    roles = [message["role"] for message in product.sent() if message["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("is_closed", [False, True])
def test_stdin_without_lines_is_usage_error(product: Product, is_closed: bool) -> None:
    closed = ["bash", "-c", 'exec "$@" <&-', "bash"]

    result = finish(
        product.start_fresh(*FLAGS, prefix=closed) if is_closed else product.start(*FLAGS)
    )

    assert result.exit_code == 2
    assert "no message" in result.stderr


def test_deeply_nested_line_is_invalid(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = product.run(*FLAGS, stdin="[" * 200_000 + "\n" + line("ping"))

    assert result.exit_code == 1
    assert results(result.lines)[0]["result"] == "pong"
