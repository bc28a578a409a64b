"""The log: what happened when, with ids, one JSON object per line. Off unless asked for."""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from dirge_py.files.log.records import Recording
from dirge_py.types.events import LoopEvent

MAX_BYTES = 10 * 1024 * 1024
"""A fuller file is renamed to `NAME.1`, in place of an older one, and a new one begun."""

_MAX_TEXT = 2_000
_REDACTED_BEFORE_CUT = 4 * _MAX_TEXT

Redact: TypeAlias = Callable[[str], str]


class LogFile:
    """Writes events and other records. Never raises: a log must not stop the work it describes.

    The first failure is told once through `note`, and writing ends there. The file is opened at
    the first record, readable by its owner alone; `note` then says where it is.
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
        """`redact` takes secrets out of every text; `note` prints on stderr if None."""
        self.path = path
        self.session_id = session_id
        self._redact = redact
        self._note = note or _print_on_stderr
        self._recording = Recording(clock)
        self._fd: int | None = None
        self._max_bytes = max_bytes
        self._size = 0
        self._is_broken = False

    def sink(self, event: LoopEvent) -> None:
        """Write what `event` says about runs, turns, model calls and tools; pieces of text not."""
        try:
            record = self._recording.of(event)
        except Exception as error:  # an event of a shape we do not know
            self._give_up(str(error))
            return
        if record is not None:
            self._write(record)

    def record(self, kind: str, **fields: Any) -> None:
        """Write one record of another kind, such as `session` or `compaction`."""
        self._write({"kind": kind, **self._recording.ids(), **fields})

    def close(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
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
                self._rotate()
            if self._fd is None:
                self._open()
            self._append(line)
        except Exception as error:
            self._give_up(getattr(error, "strerror", None) or str(error))

    def _line(self, record: dict[str, Any]) -> bytes:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        session = {"session": self.session_id} if self.session_id else {}
        shown = {key: self._shown(value) for key, value in record.items()}
        # ASCII: lone surrogates and line separators cannot break a line.
        return json.dumps({"ts": now, **session, **shown}).encode("ascii") + b"\n"

    def _shown(self, value: Any) -> Any:
        """`value` as JSON without secrets. Redacted before it is cut: half a key is no match."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, dict):
            return {self._shown(str(key)): self._shown(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._shown(item) for item in value]
        text = self._redact(str(value)[:_REDACTED_BEFORE_CUT])
        return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size
        self._note(f"Logging to {self.path}")

    def _rotate(self) -> None:
        self._let_go()
        self.path.replace(self.path.with_name(f"{self.path.name}.1"))

    def _append(self, line: bytes) -> None:
        if self._fd is None:
            return
        # One write per line, so that two programs may share a file.
        if os.write(self._fd, line) < len(line):
            raise OSError("the disk is full")
        self._size += len(line)

    def _give_up(self, reason: str) -> None:
        if not self._is_broken:
            self._is_broken = True
            self._let_go()
            self._note(f"The log {self.path} cannot be written: {reason}. Logging ended.")


def _print_on_stderr(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{text}\n")
