"""What a run came to, in one line: turns, tokens, cost and time."""

import time
from collections.abc import Callable, Sequence

from textual.strip import Strip

from dirge_py.lib.text import format_cost
from dirge_py.types.events import AgentStart, LoopEvent, MessageEnd, UsageReported
from dirge_py.types.messages import AssistantMessage, Usage
from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.blocks import BlockBase
from dirge_py.ui.transcript.lines import wrap

_TOLD_FROM_TURNS = 2
_TOLD_FROM_S = 5
"""A run below both is a short talk, which a line about it would double."""


class RunTally:
    """Hears the events of one run after another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._began = self._clock()
        self._turns = 0
        self._usage = Usage()
        self._cost_usd: float | None = 0.0
        self._least_usd = 0.0

    def hear(self, event: LoopEvent) -> None:
        match event:
            case AgentStart():
                self._begin()
            case MessageEnd(message=AssistantMessage(origin="model") as answer):
                self._turns += 1
                if answer.content and not answer.usage:
                    # It was paid for, and nobody said how much.
                    self._cost_usd = None
            case UsageReported(usage=usage, cost_usd=cost_usd):
                self._usage += usage
                self._least_usd += cost_usd or 0.0
                if self._cost_usd is not None:
                    self._cost_usd = None if cost_usd is None else self._cost_usd + cost_usd

    @property
    def words(self) -> str:
        """`3 turns · 12.3k in (80% cached) · 1.2k out · $0.0123 · 14 s`; empty for a short run.

        Tokens are left out where they are not known, and the time of less than a second.
        """
        took_s = self._clock() - self._began
        if self._turns < _TOLD_FROM_TURNS and took_s < _TOLD_FROM_S:
            return ""
        turns = f"{self._turns} turn{'s' * (self._turns != 1)}"
        parts = (turns, *spent(self._usage, self._cost_usd, self._least_usd), told_duration(took_s))
        return " · ".join(part for part in parts if part)


class TallyBlock(BlockBase):
    """The line about a run that is over, dim: nobody has to read it."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    @property
    def text(self) -> str:
        return self._words

    def paint(self, width: int, ink: Ink, *, expanded: bool) -> list[Strip]:
        return wrap([(self._words, ink.dim)], width)

    def guess_height(self, width: int) -> int:
        return 1


def spent(usage: Usage, cost_usd: float | None, least_usd: float = 0.0) -> Sequence[str]:
    """Tokens and cost, as far as they are not nothing; a price that nobody knows is told."""
    parts = []
    if usage.input:
        share = round(100 * usage.cache_read / usage.input)
        cached = f" ({share}% cached)" if usage.cache_read else ""
        parts.append(f"{_tokens(usage.input)} in{cached}")
    if usage.output:
        parts.append(f"{_tokens(usage.output)} out")
    if cost_usd is None and parts:
        parts.append(format_cost(None, least_usd))
    elif cost_usd:
        parts.append(f"${cost_usd:.4f}")
    return parts


def _tokens(count: int) -> str:
    """`950`, `12.3k`, `1.2M`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1_000_000:.1f}M"


def told_duration(seconds: float) -> str:
    """As `14 s` or `2 min 3 s`; empty for less than one."""
    if seconds < 1:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
