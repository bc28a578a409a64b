"""`dirge -c -p /continue`, and the message on stderr about the limit before it."""

import pytest

from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import Product

LOOK = ModelReply(calls=[("ls", {})])


def test_a47_run_stopped_by_max_turns_continues_without_prompt(product: Product) -> None:
    product.will(LOOK, ModelReply(text="All done."))
    stopped = product.run("-p", "--max-turns", "1", "look around")
    result = product.ask("-c", "/continue")

    assert stopped.exit_code == 53
    assert (result.exit_code, result.json["result"], result.json["num_turns"]) == (
        0,
        "All done.",
        1,
    )
    assert product.sent()[-1] == {"role": "user", "content": "Go on."}


def test_turn_limit_message_is_printed_once_with_continue_hint(product: Product) -> None:
    product.will(LOOK)
    result = product.run("-p", "--max-turns", "1", "look around")

    assert result.stderr == (
        "dirge: Stopped after 1 turn, the limit of this run.\n"
        "dirge: Raise --max-turns, or continue with `dirge -c -p /continue`.\n"
    )
    assert result.stdout == "I had to stop here, after 1 turn: the task may be unfinished.\n"


def test_token_limit_message_is_printed_once_with_continue_hint(product: Product) -> None:
    product.will(ModelReply(calls=[("ls", {})], usage=(90, 11, 0, 0)))
    result = product.run("-p", "--max-tokens", "100", "look around")

    assert result.stderr == (
        "dirge: total token limit exceeded: 101 > 100.\n"
        "  Raise the limit, or continue with `dirge -c -p /continue`.\n"
    )


def test_session_limit_warns_and_stops_later_run(product: Product) -> None:
    product.configure("[limits]\nsession_tokens = 100\n")
    product.will(
        ModelReply(text="Once.", usage=(80, 10, 0, 0)),
        ModelReply(text="Twice.", usage=(9, 2, 0, 0)),
    )
    first = product.run("-p", "hello")
    second = product.run("-c", "-p", "hello again")

    assert (first.exit_code, first.stdout) == (0, "Once.\n")
    assert "90% of a limit of this session is used: session_tokens, 90 of 100" in first.stderr
    assert (second.exit_code, second.stdout) == (54, "Twice.\n")
    assert "session total token limit exceeded: 101 > 100" in second.stderr


def test_a44_batch_over_tool_call_limit_does_not_run_and_next_run_continues(
    product: Product,
) -> None:
    product.configure("[limits]\ntool_calls = 3\n")
    product.will(
        ModelReply(calls=[("ls", {}), ("ls", {"path": "."})]),
        ModelReply(calls=[("ls", {}), ("ls", {})]),
        ModelReply(text="Enough seen."),
    )
    stopped = product.ask("look around")
    process = product.ask("-c", "/continue")

    assert stopped.json["error"]["message"] == "tool call limit exceeded: 4 > 3."
    assert (process.exit_code, process.json["result"]) == (0, "Enough seen.")
    results = [m["content"] for m in product.sent() if m["role"] == "tool"]
    assert ["Not run" in result for result in results] == [False, False, True, True]


@pytest.mark.parametrize("output", ["text", "json"])
def test_continue_after_complete_answer_fails(product: Product, output: str) -> None:
    product.will(ModelReply(text="Whole."))
    product.run("-p", "hello")
    result = product.run("-c", "-p", "--output-format", output, "/continue")

    assert result.exit_code == 1
    assert "the last answer is complete" in result.stderr + result.stdout


def test_continue_after_error_repeats_request(product: Product) -> None:
    product.will(
        RawReply(status=400, body='{"error":{"message":"odd"}}'), ModelReply(text="Better.")
    )
    failed = product.run("-p", "hello")
    result = product.ask("-c", "/continue")

    assert (failed.exit_code, result.json["result"]) == (1, "Better.")
    assert product.sent(0)[-1] == product.sent(1)[-1]


def test_a72_denied_call_stays_error_after_restart(product: Product) -> None:
    product.configure(wire="anthropic", model="claude-sonnet-4-5")
    product.will(
        ModelReply(calls=[("bash", {"command": "git push"})]),
        ModelReply(text="Denied."),
        ModelReply(text="Again."),
    )
    first = product.run("-p", "push it")
    second = product.run("-c", "-p", "and now?")

    assert (first.exit_code, second.exit_code) == (0, 0)
    for request in (1, 2):
        [result] = [
            block
            for message in product.sent(request)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        assert result["is_error"] is True
