import pytest

from dirge_py.messages import Usage
from dirge_py.providers.catalog import ModelCard, cost_usd, lookup

CARD = ModelCard(price_in=3.0, price_out=15.0, price_cache_read=0.3, price_cache_write=3.75)


@pytest.mark.parametrize(
    ("dated", "plain"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("anthropic/claude-opus-4-20250514", "claude-opus-4"),
    ],
)
def test_a_dated_model_is_the_model(dated, plain):
    assert lookup("anthropic", dated) == lookup("anthropic", plain)
    assert lookup("anthropic", plain).price_in is not None


def test_a_newer_number_is_another_model():
    assert lookup("openai", "gpt-5.5") != lookup("openai", "gpt-5")
    assert lookup("openai", "gpt-5-mini-2025-08-07").price_in == 0.25


def test_a_relative_has_the_limits_and_no_price():
    pro, plain = lookup("openai", "gpt-5-pro"), lookup("openai", "gpt-5")

    assert (pro.window_tokens, pro.price_in) == (plain.window_tokens, None)


def test_an_unknown_model_has_a_window_and_no_price():
    card = lookup("openai", "somebody-elses")

    assert (card.window_tokens, card.price_in, card.thinking) == (128_000, None, False)
    assert lookup("nobody", "x") == ModelCard()


def test_a_model_newer_than_the_catalogue_is_most_like_the_newest():
    assert lookup("anthropic", "claude-opus-9").adaptive_thinking
    assert lookup("openai", "gpt-7").thinking


def test_a_call_costs_what_each_kind_of_token_costs():
    usage = Usage(input=10_000, output=500, cache_read=8_000, cache_write=1_000)

    assert cost_usd(CARD, usage) == pytest.approx(0.01665)


def test_an_unknown_price_makes_an_unknown_cost():
    assert cost_usd(ModelCard(), Usage(input=1)) is None
    assert cost_usd(ModelCard(price_in=1.0, price_out=1.0), Usage(input=2, cache_read=1)) is None
    assert cost_usd(ModelCard(price_in=1.0, price_out=1.0), Usage(input=2, output=1)) == 3e-6


def test_a_dearer_tier_makes_an_unknown_cost():
    card = ModelCard(price_in=1.0, price_out=1.0, priced_to_tokens=100)

    assert cost_usd(card, Usage(input=101)) is None
