"""Invalid settings, failing services, broken answers: a clear message, never a traceback."""

import json
import socket

import pytest

from dirge_py.agent_loop.retry import RecoveryPolicy
from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import Product, Wire

WIRES: list[Wire] = ["openai", "anthropic"]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecoveryPolicy, "delay_s", lambda *_: 0.0)


def test_syntax_error_in_settings_is_reported_with_line(product: Product) -> None:
    (product.config_dir / "config.toml").write_text('provider = "a"\nnonsense\n')

    result = product.ask("x")

    assert result.exit_code == 2
    assert f"{product.config_dir / 'config.toml'}:2:" in result.stderr
    assert result.json["exit_code"] == 2
    assert result.json["session_id"] is None
    assert result.json["error"]["kind"] == "config"


def test_unknown_setting_is_reported_with_suggestion(product: Product) -> None:
    product.configure("[loop]\nmax_turnz = 5\n")

    result = product.run("-p", "x")

    assert result.exit_code == 2
    assert "max_turnz" in result.stderr and "`max_turns`" in result.stderr
    assert f"{product.config_dir / 'config.toml'}" in result.stderr and ":9:" in result.stderr


def test_unknown_provider_is_named(product: Product) -> None:
    result = product.ask("-m", "fakee/gpt-4o", "x")

    assert result.exit_code == 2
    assert "fakee" in result.stderr
    assert result.json["session_id"] is None


def test_missing_key_error_names_variable(product: Product) -> None:
    result = product.ask("x", env={"FAKE_KEY": ""})

    assert result.exit_code == 2
    first = result.stderr.split("\n")[0]
    assert "FAKE_KEY" in first
    assert result.json["exit_code"] == 2
    assert result.json["session_id"] is None
    assert not product.state_dir.exists()


def test_missing_provider_error_names_key_variables(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()

    result = product.ask("x")

    assert result.exit_code == 2
    assert "OPENAI_API_KEY" in result.stderr and "ANTHROPIC_API_KEY" in result.stderr


def test_standard_key_variable_is_enough_configuration(product: Product) -> None:
    (product.config_dir / "config.toml").unlink()
    product.will(ModelReply(text="pong"))

    result = product.run(
        *("-p", "ping"),
        env={"OPENAI_API_KEY": "sk-usual", "OPENAI_BASE_URL": product.service.openai_url},
    )

    assert result.stdout == "pong\n"
    assert product.service.requests[0].headers["authorization"] == "Bearer sk-usual"


def test_plain_http_to_remote_host_is_refused(product: Product) -> None:
    result = product.run("-p", "--base-url", "http://example.com/v1", "x")

    assert result.exit_code == 2
    assert "https" in result.stderr


def test_refused_connection_is_retried_and_then_reported(product: Product) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        result = product.ask("--base-url", url, "x")

    assert result.exit_code == 75
    assert result.stderr.count("retrying") == 5
    assert result.json["error"]["kind"] == "network"
    assert "127.0.0.1" in result.json["error"]["message"]


@pytest.mark.parametrize("wire", WIRES)
def test_answer_cut_in_the_middle_is_continued(product: Product, wire: Wire) -> None:
    product.configure(wire=wire)
    product.will(
        ModelReply(text="the first half of it", delta_chars=4, after_bytes=1200, then="reset"),
        ModelReply(text="and the second"),
    )

    result = product.ask("x")

    assert result.exit_code == 0
    assert result.json["result"].startswith("the")
    assert result.json["result"].endswith("and the second")


@pytest.mark.parametrize("wire", WIRES)
def test_answer_cut_in_the_middle_is_kept_without_recoveries(product: Product, wire: Wire) -> None:
    product.configure("[loop]\nrecoveries = 0\n", wire=wire)
    product.will(
        ModelReply(text="the first half of it", delta_chars=4, after_bytes=1200, then="reset"),
        ModelReply(text="going on"),
    )

    result = product.ask("x")
    later = product.ask("-c", "go on")

    assert result.exit_code == 75
    assert result.json["is_error"] is True
    assert result.json["result"].startswith("the")
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
def test_malformed_response_is_reported_and_session_stays_usable(
    product: Product, wire: Wire, body: str
) -> None:
    product.configure(wire=wire)
    product.will(*[RawReply(body=body)] * 6)

    result = product.ask("x")
    product.service.replies[len(product.service.requests) :] = [ModelReply(text="fine")]
    later = product.ask("-c", "again")

    assert result.exit_code in (1, 75)
    assert result.json["error"]["message"]
    assert later.json["result"] == "fine"


def test_html_response_is_reported_without_its_markup(product: Product) -> None:
    page = RawReply(body="<html><h1>Sign in</h1></html>", headers={"content-type": "text/html"})
    product.will(*[page] * 6)

    result = product.ask("x")

    assert result.exit_code in (1, 75)
    assert "<h1>" not in result.json["error"]["message"]


@pytest.mark.parametrize(
    "arguments", ['{"path": ', "nonsense", "[1]", '"a.txt"', "null", '{"path": 5}']
)
@pytest.mark.parametrize("wire", WIRES)
def test_invalid_tool_arguments_get_result_and_history_stays_sendable(
    product: Product, wire: Wire, arguments: str
) -> None:
    product.configure(wire=wire)
    product.will(ModelReply(calls=[("read", arguments)]), ModelReply(text="I see."))

    result = product.ask("x")

    assert result.exit_code == 0
    assert result.json["result"] == "I see."
    for message in product.sent():
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


def test_missing_file_is_reported_to_model(product: Product) -> None:
    product.will(ModelReply(calls=[("read", {"path": "nope.txt"})]), ModelReply(text="I see."))

    assert product.ask("x").exit_code == 0
    assert "nope.txt" in product.sent()[-1]["content"]


def test_binary_file_is_not_sent_to_model(product: Product) -> None:
    product.file("a.bin", b"\0\1\2" * 10_000)
    product.will(ModelReply(calls=[("read", {"path": "a.bin"})]), ModelReply(text="I see."))

    assert product.ask("x").exit_code == 0
    assert len(product.sent()[-1]["content"]) < 500


def test_huge_file_is_read_in_part(product: Product) -> None:
    product.file("big.txt", b"0123456789abcde\n" * (50_000_000 // 16))
    product.will(ModelReply(calls=[("read", {"path": "big.txt"})]), ModelReply(text="I see."))

    assert product.ask("x").exit_code == 0
    assert len(product.sent()[-1]["content"]) < 200_000
