"""Commands that hang, flood or fork: all end, and leave nothing behind."""

import os
from pathlib import Path

from tests.frontend.print.test_outcomes import is_alive
from tests.support.fake_service import ModelReply
from tests.support.product import Product


def result_text(product: Product, command: str, **more: object) -> str:
    """The text that the model gets about a command."""
    product.will(
        ModelReply(calls=[("bash", {"command": command, **more})]), ModelReply(text="done")
    )
    result = product.run_forked("-p", "--yolo", "--output-format", "json", "x")
    assert result.exit_code == 0, result
    assert result.json["result"] == "done"
    return str(product.sent()[-1]["content"])


def test_command_gets_no_terminal(product: Product) -> None:
    text = result_text(product, "read -p 'name? ' name </dev/tty; echo got $name; read x; echo end")

    assert "end" in text


def test_output_of_ten_megabytes_is_truncated_and_stored(product: Product) -> None:
    text = result_text(product, "yes 0123456789abcde | head -c 10000000; echo last line")

    assert len(text) < 100_000
    assert "last line" in text
    [kept] = product.state_dir.glob("sessions/*/*/output/*")
    assert kept.stat().st_size > 9_000_000


def test_background_process_does_not_delay_exit_and_is_killed(product: Product) -> None:
    result_text(product, "sleep 600 & echo $! > pid; echo started")

    assert not is_alive(int((product.project / "pid").read_text()))


def test_process_in_new_session_is_killed_at_exit(product: Product) -> None:
    result_text(
        product, "setsid bash -c 'echo $$ > pid; sleep 600' & until [ -s pid ]; do sleep 0.01; done"
    )

    assert not is_alive(int((product.project / "pid").read_text()))


def test_command_ignoring_signals_is_killed_after_timeout(product: Product) -> None:
    text = result_text(
        product, "trap '' TERM INT HUP; echo $$ > pid; while :; do sleep 600; done", timeout=1
    )

    assert "1" in text
    assert not is_alive(int((product.project / "pid").read_text()))


def test_commands_do_not_get_api_key_in_environment(product: Product) -> None:
    text = result_text(product, "env; cat /proc/$PPID/environ | tr '\\0' '\\n' | wc -l")

    assert "FAKE_KEY" not in text
    assert os.fspath(Path(product.home)) in text
