"""The limits of a whole plan."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dirge_py.config.schema import LimitsTable
from dirge_py.types.events import LoopEvent, UsageReported
from dirge_py.types.hooks import Context, Hooks, StopRun, TurnInfo
from dirge_py.types.messages import Usage
from dirge_py.types.outcomes import LimitExceeded

_COST_DECIMALS = 9
"""The decimals to which costs are compared: 0.1 + 0.2 must not exceed 0.3."""


class PlanBudget:
    """The limits for all runs of a plan together, its forks included.

    `stop` is called when the time is up; the clock runs from `begin` to `end`.
    """

    def __init__(self, limits: LimitsTable, stop: Callable[[], None]) -> None:
        self._limits = limits
        self._stop = stop
        self._usage = Usage()
        self._cost_usd = 0.0
        self._left_s = limits.time_s
        self._timer: asyncio.TimerHandle | None = None

    def sink(self, event: LoopEvent) -> None:
        if isinstance(event, UsageReported):
            self._usage += event.usage
            self._cost_usd += event.cost_usd or 0.0

    def bundle(self) -> Hooks:
        """Return a hook that ends a run before its next model call if a limit is exceeded."""

        def before_model(info: TurnInfo) -> Context:
            if limit := self.exceeded():
                raise StopRun(limit)
            return info.context

        return Hooks(name="allowance", transform_context=before_model)

    def exceeded(self) -> LimitExceeded | None:
        """Return the exceeded limit; None if all are kept."""
        limits, tokens = self._limits, self._usage.total
        cost_usd = round(self._cost_usd, _COST_DECIMALS)
        if limits.time_s is not None and self._left_s == 0:
            return LimitExceeded(name="time", used=limits.time_s, max=limits.time_s)
        if limits.cost_usd is not None and cost_usd > limits.cost_usd:
            return LimitExceeded(name="cost", used=cost_usd, max=limits.cost_usd)
        if limits.tokens is not None and tokens > limits.tokens:
            return LimitExceeded(name="tokens", used=tokens, max=limits.tokens)
        return None

    def begin(self) -> None:
        if self._left_s is not None:
            self._timer = asyncio.get_running_loop().call_later(self._left_s, self._expire)

    def end(self) -> None:
        if self._timer is not None and self._left_s is not None:
            left_s = self._timer.when() - asyncio.get_running_loop().time()
            self._left_s = min(self._left_s, max(left_s, 0.0))
            self._timer.cancel()
        self._timer = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock while the user decides."""
        self.end()
        try:
            yield
        finally:
            self.begin()

    def _expire(self) -> None:
        self._left_s = 0.0
        self._timer = None
        self._stop()
