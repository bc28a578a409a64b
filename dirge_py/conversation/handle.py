"""One run of a conversation, as whoever started it holds it."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from dirge_py.agent_loop.queues import QueuedInput
from dirge_py.agent_loop.turns import is_turn, last_words
from dirge_py.conversation.broadcaster import EventStream, Mailboxes, Patience
from dirge_py.guards.limits import TIMEOUT, timed_out
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import AgentEnd, LoopEvent
from dirge_py.types.llm import LlmContext, StreamEvent, StreamFn, StreamOptions
from dirge_py.types.messages import AssistantMessage, Message, Usage, UserMessage
from dirge_py.types.outcomes import AgentResult, Cancelled, Done, Outcome


class Queueing(Protocol):
    """Where a run's input goes: its conversation."""

    def steer(self, prompt: str | UserMessage) -> QueuedInput: ...
    def follow_up(self, prompt: str | UserMessage) -> QueuedInput: ...


class Run:
    """One run, from a prompt until the agent rests. `await run.outcome` never raises.

    `unsent` are typed messages that did not become part of history and are in no queue: a check
    held them back, or the run ended before it took them up. They belong back in the input.
    """

    def __init__(
        self,
        conversation: Queueing,
        signal: AbortSignal,
        *,
        prompts: Sequence[Message] = (),
        patience: Patience | None = None,
        on_notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.id = ""
        self.signal = signal
        self.started_at = time.monotonic()
        self.api_s = 0.0
        self.turns = 0
        self.usage = Usage()
        self.cost_usd: float | None = 0.0
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.mailboxes = Mailboxes(patience, on_detached=on_notice)
        self._conversation = conversation
        self._is_over = False
        self._unsent = [prompt for prompt in prompts if isinstance(prompt, UserMessage)]

    def __await__(self) -> Generator[Any, None, Outcome]:
        return self.outcome.__await__()

    @property
    def outcome(self) -> "asyncio.Future[Outcome]":
        """How it ends. Who stops waiting for it stops neither the run nor others who wait."""
        return asyncio.shield(self._outcome)

    @property
    def unsent(self) -> Sequence[UserMessage]:
        return tuple(self._unsent)

    def events(self) -> EventStream:
        """The events of this run, in order, read at the reader's own pace; ends after `agent_end`.

        Any number may read. What happened before one begins is still there as long as it is not
        much; after that it hears what comes. One that stays behind is `mailboxes.Detached`.
        """
        return self.mailboxes.subscribe()

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
        if isinstance(outcome, Done) and self.signal.aborted and self.signal.reason != TIMEOUT:
            # Its work was done, but not what was to be asked about it: whoever said stop is heard.
            outcome = Cancelled(reason=self.signal.reason)
        if time_limit_s is not None:
            used_s = round(time.monotonic() - self.started_at, 3)
            outcome = timed_out(outcome, used_s=used_s, max_s=time_limit_s)
        if isinstance(outcome, Done):
            result = AgentResult(
                response=last_words(event.messages),
                messages=event.messages,
                usage=self.usage,
                turns=self.turns,
            )
            return replace(outcome, result=result)
        return outcome

    def hear(self, event: LoopEvent, journal_seq: int | None = None) -> None:
        """Tell whoever reads the events of this run. What comes after its end is not of it."""
        if not self._is_over:
            self._is_over = isinstance(event, AgentEnd)
            self.mailboxes.put(event, journal_seq)

    def hold_back(self, message: UserMessage) -> None:
        """Keep what was taken from a queue until it is history."""
        self._unsent.append(message)

    def count(self, message: Message) -> None:
        """Note that the message is history."""
        if isinstance(message, UserMessage):
            self._unsent = [held for held in self._unsent if held is not message]
        elif isinstance(message, AssistantMessage) and message.origin == "model":
            self.turns += is_turn(message)
            if message.content and not message.usage:
                # It was paid for, and nobody said how much.
                self.cost_usd = None

    def finish(self, outcome: Outcome) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)
        self.mailboxes.close()
