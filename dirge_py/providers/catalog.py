"""What is known of each model: its limits, its prices, what it can do. The data is catalog.toml."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.messages import Usage

ASSUMED_WINDOW_TOKENS = 128_000
"""The window of a model that nobody told of."""

_Models: TypeAlias = "Mapping[str, ModelInfo]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """One model; None is unknown, never a guess. Prices are USD per million tokens.

    `priced_to_tokens` is the input size from which the provider charges more than the prices say.
    `adaptive_thinking` models choose their own budget and accept no other; those that think
    whatever they are told (`thinks_always`) can be made to call no tool. `binds_thinking`: what the
    model thought counts only behind the very words it was thought after. `effort_with_tools` is
    False for models whose Chat Completions refuse tools while thinking. `efforts`: the words for
    thinking that the model knows, None where they are the usual ones. `structured`: the service
    holds its answers to a JSON Schema when asked, also while tools are offered.
    """

    window_tokens: int | None = None
    max_output_tokens: int | None = None
    price_in: float | None = None
    price_out: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None
    priced_to_tokens: int | None = None
    thinking: bool = False
    images: bool | None = None
    adaptive_thinking: bool = False
    thinks_always: bool = False
    binds_thinking: bool = False
    effort_with_tools: bool = True
    efforts: tuple[str, ...] | None = None
    structured: bool = False

    @property
    def sees_pictures(self) -> bool | None:
        """Whether it can look at pictures; a row that tells its limits would tell that, too."""
        if self.images is None and self.max_output_tokens is not None:
            return False
        return self.images


def find_model_profile(provider_type: str, model_id: str) -> ModelProfile:
    """The card of the longest known id that `model_id` starts with.

    So `claude-sonnet-4-5-20250929` finds `claude-sonnet-4-5`. A longer id that continues with
    something else than a date or `latest` is a relative: it gets the limits and not the prices.
    Who resells a model of somebody else's has its limits too, in as far as they are the model's. An
    id that starts with nothing known gets what its family has in common.
    """
    plain = model_id.rpartition("/")[2].lower()
    cards = _models(_SHARED.get(provider_type, provider_type))
    card = _find_model(cards, plain)
    if card is None and provider_type in _RESELLERS:
        card = (
            _find_at_makers(_find_model, plain)
            or _find_family(cards, plain)
            or _find_at_makers(_find_family, plain)
        )
    card = card or _find_family(cards, plain) or ModelProfile()
    # Ollama's cloud models are lent, not run at home.
    return _without_prices(card) if plain.endswith(_CLOUD_SUFFIXES) else card


def _find_model(cards: _Models, plain: str) -> ModelProfile | None:
    """The card of a model that has a row of its own, or of the one it is a relative of."""
    found = max((known for known in cards if _continues(known, plain)), key=len, default=None)
    if found is None:
        return None
    is_same = found == plain or _SAME_MODEL.fullmatch(plain, len(found))
    return cards[found] if is_same else _without_prices(cards[found])


def _find_family(cards: _Models, plain: str) -> ModelProfile | None:
    starts = (key for key in cards if key.endswith("*") and plain.startswith(key[:-1]))
    longest = max(starts, key=len, default=None)
    return cards[longest] if longest is not None else None


def _find_at_makers(
    find: Callable[[_Models, str], ModelProfile | None], plain: str
) -> ModelProfile | None:
    """What is known of the model where it is made. How to ask for thinking is the reseller's."""
    for maker in _MAKERS:
        named = {key: card for key, card in _models(maker).items() if key != "*"}
        # Some write `4.5` where the maker writes `4-5`.
        card = find(named, plain) or find(named, plain.replace(".", "-"))
        if card is not None:
            return replace(_without_prices(card), efforts=None, structured=False)
    return None


def _without_prices(card: ModelProfile) -> ModelProfile:
    return replace(
        card, price_in=None, price_out=None, price_cache_read=None, price_cache_write=None
    )


def with_hourly_cache_price(card: ModelProfile) -> ModelProfile:
    """The card where what is cached is kept for an hour: Anthropic charges double for that."""
    if card.price_in is None or card.price_cache_write is None:
        return card
    return replace(card, price_cache_write=2 * card.price_in)


def cost_usd(card: ModelProfile, usage: Usage) -> float | None:
    """What one call cost, None when any price it needs is unknown.

    What the service itself told counts before any price.
    """
    if usage.charged_usd is not None:
        return usage.charged_usd
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
_SHARED = {"openai-responses": "openai"}
_MAKERS = ("anthropic", "openai", "gemini", "deepseek", "glm", "mistral", "xai")
_RESELLERS = frozenset({"openrouter", "opencode", "openai", "openai-responses", "anthropic"})
"""Those named for a format, too: their address may be anybody's."""
_CLOUD_SUFFIXES = ("-cloud", ":cloud")


def _continues(known: str, model_id: str) -> bool:
    # `gpt-5` is no beginning of `gpt-5.5`, nor `o1` of `o10`.
    return model_id == known or (model_id.startswith(known) and model_id[len(known)] in "-@:")


@cache
def _models(provider_type: str) -> _Models:
    rows = tomllib.loads(_tables().get(provider_type, ""))
    return {model_id: _profile(values) for model_id, values in rows.items()}


@cache
def _tables() -> Mapping[str, str]:
    """The rows of each provider type as text: a start reads those of one, not of all."""
    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    _, *parts = re.split(r"^\[(\S+)\]$", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _profile(values: Mapping[str, Any]) -> ModelProfile:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return ModelProfile(**fields)
