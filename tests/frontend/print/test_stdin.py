"""The prompt from words, from stdin, or from both, without hanging."""

import os
import pty
import signal
import subprocess

import pytest

from dirge_py.frontend.print import streams
from tests.support.fake_service import ModelReply
from tests.support.product import Product, finish


def asked(product: Product) -> str:
    text: str = product.sent()[-1]["content"]
    return text


def test_stdin_follows_the_words_after_a_blank_line(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.run_forked("-p", "What is", "this?", stdin="some\ntext\n")

    assert asked(product) == "What is this?\n\nsome\ntext"


def test_stdin_alone_is_the_prompt(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.run("-p", stdin="from a file\n")

    assert asked(product) == "from a file"


def test_an_empty_stdin_is_as_none(product: Product) -> None:
    product.will(ModelReply(text="ok"))

    product.run_forked("-p", "only words")

    assert asked(product) == "only words"


def test_no_prompt_at_all_is_wrong_usage(product: Product) -> None:
    result = product.run("-p")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "no prompt" in result.stderr
    assert product.service.requests == []
    assert not product.state_dir.exists()


def test_blank_words_are_no_prompt(product: Product) -> None:
    assert product.run("-p", "  ").exit_code == 2


def test_a_silent_open_pipe_does_not_hold_up_a_prompt_in_words(product: Product) -> None:
    product.will(ModelReply(text="pong"))
    process = product.start("-p", "ping", stdin=subprocess.PIPE)

    answered = product.service.wait_for(1)

    assert answered.json["messages"][-1]["content"] == "ping"
    result = finish(process)
    assert result.stdout == "pong\n"
    assert "nothing came on stdin" in result.stderr


def test_a_terminal_is_not_read(product: Product) -> None:
    product.will(ModelReply(text="pong"))
    controller, terminal = pty.openpty()
    try:
        result = finish(product.start("-p", "ping", stdin=terminal))
    finally:
        os.close(controller)
        os.close(terminal)

    assert result.stdout == "pong\n"
    assert asked(product) == "ping"


def test_a_closed_stdin_is_no_trouble(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = finish(
        product.start_fresh("-p", "ping", prefix=["bash", "-c", 'exec "$@" <&-', "bash"])
    )

    assert result.stdout == "pong\n"


def test_the_key_may_come_on_stdin(product: Product) -> None:
    product.will(ModelReply(text="pong"))

    result = product.run("-p", "--api-key-stdin", "ping", stdin="sk-from-stdin\n")

    assert result.stdout == "pong\n"
    assert product.service.requests[0].headers["authorization"] == "Bearer sk-from-stdin"
    assert asked(product) == "ping"


def test_bytes_that_are_no_text_are_replaced(product: Product) -> None:
    product.will(ModelReply(text="ok"))
    raw = product.file("raw.bin", b"a\xffb")

    with raw.open("rb") as given:
        finish(product.start("-p", "look", stdin=given.fileno()))

    assert asked(product) == "look\n\na\ufffdb"


def test_a_pipe_that_does_not_block_is_read_to_its_end(product: Product) -> None:
    product.will(ModelReply(text="ok"))
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    process = product.start("-p", stdin=reading)
    os.close(reading)
    os.write(writing, b"first ")
    os.write(writing, b"second")
    os.close(writing)

    finish(process)

    assert asked(product) == "first second"


def test_a_pipe_that_falls_silent_is_given_up_and_it_is_said(
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
def test_a_signal_ends_the_reading_of_stdin(
    product: Product, number: signal.Signals, code: int
) -> None:
    reading, writing = os.pipe()
    process = product.start("-p", stdin=reading)
    os.close(reading)
    os.write(writing, b"x" * 65536)
    # Taken only by whoever reads already: then there is room for as much again.
    os.write(writing, b"x" * 65536)
    process.send_signal(number)
    result = finish(process)
    os.close(writing)

    assert (result.exit_code, result.stdout, result.stderr) == (code, "", "")
