"""What is known of each model: its limits, its prices, what it can do. The data is catalog.toml."""

import re
import tomllib
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.messages import Usage

UNKNOWN_WINDOW_TOKENS = 128_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One model. Prices are USD per million tokens, None where unknown: never a guess.

    `priced_to_tokens` is the input size from which the provider charges more than the prices say.
    `adaptive_thinking` models choose their own budget and accept no other. `effort_with_tools` is
    False for models whose Chat Completions refuse tools while thinking. `structured`: the service
    holds its answers to a JSON Schema when asked, also while tools are offered.
    """

    window_tokens: int = UNKNOWN_WINDOW_TOKENS
    max_output_tokens: int | None = None
    price_in: float | None = None
    price_out: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None
    priced_to_tokens: int | None = None
    thinking: bool = False
    images: bool = False
    adaptive_thinking: bool = False
    effort_with_tools: bool = True
    efforts: tuple[str, ...] | None = None
    structured: bool = False


def lookup(provider_type: str, model_id: str) -> ModelCard:
    """The card of the longest known id that `model_id` starts with.

    So `claude-sonnet-4-5-20250929` finds `claude-sonnet-4-5`. A longer id that continues with
    something else than a date or `latest` is a relative: it gets the limits and not the prices.
    An id that starts with nothing known gets the card of what is most likely.
    """
    plain = model_id.rpartition("/")[2].lower()
    cards = _cards().get(provider_type, {})
    found = max((known for known in cards if _continues(known, plain)), key=len, default=None)
    if found is None:
        return ModelCard(**_likely(provider_type, plain))
    card = cards[found]
    if found == plain or _SAME_MODEL.fullmatch(plain, len(found)):
        return card
    return replace(
        card, price_in=None, price_out=None, price_cache_read=None, price_cache_write=None
    )


def cost_usd(card: ModelCard, usage: Usage) -> float | None:
    """What one call cost, None when any price it needs is unknown."""
    if card.priced_to_tokens is not None and usage.input > card.priced_to_tokens:
        return None
    counted = (
        (usage.input - usage.cache_read - usage.cache_write, card.price_in),
        (usage.output, card.price_out),
        (usage.cache_read, card.price_cache_read),
        (usage.cache_write, card.price_cache_write),
    )
    total = 0.0
    for tokens, price in counted:
        if tokens > 0:
            if price is None:
                return None
            total += tokens * price / 1_000_000
    return total if card.price_in is not None and card.price_out is not None else None


_SAME_MODEL = re.compile(r"-latest|[-@]\d{8}|-\d{4}-\d{2}-\d{2}")


def _continues(known: str, model_id: str) -> bool:
    # `gpt-5` is no beginning of `gpt-5.5`, nor `o1` of `o10`.
    return model_id == known or (model_id.startswith(known) and model_id[len(known)] in "-@:")


def _likely(provider_type: str, model_id: str) -> dict[str, Any]:
    """A model newer than the catalogue is most like the newest in it."""
    if provider_type == "anthropic" and model_id.startswith("claude"):
        return {"thinking": True, "images": True, "adaptive_thinking": True}
    if provider_type == "openai" and re.match(r"gpt-([5-9]|\d\d)|o\d", model_id):
        return {"thinking": True, "images": True, "effort_with_tools": False}
    return {"thinking": provider_type == "anthropic"}


@cache
def _cards() -> dict[str, dict[str, ModelCard]]:
    text = files("dirge_py.providers").joinpath("catalog.toml").read_text(encoding="utf-8")
    return {
        provider_type: {model_id: ModelCard(**values) for model_id, values in models.items()}
        for provider_type, models in tomllib.loads(text).items()
    }
