"""Ends a run that has had enough: turns, requests, tool calls, tokens, money or time."""

import time
from collections.abc import Callable
from typing import TypeAlias

from dirge_py.agent_loop.hooks import Bundle, StopRun, TurnInfo
from dirge_py.calls import ToolCall
from dirge_py.events import SystemNotice
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.messages import Usage
from dirge_py.outcomes import Cancelled, Failed, LimitExceeded, LimitName, MaxTurns, Outcome

CostOf: TypeAlias = Callable[[Usage, str], float | None]
"""US dollars for this usage of this model (`alias/id`); None when the price is unknown."""

TIMEOUT = "timeout"
"""The abort reason that means a run's time was up in the middle of a turn; see `timed_out`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most a run may use; None is no limit. `turns` and `requests` count model calls."""

    turns: int | None = None
    requests: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    time_s: float | None = None


def limits(
    most: Limits, *, cost_of: CostOf | None = None, clock: Callable[[], float] = time.monotonic
) -> Bundle:
    """Hooks that hold one run to `most`. Make them anew for every run: they count.

    Turns and requests stop a run that wants more, before waiting input is taken from its queue; a
    turn that such input opened is stopped before its model call. Tokens, cost and time stop when
    exceeded, not when reached. A batch of calls that would exceed `tool_calls` does not run at all.
    A limit that cannot be judged because of an error stops the run.
    """
    meter = _Meter(most, cost_of, clock)
    return Bundle(
        name="limits",
        transform_context=meter.before_model,
        before_tool_call=meter.before_call,
        should_stop_after_turn=meter.after_turn,
    )


def timed_out(outcome: Outcome, *, used_s: float, max_s: float) -> Outcome:
    """The outcome of a run that its owner may have aborted with the reason `TIMEOUT`."""
    if isinstance(outcome, Cancelled) and outcome.reason == TIMEOUT:
        return LimitExceeded(name="time", used=used_s, max=max_s)
    return outcome


class _Meter:
    def __init__(self, most: Limits, cost_of: CostOf | None, clock: Callable[[], float]) -> None:
        self._most = most
        self._cost_of = cost_of
        self._clock = clock
        self._began = clock()
        self._turns = 0
        self._asked_in_turn = 0
        self._calls = 0
        self._batch_turn = 0
        self._cost_usd = 0.0
        self._is_price_unknown = False

    def before_model(self, info: TurnInfo) -> None:
        self._check_turns(info)
        self._turns += 1
        self._asked_in_turn = info.turn

    def before_call(self, info: TurnInfo, _call: ToolCall) -> None:
        if self._batch_turn == info.turn:
            return
        self._batch_turn = info.turn
        self._calls += len(info.calls)
        self._check(info, "tool_calls", self._calls, self._most.tool_calls)

    def after_turn(self, info: TurnInfo) -> bool:
        try:
            self._count_cost(info)
        except Exception as error:
            outcome = Failed(kind="bug", message=f"The cost limit cannot be judged: {error!r}")
            raise StopRun(outcome) from error
        used = info.usage_total
        self._check(info, "input_tokens", used.input, self._most.input_tokens)
        self._check(info, "output_tokens", used.output, self._most.output_tokens)
        self._check(info, "tokens", used.total, self._most.tokens)
        self._check(info, "cost", self._cost_usd, self._most.cost_usd)
        self._check(info, "time", self._clock() - self._began, self._most.time_s)
        if info.wants_more:
            self._check_turns(info)
        return False

    def _check_turns(self, info: TurnInfo) -> None:
        most = self._most
        if most.turns is not None and self._turns >= most.turns:
            text = f"Stopped after {most.turns} turns, the most this run may take."
            info.emit(SystemNotice(text))
            raise StopRun(MaxTurns(max=most.turns), say=text)
        if most.requests is not None and self._turns >= most.requests:
            self._check(info, "requests", self._turns + 1, most.requests)

    def _check(self, info: TurnInfo, name: LimitName, used: float, most: float | None) -> None:
        if most is None or used <= most:
            return
        outcome = LimitExceeded(name=name, used=used, max=most)
        info.emit(SystemNotice(f"Stopped: {outcome.message}."))
        raise StopRun(outcome)

    def _count_cost(self, info: TurnInfo) -> None:
        if self._cost_of is None or info.message is None or not info.message.usage:
            return
        if self._asked_in_turn != info.turn:
            return  # a continued run began with the calls of an answer that was paid for before
        cost = self._cost_of(info.message.usage, info.message.model)
        if cost is not None:
            self._cost_usd += cost
        elif self._most.cost_usd is not None and not self._is_price_unknown:
            self._is_price_unknown = True
            info.emit(SystemNotice(f"The price of {info.message.model} is unknown: not counted."))
