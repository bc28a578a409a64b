from typing import get_args

import pytest

from dirge_py.providers.catalog import thinking_budget, thinking_effort
from dirge_py.types.llm import ThinkingBudgets, ThinkingLevel

LEVELS = get_args(ThinkingLevel)
NONE = ThinkingBudgets()


def test_a_higher_level_never_thinks_less():
    budgets = [thinking_budget(level, NONE) for level in LEVELS]

    assert budgets == [0, 1024, 2048, 4096, 16384, 16384]


def test_a_budget_of_ones_own_goes_before_the_table():
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
def test_a_level_is_the_nearest_word_the_model_knows(known, words):
    assert [thinking_effort(level, known) for level in LEVELS] == words
