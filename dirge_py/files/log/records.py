"""What the log keeps of each event: ids, names, sizes and durations, not conversations."""

from collections.abc import Callable
from typing import Any, TypeAlias

from dirge_py.types.events import (
    AgentEnd,
    AgentStart,
    LoopEvent,
    MessageEnd,
    MessageStart,
    PermissionAnswered,
    PermissionAsked,
    RetryNotice,
    SystemNotice,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
    UsageReported,
)
from dirge_py.types.messages import AssistantMessage

Record: TypeAlias = dict[str, Any]


class Recording:
    """Turns the events of one conversation, in their order, into records for the log."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` counts seconds and never goes back."""
        self._clock = clock
        self._run_id = ""
        self._turn: int | None = None
        self._began: dict[str, float] = {}

    def of(self, event: LoopEvent) -> Record | None:
        """The record of `event`; None for what the log leaves out."""
        if isinstance(event, AgentStart):
            self._run_id, self._turn = event.run_id, None
        elif isinstance(event, TurnStart):
            self._turn = event.turn
        fields = self._fields(event)
        if fields is None:
            return None
        return {"kind": event.type, **self.ids(), **fields}

    def ids(self) -> Record:
        """The run and turn we are in, as far as there is one."""
        run = {"run": self._run_id} if self._run_id else {}
        turn = {"turn": self._turn} if self._turn is not None else {}
        return {**run, **turn}

    def _fields(self, event: LoopEvent) -> Record | None:
        match event:
            case AgentStart():
                self._begin("run")
                return {}
            case AgentEnd():
                return _run_end(event) | self._duration("run")
            case TurnStart():
                self._begin("turn")
                return {}
            case TurnEnd():
                return {"tool_results": len(event.tool_results)} | self._duration("turn")
            case MessageStart(message=AssistantMessage()):
                self._begin("message")
                return None
            case MessageEnd(message=AssistantMessage() as message):
                return _model_call(message) | self._duration("message")
            case UsageReported():
                return _usage(event)
        return _tool_fields(event) or _notice_fields(event)

    def _begin(self, what: str) -> None:
        self._began[what] = self._clock()

    def _duration(self, what: str) -> Record:
        began = self._began.pop(what, None)
        return {} if began is None else {"duration_ms": round((self._clock() - began) * 1000)}


def _run_end(event: AgentEnd) -> Record:
    outcome = event.outcome
    reason = getattr(outcome, "reason", "") or getattr(outcome, "message", "")
    return {
        "outcome": type(outcome).__name__,
        "messages": len(event.messages),
        **({"reason": reason} if reason else {}),
    }


def _model_call(message: AssistantMessage) -> Record:
    fields: Record = {
        "kind": "model_call",
        "model": message.model,
        "stop_reason": message.stop_reason,
        "characters": len(message.text),
        "calls": [call.id for call in message.calls],
    }
    if message.error_message:
        fields |= {"error_kind": message.error_kind, "error": message.error_message}
    return fields


def _usage(event: UsageReported) -> Record:
    usage = event.usage
    return {
        "model": event.model,
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "cost_usd": event.cost_usd,
        **({"role": event.role} if event.role else {}),
    }


def _tool_fields(event: LoopEvent) -> Record | None:
    match event:
        case ToolExecutionStart():
            return _call(event) | {"args": event.args}
        case ToolExecutionEnd():
            return _call(event) | {
                "outcome": event.result.details.get("outcome"),
                "is_error": event.is_error,
                "duration_ms": event.duration_ms,
                "characters": len(event.result.text),
            }
        case PermissionAsked():
            return _call(event) | {"claims": event.claims, "reason": event.reason}
        case PermissionAnswered():
            return _call(event) | {
                "effect": event.effect,
                "policy": event.policy,
                "reason": event.reason,
            }
    return None


def _call(
    event: ToolExecutionStart | ToolExecutionEnd | PermissionAsked | PermissionAnswered,
) -> Record:
    return {"call": event.tool_call_id, "tool": event.tool_name}


def _notice_fields(event: LoopEvent) -> Record | None:
    match event:
        case RetryNotice():
            return {"attempt": event.attempt, "delay_ms": event.delay_ms, "error": event.error}
        case SystemNotice():
            return {"content": event.content}
    return None
