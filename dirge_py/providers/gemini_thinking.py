"""Gemini's families of models: what each takes for a thinking level."""

import re
from collections.abc import Mapping
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers import thinking
from dirge_py.providers.catalog import ModelCard
from dirge_py.types.llm import ThinkingBudgets, ThinkingLevel

_ID = re.compile(r"gemini-(?:(?P<major>\d+)(?:\.(?P<minor>\d+))?-)?(?P<tier>flash-lite|[a-z]+)")
_NO_THINKER = re.compile(r"-(?:image|tts|audio|live|embedding)\b|native-audio")
_LATEST = (3, 99)
"""What an id without a number is (`gemini-flash-latest`): newer than all we know."""
_FIRST_WITH_LEVELS = (3, 0)
_LAST_FLASH_WITH_MINIMAL = (3, 6)
_BUDGETS: Mapping[str, tuple[int, int]] = {
    "pro": (128, 32_768),
    "flash": (1, 24_576),
    "flash-lite": (512, 24_576),
}
_USUAL_BUDGETS = (128, 24_576)
_ALWAYS_THINKS = "pro"


@dataclass(frozen=True, slots=True)
class Family:
    """Models that are alike: `gemini-2.5-flash` and its previews, say.

    What one of them sealed (a thought signature), another can open.
    """

    generation: tuple[int, int]
    tier: str

    @property
    def has_levels(self) -> bool:
        """Whether thinking is asked for with a word, is never off, and its signatures are due."""
        return self.generation >= _FIRST_WITH_LEVELS

    @property
    def words(self) -> tuple[str, ...]:
        """The levels it knows, least first."""
        if self.tier == "pro" and self.generation == _FIRST_WITH_LEVELS:
            return ("low", "high")
        if self.tier != "pro" and self.generation <= _LAST_FLASH_WITH_MINIMAL:
            return ("minimal", "low", "medium", "high")
        return ("low", "medium", "high")


def family_of(model: str) -> Family | None:
    """The family of a model by its id; None for one that is no Gemini by name."""
    found = _ID.match(model.rpartition("/")[2].lower())
    if found is None:
        return None
    if found["major"] is None:
        return Family(_LATEST, found["tier"]) if found["tier"] in _BUDGETS else None
    return Family((int(found["major"]), int(found["minor"] or 0)), found["tier"])


def thinking_config(
    model: str, card: ModelCard, level: ThinkingLevel, budgets: ThinkingBudgets
) -> tuple[dict[str, Any], int]:
    """`thinkingConfig`, empty where nothing should be said, and the tokens thinking may take.

    These models think unless told not to, so `off` says it: no tokens, or as few as the model lets
    itself be held to.
    """
    family = family_of(model)
    if not card.thinking or _NO_THINKER.search(model.lower()):
        return {}, 0
    if family is not None and family.has_levels:
        return _with_level(family, level, budgets)
    return _with_budget(family.tier if family is not None else "", level, budgets)


def _with_level(
    family: Family, level: ThinkingLevel, budgets: ThinkingBudgets
) -> tuple[dict[str, Any], int]:
    least, most = family.words[0], family.words[-1]
    if level == "off":
        return {"thinkingLevel": least.upper()}, thinking.budget("minimal", budgets)
    # `medium` where there is none means thinking as such, which these do best at their most.
    fallback = least if level == "minimal" else most
    word = level if level in family.words else fallback
    config = {"includeThoughts": True, "thinkingLevel": word.upper()}
    return config, thinking.budget(level, budgets)


def _with_budget(
    tier: str, level: ThinkingLevel, budgets: ThinkingBudgets
) -> tuple[dict[str, Any], int]:
    least, most = _BUDGETS.get(tier, _USUAL_BUDGETS)
    if level == "off" and tier not in _BUDGETS:
        return {}, 0
    if level == "off":
        tokens = least if tier == _ALWAYS_THINKS else 0
        return {"thinkingBudget": tokens}, tokens
    tokens = max(least, min(most, thinking.budget(level, budgets)))
    return {"includeThoughts": True, "thinkingBudget": tokens}, tokens
