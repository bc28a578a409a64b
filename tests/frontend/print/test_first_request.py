"""One request from start to end, in both wire formats."""

import json

import pytest

from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import KEY, Product, Wire

EDIT = ("edit", {"path": "a.txt", "old_text": "one", "new_text": "two"})
MODELS: dict[Wire, str] = {"openai": "gpt-4o", "anthropic": "claude-haiku-4-5"}
WIRES: list[Wire] = ["openai", "anthropic"]


@pytest.mark.parametrize("wire", WIRES)
def test_file_is_edited_in_one_run(product: Product, wire: Wire) -> None:
    product.configure(wire=wire, model=MODELS[wire])
    target = product.file("a.txt", "one\n")
    product.will(
        ModelReply(calls=[("read", {"path": "a.txt"})]),
        ModelReply(calls=[EDIT]),
        ModelReply(text="It says two."),
    )

    result = product.ask("Make a.txt say two.")

    assert target.read_text() == "two\n"
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.json["result"] == "It says two."
    assert result.json["session_id"] == product.journals[0].stem


@pytest.mark.parametrize("wire", WIRES)
def test_result_reports_turns_tokens_and_cost_of_run(product: Product, wire: Wire) -> None:
    product.configure(wire=wire, model=MODELS[wire])
    product.file("a.txt", "one\n")
    product.will(
        ModelReply(calls=[("read", {"path": "a.txt"})], usage=(1000, 20, 0, 0)),
        ModelReply(text="One.", usage=(2000, 30, 0, 0)),
    )

    result = product.ask("What does a.txt say?").json

    prices = {"openai": (2.5, 10.0), "anthropic": (1.0, 5.0)}[wire]
    assert result["num_turns"] == 2
    assert result["usage"] == {
        "input_tokens": 3000,
        "output_tokens": 50,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }
    assert result["total_cost_usd"] == pytest.approx((3000 * prices[0] + 50 * prices[1]) / 1e6)
    assert (result["provider"], result["model"]) == ("fake", MODELS[wire])


def test_cached_input_tokens_are_counted_separately(product: Product) -> None:
    product.will(ModelReply(text="pong", usage=(1000, 20, 400, 0)))

    usage = product.ask("ping").json["usage"]

    assert usage["input_tokens"] == 600
    assert usage["cache_read_input_tokens"] == 400


def test_unknown_price_gives_null_cost(product: Product) -> None:
    product.configure(model="home-made")
    product.will(ModelReply(text="pong"))

    assert product.ask("ping").json["total_cost_usd"] is None


@pytest.mark.parametrize("wire", WIRES)
def test_api_key_is_sent_in_header_of_protocol(product: Product, wire: Wire) -> None:
    product.configure(wire=wire)
    product.will(ModelReply(text="pong"))

    product.ask("ping")

    headers = product.service.requests[0].headers
    sent = headers["authorization"] if wire == "openai" else headers["x-api-key"]
    assert sent.removeprefix("Bearer ") == KEY


def test_two_calls_of_one_turn_are_answered_in_order(product: Product) -> None:
    product.file("a.txt", "alpha\n")
    product.file("b.txt", "beta\n")
    product.will(
        ModelReply(calls=[("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})]),
        ModelReply(text="Read."),
    )

    product.ask("read both")

    results = [message for message in product.sent() if message["role"] == "tool"]
    assert [result["tool_call_id"] for result in results] == ["call_0", "call_1"]
    assert "alpha" in results[0]["content"]
    assert "beta" in results[1]["content"]


def test_cost_reported_by_provider_is_used(
    product: Product,
) -> None:
    product.configure(wire="openai", model="maker/unknown")
    settings = product.config_dir / "config.toml"
    settings.write_text(settings.read_text().replace('"openai"', '"openrouter"'))

    def answer(cost: float) -> RawReply:
        done = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "cost": cost}
        return RawReply(body=f"data: {json.dumps({**done, 'usage': usage})}\n\ndata: [DONE]\n\n")

    product.will(answer(0.01), answer(0.5))

    assert product.ask("a").json["total_cost_usd"] == 0.01
    assert product.ask("-c", "b").json["total_cost_usd"] == 0.5
    assert "0.5100" in product.run("-c", "-p", "/cost").stdout


def test_write_back_of_redacted_file_is_refused(
    product: Product,
) -> None:
    secret = "DB_PASSWORD=a1b2c3d4e5f6g7h8i9j0\n"
    file = product.file("a.env", secret)
    shown = {"path": "a.env", "content": "DB_PASSWORD=[redacted]\n"}
    product.will(
        ModelReply(calls=[("read", {"path": "a.env"})]),
        ModelReply(calls=[("write", shown)]),
        ModelReply(),
    )

    product.ask("--yolo", "tidy a.env")

    sent = [message["content"] for message in product.sent() if message["role"] == "tool"]
    assert "DB_PASSWORD=[redacted]" in sent[0] and "secret that you were not shown" in sent[1]
    assert file.read_text() == secret


def test_usage_contains_reported_reasoning_tokens(product: Product) -> None:
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}
    details = {"completion_tokens_details": {"reasoning_tokens": 20}}
    usage = {"prompt_tokens": 10, "completion_tokens": 30, **details}
    done = json.dumps({"choices": [choice], "usage": usage})
    product.will(RawReply(body=f"data: {done}\n\ndata: [DONE]\n\n"))

    assert product.ask("ping").json["usage"] == {
        "input_tokens": 10,
        "output_tokens": 30,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "reasoning_output_tokens": 20,
    }


def test_unsupported_temperature_is_omitted_and_reported_once(product: Product) -> None:
    product.configure(wire="anthropic", model="claude-opus-4-8")
    settings = product.config_dir / "config.toml"
    settings.write_text(f'{settings.read_text()}\n[models."claude-opus-4-8"]\ntemperature = 0.2\n')
    product.will(ModelReply(calls=[("ls", {})]), ModelReply(text="Done."))

    result = product.ask("look")

    assert all("temperature" not in request.json for request in product.service.requests)
    assert result.stderr.count("`temperature` is left out of requests to") == 1
