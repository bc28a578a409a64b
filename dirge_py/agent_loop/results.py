"""Results that no tool wrote: for calls that failed, were answered by a hook, or never ran."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dirge_py.agent_loop.prepare import PROBLEM_OUTCOMES
from dirge_py.types.errors import ModelRetry, ToolFailed
from dirge_py.types.hooks import Answer
from dirge_py.types.messages import TextBlock
from dirge_py.types.tools import LoopToolResult, ToolCall, text_result

_logger = logging.getLogger(__name__)

ABORTED = text_result(
    "Aborted while it ran. What it had done by then was not undone: look before you repeat it.",
    outcome="aborted",
    is_error=True,
)
NEVER_RAN = text_result(
    "Aborted before it ran; it did nothing.",
    outcome="aborted",
    is_error=True,
    synthetic="aborted",
)
SUPPRESSED = text_result(
    "Not run: the run was stopped before this call. Do not simply repeat it.",
    outcome="suppressed",
    is_error=True,
    synthetic="suppressed",
)
WITHHELD = text_result(
    "[result withheld: the run was stopped before its check finished]\nThe call itself "
    "completed and was not undone: check what it did before you repeat it.",
    outcome="aborted",
    is_error=True,
    withheld="the run was stopped before its check finished",
)
WAITING = text_result("Waits for a decision.", outcome="suppressed")


def error_result(error: Exception) -> LoopToolResult:
    """What the model reads when a tool raised."""
    if isinstance(error, ToolFailed):
        return _failed(error.message, {**error.details, "outcome": error.outcome})
    if isinstance(error, ModelRetry):
        return _failed(error.message, {"outcome": "invalid", "retry": True})
    if isinstance(error, TimeoutError):
        return _failed(str(error) or "It timed out.", {"outcome": "timeout"})
    _logger.error("a tool raised", exc_info=error)
    return _failed(str(error) or type(error).__name__, {"outcome": "error"})


def answered_result(answer: Answer, call: ToolCall) -> LoopToolResult:
    """What a hook answered in the tool's place."""
    content = answer.content or "This call was blocked."
    blocks = (TextBlock(content),) if isinstance(content, str) else tuple(content)
    refused = "denied" if call.problem is None else PROBLEM_OUTCOMES[call.problem]
    return LoopToolResult(
        content=blocks,
        details={"outcome": refused if answer.is_error else "ok", **answer.details},
        is_error=answer.is_error,
        terminate=answer.terminate,
    )


def problem_result(call: ToolCall) -> LoopToolResult:
    """Why a call cannot run, in the words that `prepare` found."""
    assert call.problem is not None
    return text_result(call.problem_text, outcome=PROBLEM_OUTCOMES[call.problem], is_error=True)


def unchecked(result: LoopToolResult) -> LoopToolResult:
    """What is kept of a result that not every hook has seen; our own words need no check."""
    return result if result is ABORTED else replace(WITHHELD, terminate=result.terminate)


def with_notes(result: LoopToolResult, notes: Sequence[str]) -> LoopToolResult:
    """The result with what the model has to know of its arguments in a block before the others."""
    if not notes:
        return result
    return replace(result, content=(TextBlock("\n".join(notes)), *result.content))


def with_outcome(result: LoopToolResult) -> LoopToolResult:
    """The result with a `details["outcome"]` that does not contradict `is_error`."""
    outcome = result.details.get("outcome")
    if result.is_error and outcome in (None, "ok"):
        return replace(result, details={**result.details, "outcome": "error"})
    if outcome is None:
        return replace(result, details={**result.details, "outcome": "ok"})
    return result


def _failed(text: str, details: Mapping[str, Any]) -> LoopToolResult:
    return LoopToolResult(content=(TextBlock(text),), details=details, is_error=True)
