"""The seam for engines that keep a run alive on more than one machine.

Everything a run does to the world goes through a `DurableContext`: model calls, tool calls, waiting
for a signal, sleeping, telling the time. `LocalDurable` does it all in this process and writes it
ahead in the journal; an engine's adapter would hand each of them to the engine as an activity.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.llm import LlmContext, StreamEvent, StreamOptions
from dirge_py.types.tools import LoopToolResult, Proceed, ToolCall

Replay = Literal["safe", "unsafe"]
"""Whether doing it twice is the same as doing it once. What is unsafe is never tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often an activity is tried, and how long is waited between.

    The wait before try n+1 is `initial_s * backoff ** (n - 1)`, at most `max_interval_s`. A failure
    whose kind (`errors.ErrorKind`, or the name of an exception's class) is in `non_retryable` is
    the last one.
    """

    initial_s: float = 1.0
    backoff: float = 2.0
    max_attempts: int = 3
    max_interval_s: float = 30.0
    non_retryable: tuple[str, ...] = ("auth",)

    def wait_s(self, failures: int) -> float:
        """Seconds to wait after so many failures (1 or more)."""
        return min(self.initial_s * self.backoff ** (failures - 1), self.max_interval_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityOptions:
    """The bounds of one activity; None is no bound.

    `start_to_close_s` is for one try as a whole. `heartbeat_s` is for the silence between two
    events of a model's answer: a long answer is no reason to give up, a silent one is.
    """

    start_to_close_s: float | None = None
    heartbeat_s: float | None = None
    retry: RetryPolicy | None = None


UNBOUNDED = ActivityOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmRequest:
    """One model call, as an engine would hand it to a worker."""

    context: LlmContext
    options: StreamOptions


StartStream: TypeAlias = Callable[[], AsyncIterator[StreamEvent]]
"""Begins the model call in this process; each call begins it anew."""


class DurableContext(Protocol):
    """What a run may ask of the world. Errors keep their types: `ActivityFailed` wraps nothing."""

    def execute_llm_call(
        self, request: LlmRequest, start: StartStream, options: ActivityOptions = UNBOUNDED
    ) -> AsyncIterator[StreamEvent]:
        """The events of the answer. Like every stream it ends with `StreamDone` or `StreamError`,
        and never raises."""

    async def execute_tool(
        self,
        call: ToolCall,
        proceed: Proceed,
        *,
        replay: Replay,
        options: ActivityOptions = UNBOUNDED,
    ) -> LoopToolResult:
        """The call's result.

        Raises:
            ActivityFailed: it did not end within its bounds, or failed as often as it may.
        """

    async def wait_for_signal(self, name: str, timeout_s: float | None = None) -> Any | None:
        """The payload of the oldest signal of this name that nobody has had; None: none in time."""

    def should_continue_as_new(self) -> bool:
        """Whether the history is too long to go on with."""

    async def continue_as_new(self, state: Mapping[str, Any]) -> None:
        """Go on with this state instead of the history."""

    async def sleep(self, seconds: float) -> None: ...

    def now(self) -> float:
        """Seconds since 1970."""
