"""Limits of a run: turns, requests, tool calls, tokens, money, time, or a single turn.

Also those of a whole session: tokens and money.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from dirge_py.agent_loop.history import is_turn
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import plural
from dirge_py.types import outcomes
from dirge_py.types.events import SystemNotice
from dirge_py.types.hooks import Hooks, StopRun, TurnInfo
from dirge_py.types.messages import Usage

CostOf: TypeAlias = Callable[[Usage, str], float | None]
"""Returns the US dollars for this usage of a model (`alias/id`); None if the price is unknown."""
TIMEOUT = "timeout"
"""The abort reason of a run whose time was up in the middle of a turn; see `timed_out`."""
_UNCOUNTED_AT_MOST = 20
"""The most answers in a row that are no turns: a service that never finishes has to be stopped."""
_BILLIONTHS = 9
"""The decimal places for comparing money: 0.1 + 0.2 must not exceed 0.3."""
_WARN_AT = 0.8
"""The share of a limit at whose use the user is warned, once."""
_CHECKED_BEFORE: tuple[outcomes.LimitName, ...] = ("requests", "tool_calls")
"""The limits that are checked before something is done; others are compared with what was used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most a run and its session may use; None is no limit."""

    turns: int | None = None
    """Model calls that count as turns (`is_turn`)."""
    requests: int | None = None
    """All model calls of the run itself."""
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    time_s: float | None = None
    session_cost_usd: float | None = None
    """For all runs of the session, as `session_tokens`."""
    session_tokens: int | None = None


class LimitsInForce:
    """The limits of a conversation, which `/limits` may change, and what its session has used.

    A conversation shares this object with its forks: their usage is part of its session.
    """

    def __init__(self, most: Limits | None = None) -> None:
        self.most = most or Limits()
        """A change holds at once; one of `time_s` from the next run on."""
        self.changes: dict[str, float | None] = {}
        """What was changed, by field."""
        self.session_used: Callable[[], tuple[Usage, float]] | None = None
        """Returns the tokens and the known cost (USD) of the session."""
        self.warned: set[outcomes.LimitName] = set()
        """The limits of the session that the user was warned about."""
        self.run_used: Callable[[], Mapping[outcomes.LimitName, float]] = dict
        """Returns what the current or last run of the conversation itself has used."""

    def change(self, changes: Mapping[str, float | None]) -> None:
        """Replace these limits, by field; None removes one."""
        self.changes |= changes
        amounts: Mapping[str, Any] = changes
        self.most = replace(self.most, **amounts)
        self.warned.clear()

    def used_by_session(self) -> Mapping[outcomes.LimitName, float]:
        usage, cost_usd = self.session_used() if self.session_used is not None else (Usage(), 0.0)
        return {"session_tokens": usage.total, "session_cost": round(cost_usd, _BILLIONTHS)}


def setting_of(name: outcomes.LimitName) -> str:
    """Return the name of this limit under `[limits]`, and its field in `Limits`."""
    return name + {"cost": "_usd", "session_cost": "_usd", "time": "_s"}.get(name, "")


def format_amount(name: outcomes.LimitName, amount: float) -> str:
    """Return the amount with its unit, as `$0.25`, `90 s` or `12,000`."""
    if name.endswith("cost"):
        return f"${amount:.4f}".removesuffix("00")
    return f"{amount:,.0f}" + " s" * (name == "time")


class SideUsage(list[tuple[Usage, str]]):
    """The usage of model calls outside a run's turns, such as judges and summaries."""

    def add(self, usage: Usage, model: str) -> None:
        """Count this usage of `model` (`alias/id`)."""
        self.append((usage, model))


class Meter:
    """Limits one run to `most`. Create a new one for every run, because it counts.

    `turns` is the limit of turns if `most` has none.

    Turns and requests stop a run that wants more, before waiting input is taken from its queue.
    Tokens, cost and time stop when exceeded, not when reached; tokens and cost include `spending`.
    A batch of calls that would exceed `tool_calls` does not run at all. An error while checking
    stops the run.
    """

    def __init__(
        self,
        most: Limits | LimitsInForce,
        *,
        turns: int | None = None,
        cost_of: CostOf | None = None,
        clock: Callable[[], float] = time.monotonic,
        spending: SideUsage | None = None,
    ) -> None:
        self._limits = most if isinstance(most, LimitsInForce) else LimitsInForce(most)
        self._max_turns = turns
        self._max_s = self._most.time_s
        self._warned: set[outcomes.LimitName] = set()
        self._used: Mapping[outcomes.LimitName, float] = {}
        self._cost_of = cost_of
        self._clock = clock
        self._spending = spending if spending is not None else SideUsage()
        self._seen_reports = len(self._spending)
        self._began = clock()
        self._turns = self._uncounted = self._requests = self._calls = 0
        self._asked_in_turn = self._batch_turn = 0
        self._side_usage = Usage()
        self._cost_usd = 0.0
        self._is_price_unknown = False

    def bundle(self) -> Hooks:
        return Hooks(
            name="limits",
            transform_context=_judging(self._before_model),
            before_tool_call=_judging(self._before_call),
            prepare_next_turn=_judging(self._count),
            should_stop_after_turn=_judging(self._after_turn),
        )

    @property
    def _most(self) -> Limits:
        most = self._limits.most
        return most if most.turns is not None else replace(most, turns=self._max_turns)

    def used(self) -> Mapping[outcomes.LimitName, float]:
        """Return what the run has used so far."""
        return self._used

    @property
    def is_last_turn(self) -> bool:
        """Whether the model cannot be called again: then a finished run must not be continued."""
        turns, requests = self._most.turns, self._most.requests
        has_no_turn = turns is not None and self._turns >= turns
        return has_no_turn or (requests is not None and self._requests >= requests)

    def _before_model(self, info: TurnInfo) -> None:
        self._check_spent(info)
        self._check_turns(info)
        self._turns += 1
        self._requests += 1
        self._asked_in_turn = info.turn

    def _before_call(self, info: TurnInfo) -> None:
        if self._batch_turn == info.turn:
            return
        self._batch_turn = info.turn
        self._calls += len(info.calls)
        _check("tool_calls", self._calls, self._most.tool_calls)

    def _after_turn(self, info: TurnInfo) -> None:
        self._count(info)
        self._check_spent(info)
        if info.wants_more:
            self._check_turns(info)

    def _count(self, info: TurnInfo) -> None:
        """Count the answer of a turn, once; before a hook may end the run because of it."""
        # A continued run may begin with the calls of an answer that was already counted.
        if self._asked_in_turn == info.turn and info.message is not None:
            self._asked_in_turn = 0
            if is_turn(info.message):
                self._uncounted = 0
            else:
                self._uncounted += 1
                if self._uncounted <= _UNCOUNTED_AT_MOST:
                    self._turns -= 1
            if info.message.usage:
                self._add_cost(info, info.message.usage, info.message.model)
        self._measure(info)

    def _measure(self, info: TurnInfo) -> Mapping[outcomes.LimitName, float]:
        for usage, model in self._spending[self._seen_reports :]:
            self._side_usage += usage
            self._add_cost(info, usage, model)
        self._seen_reports = len(self._spending)
        used = info.usage_total + self._side_usage
        self._used = {
            "input_tokens": used.input,
            "output_tokens": used.output,
            "tokens": used.total,
            "cost": round(self._cost_usd, _BILLIONTHS),
            "time": self._clock() - self._began,
            "requests": self._requests,
            "tool_calls": self._calls,
        }
        return self._used

    def _check_spent(self, info: TurnInfo) -> None:
        run, most = self._measure(info), self._most
        for name, count in (*run.items(), *self._limits.used_by_session().items()):
            limit = self._max_s if name == "time" else getattr(most, setting_of(name))
            if limit is None or name in _CHECKED_BEFORE:
                continue
            _check(name, count, limit)
            self._warn(info, name, count, limit)

    def _warn(self, info: TurnInfo, name: outcomes.LimitName, used: float, most: float) -> None:
        warned = self._limits.warned if name.startswith("session_") else self._warned
        if not most or used < most * _WARN_AT or name in warned:
            return
        warned.add(name)
        whose, key = ("session" if name.startswith("session_") else "run"), setting_of(name)
        amounts = f"{format_amount(name, used)} of {format_amount(name, most)}"
        info.emit(
            SystemNotice(
                f"{used / most:.0%} of a limit of this {whose} is used: {key}, {amounts}. "
                f"`/limits {key} N` changes it."
            )
        )

    def _check_turns(self, info: TurnInfo) -> None:
        most = self._most
        if most.turns is not None and self._turns >= most.turns:
            turns = plural(most.turns, "turn")
            info.emit(SystemNotice(f"Stopped after {turns}, the limit of this run."))
            say = f"I had to stop here, after {turns}: the task may be unfinished."
            raise StopRun(outcomes.MaxTurns(max=most.turns), say=say)
        _check("requests", self._requests + 1, most.requests)

    def _add_cost(self, info: TurnInfo, usage: Usage, model: str) -> None:
        if self._cost_of is None:
            return
        try:
            cost = self._cost_of(usage, model)
        except Exception:
            if self._most.cost_usd is None:
                return
            raise
        if cost is not None:
            self._cost_usd += cost
        elif self._most.cost_usd is not None and not self._is_price_unknown:
            self._is_price_unknown = True
            text = f"The price of {model} is unknown, so the cost limit doesn't count it."
            info.emit(SystemNotice(text))


def timed_out(outcome: outcomes.Outcome, *, used_s: float, max_s: float) -> outcomes.Outcome:
    """Return the outcome of a run that its owner may have aborted with the reason `TIMEOUT`."""
    if isinstance(outcome, outcomes.Cancelled) and outcome.reason == TIMEOUT:
        return outcomes.LimitExceeded(name="time", used=used_s, max=max_s)
    return outcome


def _judging(judge: Callable[[TurnInfo], None]) -> Callable[..., Any]:
    """Return a hook that calls `judge`, and ends the run if that fails."""

    def hook(info: TurnInfo, *_rest: object) -> None:
        try:
            judge(info)
        except StopRun:
            raise
        except Exception as error:
            # To continue would mean to have no limit.
            text = f"The limits of this run cannot be checked: {error!r}"
            raise StopRun(outcomes.Failed(kind="bug", message=text)) from error

    return hook


def _check(name: outcomes.LimitName, used: float, most: float | None) -> None:
    if most is not None and used > most:
        raise StopRun(outcomes.LimitExceeded(name=name, used=used, max=most))


def stop_after_one_turn(
    *, turns_before: int = 0, usage_before: Usage | None = None, max_turns: int | None = None
) -> Hooks:
    """Return hooks that end the run with `NeedsMoreTurns` when the model wants another turn.

    Earlier runs about the same prompt had `turns_before` turns and used `usage_before`; `max_turns`
    limits all of them together. Compose it after all other hooks that may stop.
    """
    before = usage_before or Usage()

    def should_stop_after_turn(info: TurnInfo) -> bool:
        message = info.message
        if not info.wants_more or message is None or not is_turn(message):
            return False
        if message.stop_reason in ("error", "aborted"):
            return False
        # A run that began with the open calls of an earlier answer ends that answer's turn.
        turn = turns_before + sum(map(is_turn, info.new_messages))
        if max_turns is not None and turn >= max_turns:
            info.emit(SystemNotice(f"Stopped after {max_turns} turns, the limit."))
            raise StopRun(outcomes.MaxTurns(max=max_turns))
        total = before + info.usage_total
        raise StopRun(
            outcomes.NeedsMoreTurns(turn=turn, turn_usage=info.usage_total, total_usage=total)
        )

    return Hooks(name="single turn", should_stop_after_turn=should_stop_after_turn)
