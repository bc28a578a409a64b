"""Makes a request that did not fit into the model's window again, once, with less in it."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from dirge_py.types.hooks import Bundle, StopRun, TurnInfo, TurnUpdate
from dirge_py.types.messages import AssistantMessage
from dirge_py.types.outcomes import Failed

Shrink: TypeAlias = Callable[[], Awaitable[bool]]
"""Makes what is sent smaller, at once. Whether by a tenth at least: less is no progress."""

_HINT = "Begin a new session (`/clear`), or take a model with a larger window."


def overflow(shrink: Shrink) -> Bundle:
    """Hooks that answer a context-length error by `shrink` and asking again, once for each turn.

    The run ends with that error when nothing could be made smaller, or when it still did not fit.
    A request that did not fit is no turn (`turns.is_turn`). Made anew for every run.
    """
    has_shrunk = False

    async def after_turn(info: TurnInfo) -> TurnUpdate | None:
        nonlocal has_shrunk
        message = info.message
        if message is None or message.error_kind != "context_length":
            has_shrunk = False
            return None
        if has_shrunk:
            raise StopRun(_too_large("It was compacted, and is still too large", message))
        if not await shrink():
            raise StopRun(_too_large("There is nothing left to compact", message))
        has_shrunk = True
        return TurnUpdate(continue_with=())

    return Bundle(name="overflow", prepare_next_turn=after_turn)


def _too_large(why: str, message: AssistantMessage) -> Failed:
    told = f" {message.error_message}" if message.error_message else ""
    text = f"The conversation does not fit into the model's window. {why}.{told}"
    return Failed(kind="context_length", message=text, hint=_HINT)
