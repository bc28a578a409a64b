"""Sends a run on when an answer broke off after it had begun, or was cut at its length limit."""

from dirge_py.types.errors import RETRYABLE_KINDS
from dirge_py.types.events import RetryNotice, SystemNotice
from dirge_py.types.hooks import Bundle, TurnInfo, TurnUpdate
from dirge_py.types.messages import AssistantMessage, user_text

CUT_OFF = (
    "[Your answer was cut off by a broken connection. What you wrote before that is above; tool "
    "calls in it did not run. Go on exactly where it stops, and repeat nothing.]"
)
TOO_LONG = (
    "[Your answer was cut off because it reached the longest length of one answer. Go on exactly "
    "where it stops, and repeat nothing; split what is left into smaller steps.]"
)
_TOLD_TOO_LONG = (
    "The answer was cut off at the longest length of one answer, so it may be incomplete. "
    "/continue goes on."
)


def recover(most: int) -> Bundle:
    """Hooks that ask again after an answer that broke off: `most` times in a row, 0 is never.

    Only where text or thinking had come: an error before that was retried already, and both would
    multiply. Any good turn sets the count back. An answer cut at its length limit, without calls,
    is continued once; if that is cut, too, the run ends, with a notice. Made anew for every run.
    """
    state = _Breaks(most)
    return Bundle(name="recover", prepare_next_turn=state.after_turn)


class _Breaks:
    def __init__(self, most: int) -> None:
        self._most = most
        self._in_a_row = 0
        self._was_too_long = False

    def after_turn(self, info: TurnInfo) -> TurnUpdate | None:
        message = info.message
        if message is None:
            return None
        if message.stop_reason == "error":
            return self._after_error(info, message)
        self._in_a_row = 0
        if message.stop_reason == "length" and not message.calls:
            return self._after_too_long(info)
        self._was_too_long = False
        return None

    def _after_error(self, info: TurnInfo, message: AssistantMessage) -> TurnUpdate | None:
        is_worth_it = message.error_kind in RETRYABLE_KINDS and message.content
        if not is_worth_it or self._in_a_row >= self._most:
            return None
        self._in_a_row += 1
        error = message.error_message or ""
        info.emit(RetryNotice(attempt=self._in_a_row, delay_ms=0, error=error))
        return TurnUpdate(continue_with=(user_text(CUT_OFF, "harness"),))

    def _after_too_long(self, info: TurnInfo) -> TurnUpdate | None:
        if self._was_too_long or not self._most:
            info.emit(SystemNotice(_TOLD_TOO_LONG))
            return None
        self._was_too_long = True
        return TurnUpdate(continue_with=(user_text(TOO_LONG, "harness"),))
