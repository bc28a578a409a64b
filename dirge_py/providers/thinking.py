"""What a thinking level is to a service: a number of tokens, or a word. The data is thinking.toml.

Services with members of their own for it have them in their dialect (config/services.toml).
"""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dirge_py.types.llm import ThinkingBudgets, ThinkingLevel

USUAL_EFFORTS = ("low", "medium", "high")
"""The words that every service with words knows."""


def thinking_budget(level: ThinkingLevel, budgets: ThinkingBudgets) -> int:
    """Tokens to think with: those that `budgets` names, else the table's. 0 for `off`."""
    if level == "off":
        return 0
    chosen: Mapping[ThinkingLevel, int | None] = {
        "minimal": budgets.minimal,
        "low": budgets.low,
        "medium": budgets.medium,
        "high": budgets.high,
        "xhigh": budgets.high,
    }
    tokens: int = chosen[level] or _table()["budget"][level]
    return tokens


def thinking_effort(level: ThinkingLevel, known: Collection[str] | None = None) -> str | None:
    """The word for `level` among those the model knows; those None: the usual three.

    `known` is `ModelProfile.efforts`. None: there is no word for it, and nothing should be said. So
    it is for `off` where a model knows no `none`.
    """
    known = USUAL_EFFORTS if known is None else known
    words: Sequence[str] = _table()["effort"][level]
    return next((word for word in words if word in known), None)


@cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
