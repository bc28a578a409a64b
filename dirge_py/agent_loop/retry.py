"""Retries of a model call whose connection broke before the answer began."""

import asyncio
import random as randomness
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import copy
from dataclasses import replace
from typing import Literal

from dirge_py.agent_loop.cancellation import Aborted, until_aborted
from dirge_py.agent_loop.model_call import until_end
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types import llm
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ProviderError
from dirge_py.types.messages import user_text

Commitment = Literal["text", "thinking", "toolcall"]

_COMMITMENTS: dict[type, Commitment] = {
    llm.TextDelta: "text",
    llm.ThinkingDelta: "thinking",
    llm.ToolCallDelta: "toolcall",
    llm.ToolCallEnd: "toolcall",
}
_SEED_COMMIT: frozenset[Commitment] = frozenset({"text", "toolcall"})
_STEPS_AT_MOST = 6

NUDGE = (
    "[The previous attempt at this answer was cut off by a time limit. "
    "Stop deliberating: act now, in small steps.]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """When to retry a call, and how long to wait: each wait is doubled, up to 64 times."""

    max_retries: int = 5
    """The most retries of one call."""
    base_s: float = 1.0
    """The first wait, in seconds."""
    jitter: float = 0.25
    """Up to this share of the wait is added, so that clients do not retry at the same moment."""
    server_wait_cap_s: float = 300.0
    """The longest wait that a server may ask for. A longer rate limit means a used-up quota."""
    commit_on: frozenset[Commitment] | Literal["seed"] = frozenset({"text", "thinking"})
    """The kinds of delta after which nothing is retried; `"seed"` stands for text and toolcall."""

    def delay_s(self, retry: int, error: ProviderError, random: Callable[[], float]) -> float:
        """Return the seconds to wait before retry number `retry`, counted from 0."""
        step = self.base_s * 2.0 ** min(retry, _STEPS_AT_MOST)
        own = step * (1 + self.jitter * random())
        return max(own, min(error.retry_after_s or 0.0, self.server_wait_cap_s))

    def commits(self, event: llm.StreamEvent) -> bool:
        commit_on = _SEED_COMMIT if self.commit_on == "seed" else self.commit_on
        return _COMMITMENTS.get(type(event)) in commit_on

    def judged(self, error: ProviderError) -> ProviderError:
        """Return the error under the kind that decides whether it is retried."""
        if error.kind != "rate_limit" or (error.retry_after_s or 0) <= self.server_wait_cap_s:
            return error
        capped = copy(error)
        capped.kind = "usage_cap"
        capped.hint = (
            error.hint or "The quota is used up. Wait until it resets, or use another model."
        )
        return capped


def retrying_stream_fn(
    inner: llm.StreamFn,
    policy: RecoveryPolicy | None = None,
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Callable[[], float] = randomness.random,
) -> llm.StreamFn:
    """Return `inner`, called again after a transient error if no answer was shown yet."""
    rules = policy or RecoveryPolicy()

    async def stream(
        context: llm.LlmContext, options: llm.StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[llm.StreamEvent]:
        is_nudged = False
        for attempt in range(rules.max_retries + 1):
            if signal.aborted:
                yield llm.StreamError(ProviderError("Stopped.", kind="aborted", phase="stream"))
                return
            is_committed = False
            async with llm.closing(until_end(inner(context, options, signal))) as events:
                async for event in events:
                    if isinstance(event, llm.StreamError):
                        error = rules.judged(event.error)
                        break
                    is_committed = is_committed or rules.commits(event)
                    yield event
                else:
                    return
            if is_committed or not error.is_retryable or attempt == rules.max_retries:
                yield llm.StreamError(error)
                return
            delay_s = rules.delay_s(attempt, error, random)
            yield llm.StreamRetry(
                attempt=attempt + 1, delay_ms=round(delay_s * 1000), error=error.message
            )
            try:
                await until_aborted(sleep(delay_s), signal)
            except Aborted:
                continue
            if _has_stalled(error) and not is_nudged:
                nudge = user_text(NUDGE, "harness")
                is_nudged, context = True, replace(context, messages=(*context.messages, nudge))

    return stream


def _has_stalled(error: ProviderError) -> bool:
    """Whether the model thought for too long, rather than the connection being dead."""
    text = error.message.lower()
    is_timeout = "timed out" in text or "timeout" in text
    return is_timeout and error.phase == "stream" and "dropped" not in text
