"""The log: events with times and ids, one JSON object per line. Off by default.

It has ids, names, sizes and durations, but no conversations, and the messages of `logging`.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

from dirge_py.lib.redaction import redacted
from dirge_py.types import events
from dirge_py.types.messages import AssistantMessage

MAX_BYTES = 10 * 1024 * 1024
"""A larger file is renamed to `NAME.1`, replacing an older one, and a new one is started."""

_MAX_TEXT = 2_000
_REDACTED_BEFORE_CUT = 4 * _MAX_TEXT
_LOGGERS = (logging.getLogger("dirge_py"), logging.getLogger("dirge.plugin"))

_CALL = "call=tool_call_id tool=tool_name"
_COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning")
_USAGE = " ".join(f"{name}=usage.{name}" for name in _COUNTS)
_FIELDS: Mapping[type[events.LoopEvent], str] = {
    events.AgentStart: "",
    events.AgentEnd: "",
    events.TurnStart: "",
    events.TurnEnd: "",
    events.MessageEnd: "model=message.model stop_reason=message.stop_reason",
    events.UsageReported: f"{_USAGE} model cost_usd",
    events.ToolExecutionStart: f"{_CALL} args",
    events.ToolExecutionEnd: f"{_CALL} is_error duration_ms",
    events.PermissionAsked: f"{_CALL} claims reason",
    events.PermissionAnswered: f"{_CALL} effect policy reason",
    events.RetryNotice: "attempt delay_ms error",
    events.SystemNotice: "content",
}
"""The events that are logged: the names of their fields in the log, and in the event if other."""
_MESSAGES = (events.MessageStart, events.MessageEnd)
_TIMED = ("agent", "turn", "message")
"""What has a duration in the log; tool calls have their own."""


class Log:
    """Writes events, other records, and the messages of `logging` from INFO on until it is closed.

    Never raises: a log must not stop the work it describes. The first failure is reported once
    through `note`, and ends the writing. The file is opened at the first record, readable only by
    its owner; `note` then reports its path.
    """

    def __init__(
        self,
        path: Path,
        redact: Callable[[str], str],
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
        self._clock = clock
        self._ids: dict[str, Any] = {}
        self._began: dict[str, float] = {}
        self._fd: int | None = None
        self._max_bytes = max_bytes
        self._size = 0
        self._is_broken = False
        self._handler = _LogHandler(self)
        self._levels = [logger.level for logger in _LOGGERS]
        for logger in _LOGGERS:
            logger.addHandler(self._handler)
            logger.setLevel(logging.INFO)

    def sink(self, event: events.LoopEvent) -> None:
        """Write what `event` says about runs, turns, model calls and tools, but no text deltas."""
        try:
            fields = self._fields(event)
        except Exception as error:  # an event of an unknown shape
            self._give_up(str(error))
            return
        if fields is not None:
            self.record(event.type, **fields)

    def record(self, kind: str, /, **fields: Any) -> None:
        """Write one record of another kind, such as `session` or `compaction`."""
        self._write({"kind": kind, **self._ids, **fields})

    def _fields(self, event: events.LoopEvent) -> dict[str, Any] | None:
        """Return the fields of the event's record; None if it is not logged."""
        if isinstance(event, events.AgentStart):
            self._ids = {"run": event.run_id} if event.run_id else {}
        elif isinstance(event, events.TurnStart):
            self._ids = {**self._ids, "turn": event.turn}
        elif isinstance(event, _MESSAGES) and event.message.role != "assistant":
            return None
        what, _, edge = event.type.rpartition("_")
        if edge == "start" and what in _TIMED:
            self._began[what] = self._clock()
        if type(event) not in _FIELDS:
            return None
        named = (field.partition("=") for field in _FIELDS[type(event)].split())
        fields = {name: attrgetter(path or name)(event) for name, _, path in named}
        fields |= _derived_fields(event)
        if edge == "end" and what in self._began:
            fields["duration_ms"] = round((self._clock() - self._began.pop(what)) * 1000)
        return fields

    def close(self) -> None:
        """Close the file, which a later record opens again, and end taking messages."""
        for logger, level in zip(_LOGGERS, self._levels, strict=True):
            if self._handler in logger.handlers:
                logger.removeHandler(self._handler)
                logger.setLevel(level)
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
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            session = {"session": self.session_id} if self.session_id else {}
            # ASCII, so that lone surrogates and line separators cannot break a line.
            shown = redacted({"ts": now, **session, **record}, self._shown)
            text = json.dumps(shown, default=lambda value: self._shown(str(value)))
            line = text.encode("ascii") + b"\n"
            if self._fd is not None and self._size + len(line) > self._max_bytes:
                self._close_file()
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            if self._fd is None:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                self._fd = os.open(self.path, flags, 0o600)
                self._size = os.fstat(self._fd).st_size
                self._note(f"Logging to {self.path}")
            # One write per line, so that two programs may share a file.
            if os.write(self._fd, line) < len(line):
                raise OSError("the disk is full")
            self._size += len(line)
        except Exception as error:
            self._give_up(getattr(error, "strerror", None) or str(error))

    def _shown(self, text: str) -> str:
        """Return a text redacted before it is cut: half a key is no match."""
        text = self._redact(text[:_REDACTED_BEFORE_CUT])
        return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"

    def _give_up(self, reason: str) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._close_file()
            self._note(f"The log {self.path} cannot be written: {reason}. Logging ended.")


def _print_on_stderr(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")


class _LogHandler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(Exception):
            self._log.record(
                "note", level=record.levelname, logger=record.name, text=self.format(record)
            )


def keep_off_the_screen() -> None:
    """Keep `logging` from writing to stderr if the program has installed no handler."""
    for logger in _LOGGERS:
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def _derived_fields(event: events.LoopEvent) -> dict[str, Any]:
    match event:
        case events.AgentEnd(outcome=outcome):
            reason = getattr(outcome, "reason", "") or getattr(outcome, "message", "")
            fields = {"outcome": type(outcome).__name__, "messages": len(event.messages)}
            return fields | ({"reason": reason} if reason else {})
        case events.TurnEnd():
            return {"tool_results": len(event.tool_results)}
        case events.MessageEnd(message=AssistantMessage() as message):
            calls = [call.id for call in message.calls]
            fields = {"kind": "model_call", "characters": len(message.text), "calls": calls}
            if message.error_message:
                fields |= {"error_kind": message.error_kind, "error": message.error_message}
            return fields
        case events.UsageReported() if event.role:
            return {"role": event.role}
        case events.ToolExecutionEnd(result=result):
            return {"outcome": result.details.get("outcome"), "characters": len(result.text)}
    return {}
