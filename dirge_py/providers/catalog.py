"""The limits, prices and abilities of each model (catalog.toml), and thinking (thinking.toml)."""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.llm import ThinkingBudgets, ThinkingLevel
from dirge_py.types.messages import Usage

ASSUMED_WINDOW_TOKENS = 128_000
"""The context window of an unknown model."""

_Rows: TypeAlias = Mapping[str, str]
"""The line of each model id in catalog.toml; only the wanted one is parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """The limits, prices (USD per million tokens) and abilities of a model; None is unknown."""

    window_tokens: int | None = None
    """The size of its context window."""
    max_output_tokens: int | None = None
    """The most tokens of an answer."""
    price_in: float | None = None
    """The price of input that isn't cached."""
    price_out: float | None = None
    """The price of output."""
    price_cache_read: float | None = None
    """The price of cached input."""
    price_cache_write: float | None = None
    """The price of input that is written to the cache."""
    priced_to_tokens: int | None = None
    """The input size from which the provider charges more than the prices say."""
    thinking: bool = False
    """Whether it can think before it answers."""
    images: bool | None = None
    """Whether it accepts images."""
    adaptive_thinking: bool = False
    """Whether it chooses its own thinking budget and accepts no other."""
    thinks_always: bool = False
    """Whether it can neither stop thinking nor be forced to call a tool."""
    binds_thinking: bool = False
    """Whether its thinking is valid only behind the exact same messages."""
    effort_with_tools: bool = True
    """Whether its Chat Completions accept tools together with an effort."""
    efforts: tuple[str, ...] | None = None
    """The thinking efforts that it knows; None: the usual ones."""
    structured: bool = False
    """Whether its service makes answers follow a JSON Schema, also together with tools."""

    @property
    def sees_pictures(self) -> bool | None:
        """Whether it accepts images; a row with limits and without `images` means no."""
        if self.images is None and self.max_output_tokens is not None:
            return False
        return self.images


@lru_cache(maxsize=1024)
def find_model_profile(provider_type: str, model_id: str) -> ModelProfile:
    """The profile of the longest known id that `model_id` starts with.

    So `claude-sonnet-4-5-20250929` finds `claude-sonnet-4-5`. An id that continues with anything
    but a date or `latest` gets no prices, nor does a reseller's model. An unknown id gets what its
    family has in common.
    """
    plain = model_id.rpartition("/")[2].lower()
    rows = _rows(_SHARED.get(provider_type, provider_type))
    profile = _find_model(rows, plain)
    if profile is None and provider_type in _RESELLERS:
        profile = (
            _find_at_makers(_find_model, plain)
            or _find_family(rows, plain)
            or _find_at_makers(_find_family, plain)
        )
    profile = profile or _find_family(rows, plain) or ModelProfile()
    # Ollama's cloud models aren't free, as local ones are.
    return _without_prices(profile) if plain.endswith(_CLOUD_SUFFIXES) else profile


def _find_model(rows: _Rows, plain: str) -> ModelProfile | None:
    """The profile of the model's own row, or of the longest id that it begins with."""
    # `gpt-5` is no prefix of `gpt-5.5`, nor `o1` of `o10`.
    prefixes = (
        known for known in rows if plain.startswith(known) and f"{plain}-"[len(known)] in "-@:"
    )
    longest = max(prefixes, key=len, default=None)
    if longest is None:
        return None
    is_same = longest == plain or _SAME_MODEL.fullmatch(plain, len(longest))
    profile = _profile(rows[longest])
    return profile if is_same else _without_prices(profile)


def _find_family(rows: _Rows, plain: str) -> ModelProfile | None:
    starts = (key for key in rows if key.endswith("*") and plain.startswith(key[:-1]))
    longest = max(starts, key=len, default=None)
    return _profile(rows[longest]) if longest is not None else None


def _find_at_makers(
    find: Callable[[_Rows, str], ModelProfile | None], plain: str
) -> ModelProfile | None:
    """The maker's profile of the model, without what depends on the reseller."""
    for maker in _MAKERS:
        named = {key: line for key, line in _rows(maker).items() if key != "*"}
        # Some resellers write `4.5` for the maker's `4-5`.
        profile = find(named, plain) or find(named, plain.replace(".", "-"))
        if profile is not None:
            return replace(_without_prices(profile), efforts=None, structured=False)
    return None


def _without_prices(profile: ModelProfile) -> ModelProfile:
    return replace(
        profile, price_in=None, price_out=None, price_cache_read=None, price_cache_write=None
    )


def with_hourly_cache_price(profile: ModelProfile) -> ModelProfile:
    """The profile with the price of an hourly cache: Anthropic charges twice the input price."""
    if profile.price_in is None or profile.price_cache_write is None:
        return profile
    return replace(profile, price_cache_write=2 * profile.price_in)


def cost_usd(profile: ModelProfile, usage: Usage) -> float | None:
    """The price of a call: what the service charged, else by the prices; None if one is unknown."""
    if usage.charged_usd is not None:
        return usage.charged_usd
    if profile.priced_to_tokens is not None and usage.input > profile.priced_to_tokens:
        return None
    counted = (
        (usage.input - usage.cache_read - usage.cache_write, profile.price_in),
        (usage.output, profile.price_out),
        (usage.cache_read, profile.price_cache_read),
        (usage.cache_write, profile.price_cache_write),
    )
    total = 0.0
    for tokens, price in counted:
        if tokens > 0:
            if price is None:
                return None
            total += tokens * price / 1_000_000
    return total if profile.price_in is not None and profile.price_out is not None else None


_SAME_MODEL = late_pattern(r"-latest|[-@]\d{8}|-\d{4}-\d{2}-\d{2}")
_SHARED = {"openai-responses": "openai"}
_MAKERS = ("anthropic", "openai", "gemini", "deepseek", "glm", "mistral", "xai")
_RESELLERS = frozenset({"openrouter", "opencode", "openai", "openai-responses", "anthropic"})
"""Types that serve models of others; behind those of a wire format may be any service."""
_CLOUD_SUFFIXES = ("-cloud", ":cloud")


@cache
def _rows(provider_type: str) -> _Rows:
    lines = _tables().get(provider_type, "").splitlines()
    return {line.split('"', 2)[1]: line for line in lines if line.startswith('"')}


def _profile(line: str) -> ModelProfile:
    (values,) = tomllib.loads(line).values()
    if "efforts" in values:
        values["efforts"] = tuple(values["efforts"])
    return ModelProfile(**values)


@cache
def _tables() -> Mapping[str, str]:
    """The rows of each provider type as text, one line for each model."""
    text = Path(__file__).with_suffix(".toml").read_text("utf-8")
    _, *parts = re.split(r"^\[(\S+)\]$", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


USUAL_EFFORTS = ("low", "medium", "high")
"""The efforts that every service with efforts knows."""


def thinking_budget(level: ThinkingLevel, budgets: ThinkingBudgets) -> int:
    """The thinking tokens of `level`: from `budgets`, else from thinking.toml; 0 for `off`."""
    if level == "off":
        return 0
    own: int | None = getattr(budgets, "high" if level == "xhigh" else level)
    return own or int(_thinking_table()["budget"][level])


def thinking_effort(level: ThinkingLevel, known: Collection[str] | None = None) -> str | None:
    """The effort to request, of those `known` (None: the usual three); None to send none."""
    known = USUAL_EFFORTS if known is None else known
    return next((word for word in _thinking_table()["effort"][level] if word in known), None)


@cache
def _thinking_table() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("thinking.toml").read_text("utf-8"))
