"""One activity within its bounds: a time limit for each try, and how often there is another."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dirge_py.conversation.durable.base import ActivityOptions, Replay
from dirge_py.types.errors import ActivityFailed, ModelRetry, ProviderError, ToolFailed

Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]


async def run_activity(
    start: Callable[[], Awaitable[Result]],
    options: ActivityOptions,
    *,
    replay: Replay,
    sleep: Sleep = asyncio.sleep,
) -> Result:
    """What `start()` returns, tried again as the options say if that is safe.

    Raises:
        ActivityFailed: the last try failed, its exception being the cause, or took too long.
    """
    failures = 0
    while True:
        try:
            async with asyncio.timeout(options.start_to_close_s):
                return await start()
        except (ToolFailed, ModelRetry):
            # Words for the model, and no failure of the activity.
            raise
        except Exception as error:
            failures += 1
            kind = kind_of(error)
            retry = options.retry if replay == "safe" else None
            is_last = retry is None or failures >= retry.max_attempts
            if retry is None or is_last or kind in retry.non_retryable:
                raise ActivityFailed(
                    str(error) or f"it took longer than {options.start_to_close_s:g} s.",
                    kind=kind,
                    attempts=failures,
                ) from error
            await sleep(retry.wait_s(failures))


def kind_of(error: Exception) -> str:
    """What `RetryPolicy.non_retryable` may name it by."""
    if isinstance(error, ActivityFailed | ProviderError):
        return error.kind
    return "timeout" if isinstance(error, TimeoutError) else type(error).__name__
