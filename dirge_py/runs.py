"""One run of a conversation, as whoever started it holds it."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from dirge_py.abort import AbortSignal
from dirge_py.agent_loop.guards.limits import timed_out
from dirge_py.agent_loop.queues import QueuedInput
from dirge_py.events import AgentEnd, LoopEvent
from dirge_py.messages import AssistantMessage, Message, Usage, UserMessage
from dirge_py.outcomes import AgentResult, Done, Outcome
from dirge_py.streams import LlmContext, StreamEvent, StreamFn, StreamOptions


class Queueing(Protocol):
    """Where a run's input goes: its conversation."""

    def steer(self, prompt: str | UserMessage) -> QueuedInput: ...
    def follow_up(self, prompt: str | UserMessage) -> QueuedInput: ...


class Run:
    """One run, from a prompt until the agent rests. `await run.outcome` never raises."""

    def __init__(self, conversation: Queueing, signal: AbortSignal) -> None:
        self.id = ""
        self.signal = signal
        self.started_at = time.monotonic()
        self.api_s = 0.0
        self.turns = 0
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._conversation = conversation
        self._heard: list[LoopEvent] = []
        self._news = asyncio.Event()

    def __await__(self) -> Generator[Any, None, Outcome]:
        return asyncio.shield(self.outcome).__await__()

    async def events(self) -> AsyncIterator[LoopEvent]:
        """Every event of this run, from its first, in order; ends after `agent_end`."""
        position = 0
        while True:
            while position < len(self._heard):
                yield self._heard[position]
                position += 1
            if self.outcome.done():
                return
            self._news.clear()
            await self._news.wait()

    def steer(self, prompt: str | UserMessage) -> QueuedInput:
        return self._conversation.steer(prompt)

    def follow_up(self, prompt: str | UserMessage) -> QueuedInput:
        return self._conversation.follow_up(prompt)

    def interject(self) -> None:
        self.signal.interject()

    def abort(self, reason: str = "user") -> None:
        self.signal.abort(reason)

    def timed(self, stream_fn: StreamFn) -> StreamFn:
        """`stream_fn`, its time added up in `api_s`."""

        async def timed(
            context: LlmContext, options: StreamOptions, signal: AbortSignal
        ) -> AsyncIterator[StreamEvent]:
            started = time.monotonic()
            events = stream_fn(context, options, signal)
            try:
                async for event in events:
                    yield event
            finally:
                if isinstance(events, AsyncGenerator):
                    await events.aclose()
                self.api_s += time.monotonic() - started

        return timed

    def judge(self, event: AgentEnd, time_limit_s: float | None) -> Outcome:
        """The outcome as the loop saw it, told with what only the run knows."""
        outcome = event.outcome
        if time_limit_s is not None:
            used_s = round(time.monotonic() - self.started_at, 3)
            outcome = timed_out(outcome, used_s=used_s, max_s=time_limit_s)
        if isinstance(outcome, Done):
            result = AgentResult(
                response=_last_words(event.messages),
                messages=event.messages,
                usage=self.usage,
                turns=self.turns,
            )
            return replace(outcome, result=result)
        return outcome

    def hear(self, event: LoopEvent) -> None:
        self._heard.append(event)
        self._news.set()

    def finish(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)
        self._news.set()


def _last_words(messages: Sequence[Message]) -> str:
    return next(
        (m.text for m in reversed(messages) if isinstance(m, AssistantMessage)),
        "",
    )
