"""Recovery from failed turns, always through `prepare_next_turn` and with a limit."""

import asyncio
import random as randomness
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from dirge_py.agent_loop.retry import RecoveryPolicy
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types import messages
from dirge_py.types.errors import ProviderError
from dirge_py.types.events import ContextCompacted, EscalationActivated, RetryNotice, SystemNotice
from dirge_py.types.hooks import Hooks, StopRun, TurnInfo, TurnUpdate
from dirge_py.types.llm import ThinkingLevel
from dirge_py.types.outcomes import Failed
from dirge_py.types.tools import LoopToolResult, ToolCall

CUT_OFF = (
    "[Your answer was cut off by a broken connection. What you wrote before that is above; tool "
    "calls in it did not run. Continue exactly where it stops, and repeat nothing.]"
)
TOO_LONG = (
    "[Your answer was cut off because it reached the longest length of one answer. Continue "
    "exactly where it stops, and repeat nothing; split what is left into smaller steps.]"
)
Shrink: TypeAlias = Callable[[], Awaitable[bool]]
"""Shrinks the context; returns whether by at least a tenth, because less is no progress."""

_TOO_LONG_NOTICE = (
    "The answer reached its length limit, so it may be incomplete. Use /continue to continue it."
)
_OVERFLOW_HINT = "Start a new session (`/clear`), or use a model with a larger window."


def resume_broken_answers(
    most: int,
    policy: RecoveryPolicy | None = None,
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Callable[[], float] = randomness.random,
) -> Hooks:
    """Return hooks that continue a broken answer, at most `most` times in a row; 0 is never.

    Earlier errors were already retried by the stream. As there, `policy` says how long to wait. An
    answer cut at its length limit, without calls, is continued once. Create new hooks for every
    run, and compose them after those that limit it: a run at its limit does not wait.
    """
    rules = policy or RecoveryPolicy()
    in_a_row, was_too_long = 0, False
    broken: ProviderError | None = None

    def after_turn(info: TurnInfo) -> TurnUpdate | None:
        nonlocal in_a_row, was_too_long, broken
        message, broken = info.message, None
        if message is None:
            return None
        if message.stop_reason == "error":
            error = info.error
            if error is None or not error.is_retryable or not message.content or in_a_row >= most:
                return None
            in_a_row += 1
            broken = error
            return TurnUpdate(continue_with=(messages.user_text(CUT_OFF, "harness"),))
        in_a_row = 0
        if message.stop_reason != "length" or message.calls:
            was_too_long = False
            return None
        if was_too_long or not most:
            info.emit(SystemNotice(_TOO_LONG_NOTICE))
            return None
        was_too_long = True
        return TurnUpdate(continue_with=(messages.user_text(TOO_LONG, "harness"),))

    async def wait(info: TurnInfo, error: ProviderError) -> bool:
        delay_s = rules.delay_s(in_a_row - 1, error, random)
        delay_ms = round(delay_s * 1000)
        info.emit(RetryNotice(attempt=in_a_row, delay_ms=delay_ms, error=error.message))
        await sleep(delay_s)
        return False

    def before_next(info: TurnInfo) -> Awaitable[bool] | bool:
        return broken is not None and wait(info, broken)

    # The last hook before the queue is read: a limit ends the run first, and what is typed during
    # the wait goes with the next call. An abort ends it, as it does every hook.
    return Hooks(name="recover", prepare_next_turn=after_turn, should_stop_after_turn=before_next)


def shrink_on_overflow(shrink: Shrink, guest: Callable[[], str | None] = lambda: None) -> Hooks:
    """Return hooks for one run that answer a context-length error with `shrink` and a new call."""
    has_shrunk = False

    def after_turn(info: TurnInfo) -> Awaitable[TurnUpdate] | None:
        nonlocal has_shrunk
        message = info.message
        # A guest makes one call: the history need not fit into its window.
        if message is None or message.error_kind != "context_length" or message.model == guest():
            has_shrunk = False
            return None
        return shrunk(message)

    async def shrunk(message: messages.AssistantMessage) -> TurnUpdate:
        nonlocal has_shrunk
        if has_shrunk:
            raise StopRun(_too_large("It was compacted, and is still too large", message))
        if not await shrink():
            raise StopRun(_too_large("There is nothing left to compact", message))
        has_shrunk = True
        return TurnUpdate(continue_with=())

    return Hooks(name="overflow", prepare_next_turn=after_turn)


def _too_large(why: str, message: messages.AssistantMessage) -> Failed:
    reason = f" {message.error_message}" if message.error_message else ""
    text = f"The conversation does not fit into the model's window. {why}.{reason}"
    return Failed(kind="context_length", message=text, hint=_OVERFLOW_HINT)


@dataclass(slots=True)
class EscalationBudget:
    """Counts the calls of the stronger model in a session; `sdk/guards.py` keeps it."""

    most: int = 3
    spent: int = 0


def escalate_on_failure(
    model: str | None,
    budget: EscalationBudget,
    *,
    home: Callable[[], str],
    level: ThinkingLevel | None = None,
    home_level: Callable[[], ThinkingLevel | None] = lambda: None,
) -> Hooks:
    """Return hooks that give one call to `model` (`alias/id`; None: never) when it is needed.

    That is after a turn with a call whose arguments stayed invalid, or with a change that left a
    file with a syntax error (`details["syntax_error"]`, its path). `home` returns the selected
    model: it makes the following calls, and the same call if the stronger model does not answer.
    `level` and `home_level` are their thinking levels; None is the current one. The budget is
    charged when the call is made. Create new hooks for every run.
    """
    reason, is_away = "", False
    executed: set[str] = set()

    def after_call(_info: TurnInfo, call: ToolCall, _result: LoopToolResult) -> None:
        # A tool that ran and asks for other arguments is no reason: these were valid.
        executed.add(call.id)

    def after_turn(info: TurnInfo) -> TurnUpdate | None:
        nonlocal reason, is_away
        was_away, own = is_away, home()
        may_escalate = model not in (None, "", own) and budget.spent < budget.most
        reason = _reason_to_escalate(info.tool_results, executed) if may_escalate else ""
        executed.clear()
        is_away = bool(reason)
        if is_away:
            return TurnUpdate(model=model, thinking_level=level, role="escalate")
        if not was_away:
            return None
        # A stronger model that cannot be reached must not end a run that could continue without it.
        answer = info.message
        is_void = answer is not None and answer.stop_reason == "error" and not answer.content
        go_on = () if is_void else None
        return TurnUpdate(model=own, thinking_level=home_level(), continue_with=go_on)

    def before_model(info: TurnInfo) -> None:
        nonlocal reason
        if reason:
            budget.spent += 1
            info.emit(EscalationActivated(provider=model or "", reason=reason))
            reason = ""

    return Hooks(
        name="escalate",
        transform_context=before_model,
        after_tool_call=after_call,
        prepare_next_turn=after_turn,
    )


def _reason_to_escalate(results: Sequence[messages.ToolResultMessage], executed: set[str]) -> str:
    """Return the first problem that a stronger model may solve; "" if there is none."""
    for result in results:
        is_invalid = result.details.get("outcome") == "invalid"
        if is_invalid and result.tool_call_id not in executed:
            return f"repair_exhausted: {result.tool_name}"
        path = result.details.get("syntax_error")
        if isinstance(path, str) and path:
            return f"syntactic_failure: {result.tool_name} {path}"
    return ""


def announce_server_compaction() -> Hooks:
    """Return a hook that announces every compaction block in an answer that has a summary."""

    def after_turn(info: TurnInfo) -> None:
        if info.message is None:
            return
        usage = info.message.usage or messages.Usage()
        for block in info.message.content:
            if isinstance(block, messages.CompactionBlock) and block.text:
                info.emit(
                    ContextCompacted(
                        tokens_before=usage.input,
                        tokens_after=usage.output,
                        first_kept_index=len(info.context.messages) - 1,
                        kind="server",
                        summary=block.text,
                        summary_model=info.message.model,
                    )
                )

    return Hooks(name="server compaction", prepare_next_turn=after_turn)
