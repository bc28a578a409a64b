"""The limits of a whole plan, and its interruption from outside.

`PlanBudget` holds the limits of a run for all runs of the plan together. `PlanInterruption` stops
the plan, whatever it waits for at that moment.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dirge_py.plan.extension import PlanTerms
from dirge_py.types.events import LoopEvent, UsageReported
from dirge_py.types.hooks import Context, Hooks, StopRun, TurnInfo
from dirge_py.types.messages import Usage
from dirge_py.types.outcomes import LimitExceeded

_COST_DECIMALS = 9
"""To how many places money is compared: 0.1 + 0.2 must not exceed 0.3."""


class PlanBudget:
    """Counts what the conversation reports, its forks included.

    `stop` is called when the time is up, which runs from `begin` to `end`.
    """

    def __init__(self, terms: PlanTerms, stop: Callable[[], None]) -> None:
        self._terms = terms
        self._stop = stop
        self._usage = Usage()
        self._cost_usd = 0.0
        self._left_s = terms.time_s
        self._timer: asyncio.TimerHandle | None = None

    def sink(self, event: LoopEvent) -> None:
        if isinstance(event, UsageReported):
            self._usage += event.usage
            self._cost_usd += event.cost_usd or 0.0

    def bundle(self) -> Hooks:
        """Ends a run before it asks the model for more than is left."""

        def before_model(info: TurnInfo) -> Context:
            limit = self.exceeded()
            if limit is not None:
                raise StopRun(limit)
            return info.context

        return Hooks(name="allowance", transform_context=before_model)

    def exceeded(self) -> LimitExceeded | None:
        """The limit that was passed, if one was."""
        terms = self._terms
        if terms.time_s is not None and self._left_s is not None and self._left_s <= 0:
            return LimitExceeded(name="time", used=terms.time_s, max=terms.time_s)
        cost_usd = round(self._cost_usd, _COST_DECIMALS)
        if terms.cost_usd is not None and cost_usd > terms.cost_usd:
            return LimitExceeded(name="cost", used=cost_usd, max=terms.cost_usd)
        if terms.tokens is not None and self._usage.total > terms.tokens:
            return LimitExceeded(name="tokens", used=self._usage.total, max=terms.tokens)
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
        """While a person makes up their mind, the plan takes no time."""
        self.end()
        try:
            yield
        finally:
            self.begin()

    def _expire(self) -> None:
        self._left_s = 0.0
        self._timer = None
        self._stop()


T = TypeVar("T")


class PlanInterrupted(Exception):
    """Somebody stopped the plan."""


class PlanInterruption:
    """`stop_run` stops a run that goes on, for a reason; False where none does."""

    def __init__(self, stop_run: Callable[[str], bool]) -> None:
        self._stop_run = stop_run
        self._pending: asyncio.Task[Any] | None = None
        self.reason = ""
        """Why it was stopped; "" as long as nobody did."""

    def __call__(self, reason: str) -> None:
        self.reason = self.reason or reason
        if not self._stop_run(reason) and self._pending is not None:
            self._pending.cancel()

    def check(self) -> None:
        """Raises Interrupted once it was stopped."""
        if self.reason:
            raise PlanInterrupted

    async def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of work that is no run.

        Raises:
            Interrupted: it was stopped, before or meanwhile.
        """
        if self.reason:
            work.close()
            raise PlanInterrupted
        task = asyncio.get_running_loop().create_task(work)
        self._pending = task
        try:
            return await task
        except asyncio.CancelledError:
            if self.reason and not _is_cancelled():
                raise PlanInterrupted from None
            raise
        finally:
            task.cancel()
            self._pending = None


def _is_cancelled() -> bool:
    """Whether it is this task itself that was cancelled, and not what it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
