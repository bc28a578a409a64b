"""Roles: which model answers, and where its cost is counted."""

from typing import Any

import pytest

from tests.frontend.print.test_loop_features import events, native
from tests.support.fake_service import ModelReply, RawReply
from tests.support.product import ProcessResult, Product

NO_KEY = RawReply(status=401, body='{"error":{"message":"invalid api key"}}')
HELLO = ModelReply(text="Hello.", usage=(1_000_000, 0, 0, 0))


def with_spare(product: Product, more: str) -> None:
    """A second provider at the same service, and one without a key."""
    product.configure(
        '[providers.keyless]\ntype = "anthropic"\napi_key_env = "NO_SUCH_KEY"\n'
        f'[providers.spare]\ntype = "openai"\nmodel = "gpt-4.1"\napi_key_env = "FAKE_KEY"\n'
        f'base_url = "{product.service.openai_url}"\n{more}'
    )


def spending(result: ProcessResult) -> list[tuple[str, str, float | None]]:
    return [(e["role"], e["model"], e["cost_usd"]) for e in events(result, "usage")]


def requested_models(product: Product) -> list[str]:
    return [request.json["model"] for request in product.service.requests]


@pytest.mark.parametrize("fallback", ['"spare"', '["keyless", "spare"]'])
def test_fallback_model_is_named_and_billed(product: Product, fallback: str):
    with_spare(product, f"[roles]\nfallback = {fallback}\n")
    product.will(NO_KEY, HELLO)
    result = native(product, "hi")

    assert result.lines[-1]["result"] == "Hello."
    assert requested_models(product) == ["gpt-4o", "gpt-4.1"]
    assert spending(result) == [("fallback", "spare/gpt-4.1", 2.0)]
    assert result.lines[-1]["total_cost_usd"] == 2.0
    assert (result.lines[-1]["provider"], result.lines[-1]["model"]) == ("spare", "gpt-4.1")
    notices = " ".join(e["content"] for e in events(result, "system_notice"))
    assert "fake/gpt-4o cannot be reached" in notices
    assert ("[roles] fallback: Provider `keyless` has no API key" in result.stderr) is (
        "keyless" in fallback
    )


def test_error_without_fallback_asks_no_other_model(product: Product):
    with_spare(product, "")
    product.will(NO_KEY, HELLO)
    assert native(product, "hi").exit_code != 0
    assert requested_models(product) == ["gpt-4o"]


def test_critic_is_billed_by_role_and_its_failure_does_not_end_run(product: Product):
    with_spare(product, '[roles]\ncritic = "spare"\n[loop.gates]\ngoal = "greet"\n')
    product.will(HELLO, ModelReply(text="MET", usage=(10, 1, 0, 0)))
    costs = spending(native(product, "hi"))
    assert [(role, model) for role, model, _ in costs] == [
        ("", "fake/gpt-4o"),
        ("critic", "spare/gpt-4.1"),
    ]

    product.will(HELLO, NO_KEY, NO_KEY)
    result = native(product, "hi")
    assert (result.exit_code, result.lines[-1]["result"]) == (0, "Hello.")


def test_price_in_settings_overrides_catalogue(product: Product):
    product.configure('[models."fake/gpt-4o"]\nprice_in = 1.5\nprice_out = 0\n')
    product.will(HELLO)
    assert product.ask("hi").json["total_cost_usd"] == 1.5


def test_one_unknown_price_makes_total_cost_unknown(product: Product):
    with_spare(product, '[roles]\ncritic = "spare/unheard-of"\n[loop.gates]\ngoal = "greet"\n')
    product.will(HELLO, ModelReply(text="MET", usage=(10, 1, 0, 0)))
    result = native(product, "hi", "--max-cost", "3")

    assert [cost for *_, cost in spending(result)] == [2.5, None]
    assert result.lines[-1]["total_cost_usd"] is None


def test_cost_limit_with_unknown_price_warns_once(product: Product):
    product.configure("", model="unheard-of")
    product.will(ModelReply(calls=[("list_dir", {"path": "."})]), HELLO)
    result = native(product, "--max-cost", "0.01", "hi")

    notices: list[Any] = [e["content"] for e in events(result, "system_notice")]
    assert result.exit_code == 0
    warning = "The price of fake/unheard-of is unknown, so the cost limit doesn't count it."
    assert notices.count(warning) == 1


def test_window_in_settings_is_used(product: Product):
    product.configure('[models."fake/gpt-4o"]\nwindow_tokens = 21_000\n')
    assert "21,000" in product.run("-p", "/context").stdout


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_thinking_level_of_model_and_of_flag_is_sent(product: Product, wire: Any):
    product.configure("", wire=wire, model={"openai": "o3", "anthropic": "claude-sonnet-4-5"}[wire])
    product.will(*[ModelReply(text="Yes.")] * 3)
    product.run("-p", "-m", f"fake/{'o3' if wire == 'openai' else 'claude-sonnet-4-5'}:low", "a")
    product.run("-c", "-p", "b")
    product.run("-c", "-p", "--thinking", "high", "c")

    def level(body: Any) -> Any:
        return body.get("reasoning_effort") or body["thinking"]["budget_tokens"]

    first, second, third = [level(request.json) for request in product.service.requests]
    assert first == second != third
