"""Messages from another terminal: one file each, taken in the order they were sent, each once.

They wait in a folder of the session, so they may be sent before anybody waits, or runs at all.
"""

import contextlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import UsageError

MOST_BYTES = 64 * 1024

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FILE = re.compile(r"(\d{20})-([0-9a-f]{8})-([A-Za-z0-9_-]{1,64})\.json")
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """`id` sorts by the time of sending. `payload` is what JSON can hold."""

    id: str
    name: str
    payload: Any


class SignalBox:
    """The folder `<session>/signals`. It is made by the first signal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def send(self, name: str, payload: Any) -> Signal:
        """Leave a signal. It is there whole or not at all.

        Raises:
            UsageError: the name cannot be one, or the payload is too long.
            OSError: it cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} cannot be the name of a signal.",
                hint="Use 1 to 64 letters, digits, hyphens or underscores.",
            )
        content = json.dumps(payload).encode()
        if len(content) > MOST_BYTES:
            raise UsageError(
                f"The payload of a signal may have {MOST_BYTES} bytes; this has {len(content)}."
            )
        signal_id = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        for folder in (self._folder.parent, self._folder):
            # Each by itself: what `parents` makes is open to others.
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{signal_id}-{name}.json"
        draft = path.with_suffix(".new")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(fd)
            os.rename(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        return Signal(id=signal_id, name=name, payload=payload)

    def waiting(self, name: str | None = None) -> Iterator[Signal]:
        """Those that nobody took yet, oldest first. What is no signal is passed over."""
        try:
            entries = sorted(os.listdir(self._folder))
        except OSError:
            return
        for entry in entries:
            match = _FILE.fullmatch(entry)
            if match and name in (None, match.group(3)):
                signal = self._read(entry, f"{match.group(1)}-{match.group(2)}", match.group(3))
                if signal is not None:
                    yield signal

    def remove(self, signal: Signal) -> None:
        """Take it away, once it is recorded."""
        with contextlib.suppress(OSError):
            (self._folder / f"{signal.id}-{signal.name}.json").unlink()

    def _read(self, entry: str, signal_id: str, name: str) -> Signal | None:
        try:
            fd = os.open(self._folder / entry, _READ_FLAGS)
        except OSError:
            return None
        with open(fd, "rb") as stream:
            status = os.fstat(fd)
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if not is_ours or status.st_size > MOST_BYTES:
                return None
            try:
                return Signal(id=signal_id, name=name, payload=json.loads(stream.read()))
            except (ValueError, RecursionError):
                return None
