"""The file of a recording: what a run asked model services, and what they answered.

JSON Lines. The first is `{"dirge_recording": 1, …}`; then each exchange has a line for its request,
one for the head of the answer, one for each piece of the body and one for its end, all with its
number. Lines of exchanges that go on at the same time alternate.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dirge_py.lib.version import __version__
from dirge_py.types.errors import ConfigError

VERSION = 1
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class HttpRecording:
    """A file for all the exchanges of one process. It is made by `open`, which may come again."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """`path` as it was typed; the file is not touched yet."""
        self.path = Path(path)
        self._fd: int | None = None
        self._began = 0.0
        self._exchanges = 0
        self._notify: Callable[[str], None] = _ignore

    @property
    def is_open(self) -> bool:
        """Whether what happens is written down; no longer after a failure."""
        return self._fd is not None

    def open(self, notify: Callable[[str], None]) -> str:
        """Make the file, for its owner alone; what there is to tell a person, once.

        `notify` hears of it when it cannot be written any more.

        Raises:
            ConfigError: there is a file, or it cannot be made.
        """
        if self._began:
            self._notify = notify
            return ""
        self.path = self.path.absolute()
        try:
            self._fd = os.open(self.path, _FLAGS, 0o600)
        except FileExistsError as error:
            raise ConfigError(
                f"--record {self.path}: there is such a file already.", hint="Name another one."
            ) from error
        except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
            why = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"--record {self.path}: the file cannot be made: {why}.",
                hint="Name one in a folder that you may write to.",
            ) from error
        self._began = time.monotonic()
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write({"dirge_recording": VERSION, "dirge": __version__, "began": now})
        if self._fd is None:
            self._remove()
            raise ConfigError(
                f"--record {self.path}: the file cannot be written.", hint="Is the disk full?"
            )
        self._notify = notify
        return (
            f"What is sent to model services and what they answer is recorded in {self.path}, "
            "without keys: look through it before you give it away."
        )

    def forget(self) -> None:
        """Remove the file if nothing was recorded, so that it can be made once more."""
        if self._fd is not None and not self._exchanges:
            self._close()
            self._remove()

    def next_exchange(self) -> int:
        """The number of the exchange that begins, from 1."""
        self._exchanges += 1
        return self._exchanges

    def seconds(self) -> float:
        """Since the recording began."""
        return round(time.monotonic() - self._began, 6)

    def write(self, exchange: int, at: float, members: Mapping[str, Any]) -> None:
        """Add a line about an exchange. Never raises: the run goes on without a recording."""
        self._write({"exchange": exchange, "at": at, **members})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._fd is None:
            return
        try:
            # ASCII: half a surrogate pair and line separators cannot break a line.
            rest = memoryview(json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n")
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            self._close()
            self._notify(
                f"The recording {self.path} cannot be written: {error.strerror}. "
                "It ends here, the work goes on."
            )

    def _remove(self) -> None:
        self._began = 0.0
        with suppress(OSError):
            self.path.unlink()

    def _close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                os.close(fd)


def _ignore(_text: str) -> None:
    pass
