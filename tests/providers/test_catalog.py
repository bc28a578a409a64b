import tomllib
from importlib.resources import files

import pytest

from dirge_py.config.services import SERVICES
from dirge_py.providers.catalog import (
    ModelProfile,
    cost_usd,
    find_model_profile,
    with_hourly_cache_price,
)
from dirge_py.types.messages import Usage

WORDS = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
CARD = ModelProfile(price_in=3.0, price_out=15.0, price_cache_read=0.3, price_cache_write=3.75)


@pytest.mark.parametrize(
    ("dated", "plain"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("anthropic/claude-opus-4-20250514", "claude-opus-4"),
    ],
)
def test_dated_model_id_has_profile_of_undated_model(dated, plain):
    assert find_model_profile("anthropic", dated) == find_model_profile("anthropic", plain)
    assert find_model_profile("anthropic", plain).price_in is not None


def test_model_with_different_version_number_has_different_profile():
    assert find_model_profile("openai", "gpt-5.5") != find_model_profile("openai", "gpt-5")
    assert find_model_profile("openai", "gpt-5-mini-2025-08-07").price_in == 0.25


def test_model_variant_inherits_limits_but_no_price():
    search, plain = (
        find_model_profile("openai", "gpt-5-search-api"),
        find_model_profile("openai", "gpt-5"),
    )

    assert (search.window_tokens, search.price_in) == (plain.window_tokens, None)


def test_unknown_model_has_no_window_and_no_price():
    profile = find_model_profile("openai", "somebody-elses")

    assert (profile.window_tokens, profile.price_in, profile.thinking) == (None, None, False)
    assert find_model_profile("nobody", "x") == ModelProfile()


def test_model_newer_than_catalog_gets_profile_of_newest_model():
    assert find_model_profile("anthropic", "claude-opus-9").adaptive_thinking
    assert find_model_profile("openai", "gpt-7").thinking


def test_both_openai_wire_formats_share_model_profiles():
    assert find_model_profile("openai-responses", "gpt-5.5") == find_model_profile(
        "openai", "gpt-5.5"
    )


@pytest.mark.parametrize(
    ("provider_type", "model_id", "maker", "known_as"),
    [
        ("openrouter", "anthropic/claude-sonnet-4.5", "anthropic", "claude-sonnet-4-5"),
        ("openrouter", "google/gemini-2.5-flash:free", "gemini", "gemini-2.5-flash"),
        ("openrouter", "deepseek/deepseek-v4-flash", "deepseek", "deepseek-v4-flash"),
        ("opencode", "glm-5.2", "glm", "glm-5.2"),
        ("openai", "x-ai/grok-4.3", "xai", "grok-4.3"),
        ("anthropic", "deepseek-v4-pro", "deepseek", "deepseek-v4-pro"),
        ("openrouter", "anthropic/claude-novel-9", "anthropic", "claude-novel-9"),
    ],
)
def test_reseller_profile_has_makers_limits_but_no_price(provider_type, model_id, maker, known_as):
    here, there = find_model_profile(provider_type, model_id), find_model_profile(maker, known_as)

    assert here.window_tokens == there.window_tokens != 128_000
    assert (here.max_output_tokens, here.thinking) == (there.max_output_tokens, there.thinking)
    assert (here.price_in, here.efforts, here.structured) == (None, None, False)


def test_unknown_model_gets_profile_of_its_family():
    assert find_model_profile("gemini", "gemini-9-ultra").structured
    assert find_model_profile("openrouter", "qwen/qwen3-coder").window_tokens == 131_072
    assert find_model_profile("mistral", "mistral-large-2411").window_tokens == 128_000
    assert find_model_profile("openrouter", "nobody/nothing") == ModelProfile()


@pytest.mark.parametrize("provider_type", ["ollama", "lmstudio", "llamacpp", "vllm"])
def test_local_model_costs_nothing_and_has_no_known_window(provider_type):
    profile = find_model_profile(provider_type, "deepseek-v4-pro")

    assert cost_usd(profile, Usage(input=1000, output=1000, cache_read=10)) == 0
    assert profile.window_tokens is None


def test_ollama_cloud_model_has_unknown_cost():
    assert (
        cost_usd(find_model_profile("ollama", "gpt-oss:120b-cloud"), Usage(input=1, output=1))
        is None
    )


def test_hourly_cache_writes_cost_twice_the_input_price():
    assert with_hourly_cache_price(CARD).price_cache_write == 6.0
    assert with_hourly_cache_price(ModelProfile()) == ModelProfile()


def test_model_catalog_rows_are_consistent():
    text = files("dirge_py.providers").joinpath("catalog.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    assert find_model_profile("vllm", "x").price_in == 0, "the last table is read, too"
    assert tables.keys() <= {service.type for service in SERVICES}
    for name, models in tables.items():
        for model_id, row in models.items():
            assert f'\n"{model_id}" = {{' in text, "each row is one line"
            profile = ModelProfile(**row)
            which = f"{name}: {model_id}"
            priced = profile.price_in is not None
            assert model_id == model_id.lower(), which
            assert "*" not in model_id[:-1], which
            assert (profile.window_tokens or 1 << 40) > (profile.max_output_tokens or 0), which
            assert priced is (profile.price_out is not None), which
            is_embedding = "embedding" in model_id  # has no output
            assert not priced or profile.price_out >= profile.price_in or is_embedding, which
            for cached in (profile.price_cache_read, profile.price_cache_write):
                assert cached is None or priced, which
            assert not priced or (profile.price_cache_read or 0) <= profile.price_in, which
            assert (profile.price_cache_write or 99) >= (profile.price_in or 0), which
            assert (profile.priced_to_tokens or 1) <= (profile.window_tokens or 1 << 40), which
            assert profile.thinking or not profile.adaptive_thinking, which
            assert set(profile.efforts or ()) <= WORDS, which
            assert profile.thinking or not profile.efforts, which


def test_cost_sums_price_of_each_token_kind():
    usage = Usage(input=10_000, output=500, cache_read=8_000, cache_write=1_000)

    assert cost_usd(CARD, usage) == pytest.approx(0.01665)


def test_unknown_price_makes_cost_unknown():
    assert cost_usd(ModelProfile(), Usage(input=1)) is None
    assert cost_usd(ModelProfile(price_in=1.0, price_out=1.0), Usage(input=2, cache_read=1)) is None
    assert cost_usd(ModelProfile(price_in=1.0, price_out=1.0), Usage(input=2, output=1)) == 3e-6


def test_usage_beyond_priced_tier_makes_cost_unknown():
    profile = ModelProfile(price_in=1.0, price_out=1.0, priced_to_tokens=100)

    assert cost_usd(profile, Usage(input=101)) is None
