"""The program with Ollama."""

import pytest

from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import Product

LOCAL = '[models."fake/qwen3:8b"]\nwindow_tokens = 40960\n'


@pytest.fixture
def local(product: Product) -> Product:
    """Settings without a key, with a window, and a model that is unloaded at once."""
    product.configure(LOCAL, wire="ollama", model="qwen3:8b")
    config = product.config_dir / "config.toml"
    text = config.read_text().replace('api_key_env = "FAKE_KEY"', 'keep_alive = "0"')
    config.write_text(text)
    return product


def test_file_is_edited_in_one_run(local: Product) -> None:
    target = local.file("a.txt", "one\n")
    edit = ("edit", {"path": "a.txt", "old_text": "one", "new_text": "two"})
    local.will(
        ModelReply(thinking="hm", calls=[("read", {"path": "a.txt"})]),
        ModelReply(calls=[edit]),
        ModelReply(text="It says two."),
    )

    process = local.ask("Make a.txt say two.")

    assert target.read_text() == "two\n"
    assert (process.exit_code, process.stderr) == (0, "")
    assert process.json["result"] == "It says two."
    assert process.json["total_cost_usd"] == 0  # it runs at home
    body = local.service.requests[1].json
    assert body["options"]["num_ctx"] == 40960
    assert (body["keep_alive"], body["think"]) == ("0", False)
    call, result = body["messages"][-2:]
    assert call["thinking"] == "hm"
    assert call["tool_calls"][0]["function"]["arguments"] == {"path": "a.txt"}
    assert (result["role"], result["tool_name"]) == ("tool", "read")


def test_missing_model_error_suggests_ollama_pull(local: Product) -> None:
    words = '{"error": "model \\"qwen3:8b\\" not found, try pulling it first"}'
    local.will(RawReply(status=404, body=words, headers={"content-type": "application/json"}))

    result = local.ask("hello")

    assert result.exit_code == 1
    assert "`ollama pull qwen3:8b`" in result.json["error"]["hint"]
    assert len(local.service.requests) == 1


def test_context_overflow_error_names_window_setting(local: Product) -> None:
    words = '{"error": "the input length exceeds the context length"}'
    reply = RawReply(status=400, body=words, headers={"content-type": "application/json"})
    local.will(*[reply] * 4)

    result = local.ask("hello")

    assert result.exit_code == 1
    assert '`window_tokens` in [models."qwen3:8b"]' in result.json["error"]["message"]
