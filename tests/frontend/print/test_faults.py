"""Bad settings, bad services, bad answers: a clear message each, and never a traceback."""

import json
import socket

import pytest

from dirge_py.agent_loop.retry import RecoveryPolicy
from tests.frontend.print.product import Product, Wire
from tests.providers.server import Raw, Say

WIRES: list[Wire] = ["openai", "anthropic"]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecoveryPolicy, "delay_s", lambda *_: 0.0)


def test_a_broken_settings_file_is_told_with_its_line(product: Product) -> None:
    (product.config_dir / "config.toml").write_text('provider = "a"\nnonsense\n')

    ran = product.ask("x")

    assert ran.exit_code == 2
    assert f"{product.config_dir / 'config.toml'}:2:" in ran.stderr
    assert ran.json["exit_code"] == 2
    assert ran.json["session_id"] is None
    assert ran.json["error"]["kind"] == "config"


def test_an_unknown_setting_is_told_with_the_nearest(product: Product) -> None:
    product.configure("[loop]\nmax_turnz = 5\n")

    ran = product.run("-p", "x")

    assert ran.exit_code == 2
    assert "max_turnz" in ran.stderr and "`max_turns`" in ran.stderr
    assert f"{product.config_dir / 'config.toml'}" in ran.stderr and ":9:" in ran.stderr


def test_an_unknown_provider_is_named(product: Product) -> None:
    ran = product.ask("-m", "fakee/gpt-4o", "x")

    assert ran.exit_code == 2
    assert "fakee" in ran.stderr
    assert ran.json["session_id"] is None


def test_a_missing_key_names_the_variable_in_one_line(product: Product) -> None:
    ran = product.ask("x", env={"FAKE_KEY": ""})

    assert ran.exit_code == 2
    first = ran.stderr.split("\n")[0]
    assert "FAKE_KEY" in first
    assert ran.json["exit_code"] == 2
    assert ran.json["session_id"] is None
    assert not product.state_dir.exists()


def test_no_provider_at_all_says_what_to_do(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()

    ran = product.ask("x")

    assert ran.exit_code == 2
    assert "OPENAI_API_KEY" in ran.stderr and "ANTHROPIC_API_KEY" in ran.stderr


def test_a_usual_key_is_enough(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()
    product.will(Say(text="pong"))

    ran = product.run(
        *("-p", "ping"),
        env={"OPENAI_API_KEY": "sk-usual", "OPENAI_BASE_URL": product.service.openai_url},
    )

    assert ran.stdout == "pong\n"
    assert product.service.requests[0].headers["authorization"] == "Bearer sk-usual"


def test_plain_http_to_elsewhere_is_refused(product: Product) -> None:
    ran = product.run("-p", "--base-url", "http://example.com/v1", "x")

    assert ran.exit_code == 2
    assert "https" in ran.stderr


def test_a_refused_connection_is_tried_again_and_then_told(product: Product) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        ran = product.ask("--base-url", url, "x")

    assert ran.exit_code == 75
    assert ran.stderr.count("retrying") == 5
    assert ran.json["error"]["kind"] == "network"
    assert "127.0.0.1" in ran.json["error"]["message"]


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_cut_in_the_middle_is_kept_and_gone_on_with(product: Product, wire: Wire) -> None:
    product.configure(wire=wire)
    product.will(
        Say(text="the first half of it", delta_chars=4, after_bytes=1200, then="reset"),
        Say(text="and the second"),
    )

    ran = product.ask("x")

    assert ran.exit_code == 0
    assert ran.json["result"].startswith("the")
    assert ran.json["result"].endswith("and the second")


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_cut_in_the_middle_is_kept_and_told(product: Product, wire: Wire) -> None:
    product.configure("[loop]\nrecoveries = 0\n", wire=wire)
    product.will(
        Say(text="the first half of it", delta_chars=4, after_bytes=1200, then="reset"),
        Say(text="going on"),
    )

    ran = product.ask("x")
    later = product.ask("-c", "go on")

    assert ran.exit_code == 75
    assert ran.json["is_error"] is True
    assert ran.json["result"].startswith("the")
    assert later.exit_code == 0


@pytest.mark.parametrize(
    "body",
    [
        "not server-sent events at all",
        "data: {nonsense\n\n",
        "data: []\n\n",
        'data: {"choices": 5}\n\n',
        "data: null\n\n",
        "\x00\xff\xfe",
        "",
    ],
)
@pytest.mark.parametrize("wire", WIRES)
def test_garbage_is_told_and_the_session_goes_on(product: Product, wire: Wire, body: str) -> None:
    product.configure(wire=wire)
    product.will(*[Raw(body=body)] * 6)

    ran = product.ask("x")
    product.service.replies[len(product.service.requests) :] = [Say(text="fine")]
    later = product.ask("-c", "again")

    assert ran.exit_code in (1, 75)
    assert ran.json["error"]["message"]
    assert later.json["result"] == "fine"


def test_a_web_page_instead_of_an_answer_is_named_as_such(product: Product) -> None:
    page = Raw(body="<html><h1>Sign in</h1></html>", headers={"content-type": "text/html"})
    product.will(*[page] * 6)

    ran = product.ask("x")

    assert ran.exit_code in (1, 75)
    assert "<h1>" not in ran.json["error"]["message"]


@pytest.mark.parametrize(
    "arguments", ['{"path": ', "nonsense", "[1]", '"a.txt"', "null", '{"path": 5}']
)
@pytest.mark.parametrize("wire", WIRES)
def test_arguments_that_are_none_are_answered_and_sendable(
    product: Product, wire: Wire, arguments: str
) -> None:
    product.configure(wire=wire)
    product.will(Say(calls=[("read", arguments)]), Say(text="I see."))

    ran = product.ask("x")

    assert ran.exit_code == 0
    assert ran.json["result"] == "I see."
    for message in product.sent():
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_a_file_that_is_missing_is_told_to_the_model(product: Product) -> None:
    product.will(Say(calls=[("read", {"path": "nope.txt"})]), Say(text="I see."))

    assert product.ask("x").exit_code == 0
    assert "nope.txt" in product.sent()[-1]["content"]


def test_a_binary_file_is_not_poured_into_the_conversation(product: Product) -> None:
    product.file("a.bin", b"\0\1\2" * 10_000)
    product.will(Say(calls=[("read", {"path": "a.bin"})]), Say(text="I see."))

    assert product.ask("x").exit_code == 0
    assert len(product.sent()[-1]["content"]) < 500


def test_a_huge_file_is_read_in_part(product: Product) -> None:
    product.file("big.txt", b"0123456789abcde\n" * (50_000_000 // 16))
    product.will(Say(calls=[("read", {"path": "big.txt"})]), Say(text="I see."))

    assert product.ask("x").exit_code == 0
    assert len(product.sent()[-1]["content"]) < 200_000
