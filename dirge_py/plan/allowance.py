"""What a plan may cost, use and take as a whole: the limits of a run hold for all of its runs."""

import asyncio
from collections.abc import Callable

from dirge_py.events import LoopEvent, UsageReported
from dirge_py.messages import Usage
from dirge_py.outcomes import LimitExceeded
from dirge_py.parts import PlanTerms


class Allowance:
    """Counts what the conversation reports, its forks included."""

    def __init__(self, terms: PlanTerms) -> None:
        self._terms = terms
        self._usage = Usage()
        self._cost_usd = 0.0
        self._is_time_up = False

    def sink(self, event: LoopEvent) -> None:
        if isinstance(event, UsageReported):
            self._usage += event.usage
            self._cost_usd += event.cost_usd or 0.0

    def exceeded(self) -> LimitExceeded | None:
        """The limit that was passed, if one was."""
        terms = self._terms
        if self._is_time_up and terms.time_s is not None:
            return LimitExceeded(name="time", used=terms.time_s, max=terms.time_s)
        if terms.cost_usd is not None and self._cost_usd > terms.cost_usd:
            return LimitExceeded(name="cost", used=self._cost_usd, max=terms.cost_usd)
        if terms.tokens is not None and self._usage.total > terms.tokens:
            return LimitExceeded(name="tokens", used=self._usage.total, max=terms.tokens)
        return None

    def when_time_is_up(self, stop: Callable[[], None]) -> Callable[[], None]:
        """Have `stop` called then; returns what takes that back."""
        if self._terms.time_s is None:
            return lambda: None

        def expire() -> None:
            self._is_time_up = True
            stop()

        timer = asyncio.get_running_loop().call_later(self._terms.time_s, expire)
        return timer.cancel
