"""Usage, cost and turns, counted from records alone."""

from functools import reduce
from typing import Any

import pytest

from dirge_py.session.history import SessionSpending
from dirge_py.session.record import Record
from dirge_py.types.messages import Usage

ONE, TWO = {"input": 10, "output": 5}, {"input": 7}


def answer(usage: Any, **more: Any) -> tuple[str, Any]:
    return "message", {"role": "assistant", "content": "Done.", "usage": usage, **more}


def price(usage: Any, cost_usd: float | None) -> tuple[str, Any]:
    return "usage", {"usage": usage, "cost_usd": cost_usd}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ([answer(ONE), price(TWO, 0.5), price(ONE, 0.25)], (Usage(input=17, output=5), 0.75, 1)),
        ([answer(ONE), price(TWO, 0.5)], (Usage(input=17, output=5), None, 1)),
        ([answer(ONE), answer(TWO), price(TWO, 0.5)], (Usage(input=17, output=5), None, 2)),
        ([answer({}), price(TWO, 0.5)], (Usage(input=7), None, 1)),
        ([answer({}, content="")], (Usage(), 0.0, 1)),
        ([answer(ONE, error_kind="context_length"), price(ONE, 0.25)], (Usage(**ONE), 0.25, 0)),
        ([answer({}, origin="harness")], (Usage(), 0.0, 0)),
        ([("message", {"role": "user", "content": "Go on."})], (Usage(), 0.0, 0)),
        ([("message", None), ("usage", [1]), ("usage", "x")], (Usage(), 0.0, 0)),
    ],
    ids=[
        "side-model-asked",
        "only-side-model-priced",
        "price-missing-after-crash",
        "no-tokens-reported",
        "empty-answer",
        "context-length-error",
        "harness-message",
        "prompt-only",
        "invalid-records",
    ],
)
def test_session_spending_counts_tokens_cost_and_turns_from_records(
    script: list[tuple[str, Any]], expected: tuple[Usage, float | None, int]
) -> None:
    records = [
        Record(seq=n, ts="", type=kind, id=str(n), parent=None, data=data)
        for n, (kind, data) in enumerate(script)
    ]

    spending = reduce(SessionSpending.after, records, SessionSpending())

    assert (spending.whole_usage, spending.whole_cost_usd, spending.turns) == expected
