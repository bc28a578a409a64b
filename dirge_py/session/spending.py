"""What a session cost, gathered record by record."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.session.codec import decode_usage
from dirge_py.session.record import Record
from dirge_py.types.messages import UNFINISHED, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Tokens, cost and model turns of the records so far.

    The `usage` record behind a message repeats its tokens and adds the price; a crash between the
    two leaves a message whose tokens are counted and whose price stays unknown, as it does where
    the service told no tokens. Other `usage` records tell of models that were asked on the side:
    paid for, but no turns. `unpriced` are the tokens of the last answer until they have a price.
    """

    usage: Usage = field(default_factory=Usage)
    unpriced: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    turns: int = 0

    def after(self, record: Record) -> "Spending":
        """With one more record, the next in order. Never raises, whatever the record holds."""
        if not isinstance(record.data, dict):
            return self
        if record.type == "usage":
            return self._after_usage(record.data)
        if record.type == "message" and _is_from_model(record.data):
            return self._after_answer(record.data)
        return self

    @property
    def whole_usage(self) -> Usage:
        return self.usage + self.unpriced

    @property
    def whole_cost_usd(self) -> float | None:
        """None as soon as one part of it is unknown."""
        return None if self.unpriced else self.cost_usd

    def _after_answer(self, answer: Mapping[str, Any]) -> "Spending":
        unpriced = decode_usage(answer.get("usage"))
        has_no_price = answer.get("content") and not unpriced
        return Spending(
            usage=self.whole_usage,
            unpriced=unpriced,
            cost_usd=None if has_no_price else self.whole_cost_usd,
            turns=self.turns + _is_turn(answer),
        )

    def _after_usage(self, told: Mapping[str, Any]) -> "Spending":
        usage = decode_usage(told.get("usage"))
        return Spending(
            usage=self.usage + usage,
            unpriced=Usage() if usage == self.unpriced else self.unpriced,
            cost_usd=_sum(self.cost_usd, told.get("cost_usd")),
            turns=self.turns,
        )


def _sum(cost_usd: float | None, price: Any) -> float | None:
    if cost_usd is None or not isinstance(price, int | float):
        return None
    return cost_usd + price


def _is_turn(answer: Mapping[str, Any]) -> bool:
    """Whether it counts: not if it was broken off to be asked again, or asked again, smaller."""
    is_final = answer.get("stop_reason") not in (*UNFINISHED,)
    return is_final and answer.get("error_kind") != "context_length"


def _is_from_model(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant" and message.get("origin") != "harness"
