from typing import get_args

import pytest

from dirge_py.providers.catalog import thinking_budget, thinking_effort
from dirge_py.types.llm import ThinkingBudgets, ThinkingLevel

LEVELS = get_args(ThinkingLevel)
NONE = ThinkingBudgets()


def test_higher_thinking_level_never_has_smaller_budget():
    budgets = [thinking_budget(level, NONE) for level in LEVELS]

    assert budgets == [0, 1024, 2048, 4096, 16384, 16384]


def test_configured_thinking_budget_overrides_default():
    assert thinking_budget("xhigh", ThinkingBudgets(high=9)) == 9
    assert thinking_budget("low", ThinkingBudgets(high=9)) == 2048


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (None, [None, "low", "low", "medium", "high", "high"]),
        ((), [None] * 6),
        (("none", "high"), ["none", "high", "high", "high", "high", "high"]),
        (
            ("low", "medium", "high", "xhigh", "max"),
            [None, "low", "low", "medium", "high", "xhigh"],
        ),
        (("low", "high", "max"), [None, "low", "low", "high", "high", "max"]),
        (("minimal", "low", "medium", "high"), [None, "minimal", "low", "medium", "high", "high"]),
    ],
)
def test_thinking_level_maps_to_nearest_known_effort(known, words):
    assert [thinking_effort(level, known) for level in LEVELS] == words
