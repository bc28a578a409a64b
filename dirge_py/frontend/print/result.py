"""The result object: how a run ended, for machines. One table gives exit codes and subtypes."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.agent_loop.history import open_calls
from dirge_py.conversation.conversation import Conversation
from dirge_py.conversation.log import ConversationLog
from dirge_py.conversation.run import Run
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.sdk.outcome_text import outcome_text
from dirge_py.types.errors import RETRYABLE_KINDS, ConfigError, DirgeError, SessionBusy
from dirge_py.types.events import (
    AgentStart,
    ForkEvent,
    LoopEvent,
    MessageEnd,
    PermissionAnswered,
    TurnStart,
)
from dirge_py.types.messages import AssistantMessage, Message, Usage
from dirge_py.types.outcomes import (
    AwaitingConfirmation,
    Cancelled,
    Done,
    Failed,
    HookTerminated,
    LimitExceeded,
    MaxTurns,
    NeedsMoreTurns,
    NotVerified,
    Outcome,
    Refused,
)

_EXECUTION = ("error_during_execution", "error_usage_cap")
_CANCELLED = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "on-ask": 55}


def exit_code_of(reason: str) -> int:
    """The exit code of a run that was stopped for this reason."""
    return _CANCELLED.get(reason, 130)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The exit code and the texts of an outcome, for scripts."""

    exit_code: int
    """The exit code of the process."""
    subtype: str
    """The `subtype` of the result object."""
    kind: str = ""
    """The kind of the error; empty without one."""
    message: str = ""
    """The message of the error; empty without one."""
    hint: str = ""
    """What to do about the error; may be empty."""


def ending_of(outcome: Outcome) -> Ending:
    """Exit code, subtype and texts for this outcome."""
    message, hint = outcome_text(outcome).script
    exit_code, subtype = 1, "error_during_execution"
    match outcome:
        case Done():
            return Ending(exit_code=0, subtype="success")
        case NeedsMoreTurns():
            return Ending(exit_code=10, subtype="success")
        case AwaitingConfirmation():
            return Ending(exit_code=11, subtype="awaiting_confirmation")
        case MaxTurns():
            exit_code, subtype, kind = 53, "error_max_turns", "max_turns"
        case LimitExceeded(name=name):
            exit_code, subtype, kind = 54, "error_max_budget", f"limit_{name}"
        case NotVerified():
            exit_code, subtype, kind = 56, "error_verification", "not_verified"
        case Cancelled(reason=reason):
            exit_code, subtype, kind = exit_code_of(reason), "error_aborted", "aborted"
        case Refused():
            kind = "refused"
        case HookTerminated():
            kind = "hook"
        case Failed(kind="usage_cap" as kind):
            exit_code, subtype = 54, "error_usage_cap"
        case Failed(kind=kind):
            exit_code = 75 if kind in RETRYABLE_KINDS else 1
    return Ending(
        exit_code=exit_code,
        subtype=subtype,
        kind=kind,
        message=message or (kind if subtype in _EXECUTION else ""),
        hint=hint,
    )


class CommandUsage(ConversationLog):
    """The usage of a command: turns of its runs, and time and tokens of runs and their forks."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__((), Usage(), 0.0)
        self.started_at = time.monotonic()
        self._conversation = conversation
        self._runs: list[Run] = []
        self._forks_api_s = 0.0
        self._asked_at = self.started_at

    @property
    def turns(self) -> int:
        return sum(run.turns for run in self._runs)

    @property
    def api_s(self) -> float:
        return self._forks_api_s + sum(run.api_s for run in self._runs)

    def on_event(self, event: LoopEvent) -> None:
        match event:
            case ForkEvent(event=TurnStart()):
                self._asked_at = time.monotonic()
            case ForkEvent(event=MessageEnd(message=AssistantMessage()) as end):
                # The time from a turn's start to its answer; other usage has its own events.
                self._forks_api_s += time.monotonic() - self._asked_at
                self.record(end)
            case AgentStart() if self._conversation.run is not None:
                self._runs.append(self._conversation.run)
            case _:
                self.record(event)


def result_object(
    run: Run | CommandUsage,
    outcome: Outcome,
    conversation: Conversation,
    *,
    ending: Ending,
    response: str,
    model: str = "",
    denials: Sequence[PermissionAnswered] = (),
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The object that ends every machine-readable output.

    `model` is the one that answered, by default that of the settings; `more` are further members.
    """
    provider, _, model_id = (model or conversation.settings.model).partition("/")
    result: dict[str, Any] = {
        "type": "result",
        "subtype": ending.subtype,
        "is_error": bool(ending.message),
        "exit_code": ending.exit_code,
        "result": response,
        "session_id": conversation.session_id,
        "model": model_id,
        "provider": provider,
        "num_turns": run.turns,
        "duration_ms": round((time.monotonic() - run.started_at) * 1000),
        "duration_api_ms": round(run.api_s * 1000),
        "total_cost_usd": None if run.cost_usd is None else round(run.cost_usd, 6),
        "usage": usage_object(run.usage),
        "permission_denials": [
            {
                "tool_name": event.tool_name,
                "tool_use_id": event.tool_call_id,
                "tool_input": event.tool_input,
                "reason": event.reason,
            }
            for event in denials
        ],
    }
    if ending.message:
        result["error"] = {"kind": ending.kind, "message": ending.message, "hint": ending.hint}
    if isinstance(outcome, LimitExceeded):
        result["limit"] = {"name": outcome.name, "used": outcome.used, "max": outcome.max}
    if isinstance(outcome, AwaitingConfirmation):
        result["pending_calls"] = pending_calls(conversation.messages, outcome)
    return {**result, **(more or {})}


def pending_calls(
    history: Sequence[Message], outcome: AwaitingConfirmation
) -> list[dict[str, Any]]:
    """The open calls that wait, none if they are of a fork; the first is the one to decide."""
    from dirge_py.session.recovery import title_of_call

    last = open_calls(history)
    waiting = [call for call in (last.calls if last else ()) if call.id in outcome.call_ids]
    return [
        {
            "tool_name": call.name,
            "tool_use_id": call.id,
            "tool_input": call.arguments,
            "title": title_of_call(call),
            "description": outcome.description if call is waiting[0] else "",
        }
        for call in waiting
    ]


def error_object(error: Exception) -> dict[str, Any]:
    """The result object of a start that failed: nothing ran, nothing is stored."""
    is_config = isinstance(error, ConfigError)
    kind, hint = "bug", ""
    if isinstance(error, DirgeError):
        kind, hint = "config" if is_config else "start", error.hint
        kind = "session_busy" if isinstance(error, SessionBusy) else kind
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "exit_code": 2 if is_config else 1,
        "result": "",
        "session_id": None,
        "model": None,
        "provider": None,
        "num_turns": 0,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "total_cost_usd": 0.0,
        "usage": usage_object(Usage()),
        "permission_denials": [],
        "error": {"kind": kind, "message": str(error) or repr(error), "hint": hint},
    }


def usage_object(usage: Usage) -> Mapping[str, int]:
    """Tokens under Claude Code's names, with cached input apart from `input_tokens`.

    Codex' `reasoning_output_tokens`, a part of `output_tokens`, is there only if it was reported.
    """
    reasoning = {"reasoning_output_tokens": usage.reasoning} if usage.reasoning else {}
    return {
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
        **reasoning,
    }


def turn_fields(conversation: Conversation, run: Run, outcome: Outcome) -> dict[str, Any]:
    """Which turn it was, counted from the last prompt, its usage, and the usage since then."""
    turn, total = ConversationLog(conversation.messages, Usage(), None).since_prompt()
    return {
        "outcome": type(outcome).__name__,
        "turn": turn,
        "turn_usage": usage_object(run.usage),
        "total_usage": usage_object(total),
    }
