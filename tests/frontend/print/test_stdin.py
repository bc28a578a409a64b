"""The prompt from arguments, from stdin, or from both, without hanging."""

import os
import pty
import signal
import subprocess

import pytest

from dirge_py.frontend.print import streams
from tests.support.fake_service import ModelReply
from tests.support.product import Product, finish


def sent_prompt(product: Product) -> str:
    text: str = product.sent()[-1]["content"]
    return text


def test_stdin_is_appended_to_words_after_blank_line(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.run_forked("-p", "What is", "this?", stdin="some\ntext\n")

    assert sent_prompt(product) == "What is this?\n\nsome\ntext"


def test_stdin_alone_is_the_prompt(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.run("-p", stdin="from a file\n")

    assert sent_prompt(product) == "from a file"


def test_empty_stdin_is_ignored(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.run_forked("-p", "only words")

    assert sent_prompt(product) == "only words"


def test_missing_prompt_is_usage_error(product: Product) -> None:
    result = product.run("-p")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "no prompt" in result.stderr
    assert product.service.requests == []
    assert not product.state_dir.exists()


def test_blank_prompt_is_usage_error(product: Product) -> None:
    assert product.run("-p", "  ").exit_code == 2


def test_silent_pipe_on_stdin_does_not_delay_prompt_in_words(product: Product) -> None:
    product.will(ModelReply(text="pong"))
    process = product.start("-p", "ping", stdin=subprocess.PIPE)

    answered = product.service.wait_for(1)

    assert answered.json["messages"][-1]["content"] == "ping"
    result = finish(process)
    assert result.stdout == "pong\n"
    assert "nothing came on stdin" in result.stderr


def test_stdin_that_is_a_terminal_is_not_read(product: Product) -> None:
    product.will(ModelReply(text="pong"))
    controller, terminal = pty.openpty()
    try:
        result = finish(product.start("-p", "ping", stdin=terminal))
    finally:
        os.close(controller)
        os.close(terminal)

    assert result.stdout == "pong\n"
    assert sent_prompt(product) == "ping"


def test_closed_stdin_is_tolerated(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = finish(
        product.start_fresh("-p", "ping", prefix=["bash", "-c", 'exec "$@" <&-', "bash"])
    )

    assert result.stdout == "pong\n"


def test_api_key_can_be_read_from_stdin(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = product.run("-p", "--api-key-stdin", "ping", stdin="sk-from-stdin\n")

    assert result.stdout == "pong\n"
    assert product.service.requests[0].headers["authorization"] == "Bearer sk-from-stdin"
    assert sent_prompt(product) == "ping"


def test_invalid_utf8_on_stdin_is_replaced(product: Product) -> None:
    product.will(ModelReply(text="ok"))
    raw = product.file("raw.bin", b"a\xffb")

    with raw.open("rb") as given:
        finish(product.start("-p", "look", stdin=given.fileno()))

    assert sent_prompt(product) == "look\n\na\ufffdb"


def test_nonblocking_stdin_is_read_to_end(product: Product) -> None:
    product.will(ModelReply(text="ok"))
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    process = product.start("-p", stdin=reading)
    os.close(reading)
    os.write(writing, b"first ")
    os.write(writing, b"second")
    os.close(writing)

    finish(process)

    assert sent_prompt(product) == "first second"


def test_stdin_that_stalls_is_abandoned_with_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "NEXT_PIECE_S", 0.05)
    reading, writing = os.pipe()
    os.write(writing, b"x\n")
    try:
        text, notice = streams.read_prompt(reading, have_words=True)
    finally:
        os.close(reading)
        os.close(writing)

    assert text == "x"
    assert notice.startswith("nothing more came on stdin for 0.05 s")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_ends_read_of_stdin(product: Product, number: signal.Signals, code: int) -> None:
    reading, writing = os.pipe()
    process = product.start("-p", stdin=reading)
    os.close(reading)
    os.write(writing, b"x" * 65536)
    # The second write succeeds only once the program reads.
    os.write(writing, b"x" * 65536)
    process.send_signal(number)
    result = finish(process)
    os.close(writing)

    assert (result.exit_code, result.stdout, result.stderr) == (code, "", "")
