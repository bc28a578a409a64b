"""The log: events with times and ids, one JSON object per line. Off by default.

It records ids, names, sizes and durations of events, not conversations, and messages of `logging`,
which never reach the screen.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
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

MAX_BYTES = 10 * 1024 * 1024
"""A larger file is renamed to `NAME.1`, replacing an older one, and a new one is started."""

_MAX_TEXT = 2_000
_REDACTED_BEFORE_CUT = 4 * _MAX_TEXT
Redact: TypeAlias = Callable[[str], str]
_LOGGERS = (logging.getLogger("dirge_py"), logging.getLogger("dirge.plugin"))
Record: TypeAlias = dict[str, Any]


class LogFile:
    """Writes events and other records. Never raises: a log must not stop the work it describes.

    The first failure is reported once through `note`, and ends the writing. The file is opened at
    the first record, readable only by its owner; `note` then reports its path.
    """

    def __init__(
        self,
        path: Path,
        redact: Redact,
        *,
        session_id: str | None = None,
        note: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """`redact` removes secrets from every text; `note` prints on stderr if None."""
        self.path = path
        self.session_id = session_id
        self._redact = redact
        self._note = note or _print_on_stderr
        self._recording = LogRecordBuilder(clock)
        self._fd: int | None = None
        self._max_bytes = max_bytes
        self._size = 0
        self._is_broken = False

    def sink(self, event: LoopEvent) -> None:
        """Write what `event` says about runs, turns, model calls and tools, but no text deltas."""
        try:
            record = self._recording.of(event)
        except Exception as error:  # an event of an unknown shape
            self._give_up(str(error))
            return
        if record is not None:
            self._write(record)

    def record(self, kind: str, **fields: Any) -> None:
        """Write one record of another kind, such as `session` or `compaction`."""
        self._write({"kind": kind, **self._recording.ids(), **fields})

    def close(self) -> None:
        """Close the file; a later record opens it again."""
        self._close_file()

    def _close_file(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                os.close(fd)

    def _write(self, record: dict[str, Any]) -> None:
        if self._is_broken:
            return
        try:
            line = self._line(record)
            if self._fd is not None and self._size + len(line) > self._max_bytes:
                self._close_file()
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            fd = self._open() if self._fd is None else self._fd
            # One write per line, so that two programs may share a file.
            if os.write(fd, line) < len(line):
                raise OSError("the disk is full")
            self._size += len(line)
        except Exception as error:
            self._give_up(getattr(error, "strerror", None) or str(error))

    def _line(self, record: dict[str, Any]) -> bytes:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        session = {"session": self.session_id} if self.session_id else {}
        shown = {key: self._shown(value) for key, value in record.items()}
        # ASCII, so that lone surrogates and line separators cannot break a line.
        return json.dumps({"ts": now, **session, **shown}).encode("ascii") + b"\n"

    def _shown(self, value: Any) -> Any:
        """Return `value` as JSON, redacted before it is cut: half a key is no match."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, dict):
            return {self._shown(str(key)): self._shown(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._shown(item) for item in value]
        text = self._redact(str(value)[:_REDACTED_BEFORE_CUT])
        return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"

    def _open(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = fd = os.open(self.path, flags, 0o600)
        self._size = os.fstat(fd).st_size
        self._note(f"Logging to {self.path}")
        return fd

    def _give_up(self, reason: str) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._close_file()
            self._note(f"The log {self.path} cannot be written: {reason}. Logging ended.")


def _print_on_stderr(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")


class Log(LogFile):
    """A log file that also records the messages of `logging`, from INFO on, until it is closed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._handler = _Notes(self)
        self._levels = [logger.level for logger in _LOGGERS]
        for logger in _LOGGERS:
            logger.addHandler(self._handler)
            logger.setLevel(logging.INFO)

    def close(self) -> None:
        for logger, level in zip(_LOGGERS, self._levels, strict=True):
            if self._handler in logger.handlers:
                logger.removeHandler(self._handler)
                logger.setLevel(level)
        super().close()


class _Notes(logging.Handler):
    def __init__(self, log: LogFile) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            self._log.record(
                "note", level=record.levelname, logger=record.name, text=self.format(record)
            )


def keep_off_the_screen() -> None:
    """Keep `logging` from writing warnings and tracebacks to stderr when it has no handler.

    Handlers that a program installs itself get all messages as before.
    """
    for logger in _LOGGERS:
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


class LogRecordBuilder:
    """Converts the events of one conversation, in order, to records for the log."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds and never goes back."""
        self._clock = clock
        self._run_id = ""
        self._turn: int | None = None
        self._began: dict[str, float] = {}

    def of(self, event: LoopEvent) -> Record | None:
        """Return the record of `event`; None for an event that is not logged."""
        if isinstance(event, AgentStart):
            self._run_id, self._turn = event.run_id, None
        elif isinstance(event, TurnStart):
            self._turn = event.turn
        fields = self._fields(event)
        if fields is None:
            return None
        return {"kind": event.type, **self.ids(), **fields}

    def ids(self) -> Record:
        """Return the current run and turn, if there are any."""
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
            case RetryNotice():
                return {"attempt": event.attempt, "delay_ms": event.delay_ms, "error": event.error}
            case SystemNotice():
                return {"content": event.content}
        return None

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


def _call(
    event: ToolExecutionStart | ToolExecutionEnd | PermissionAsked | PermissionAnswered,
) -> Record:
    return {"call": event.tool_call_id, "tool": event.tool_name}
