"""The file of a recording: what a run asked model services, and what they answered.

JSON Lines. The first is `{"dirge_recording": 1, …}`; then each exchange has a line for its request,
one for the head of the answer, one for each piece of the body and one for its end, all with its
number. Lines of exchanges that go on at the same time alternate.

Reads a recording back: exchanges, in the order in which they began.
"""

import base64
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from dirge_py.lib.late import late
from dirge_py.lib.version import __version__
from dirge_py.providers.http_types import TransportErrorKind
from dirge_py.types.errors import ConfigError

if TYPE_CHECKING:
    from dirge_py.providers.client import HttpClient
    from dirge_py.providers.recording.client import RecordingClient
    from dirge_py.providers.settings import Redact
else:
    RecordingClient = late("dirge_py.providers.recording.client", "RecordingClient")

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


def recording_client(
    client: "HttpClient", recording: HttpRecording | None, redact: "Redact"
) -> "HttpClient":
    """`client`, recorded if there is a recording to do."""
    return client if recording is None else RecordingClient(client, recording, redact)


def begin_recording(
    recording: HttpRecording | None, notify: Callable[[str], None], undo: ExitStack
) -> tuple[str, ...]:
    """Make the file, which `undo` removes while it is empty; returns what a person must know.

    Raises:
        ConfigError: the file is there already, or cannot be made.
    """
    if recording is None:
        return ()
    told = recording.open(notify)
    undo.callback(recording.forget)
    return (told,) if told else ()


def _ignore(_text: str) -> None:
    pass


COMPLETE, CLOSED, TIMED_OUT, CUT = "complete", "closed", "timed out", "cut"
"""How an exchange ended, besides the troubles of a connection. Cut: the recording ends before."""
_ENDS = frozenset({COMPLETE, CLOSED, TIMED_OUT, *get_args(TransportErrorKind)})


@dataclass(slots=True, kw_only=True, eq=False)
class RecordedExchange:
    """One request and what came of it. `status` None: no head of an answer came.

    `service` names its `alias`, `type`, `wire` and `base_url`, and its `dialect`. `is_whole`: it
    was no stream.
    """

    method: str
    url: str
    service: Mapping[str, Any]
    is_whole: bool = False
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    end: str = CUT
    detail: str = "the recording ends before the answer does"


def read_recording(path: str) -> Sequence[RecordedExchange]:
    """Every exchange of the file.

    A last line that is no whole one is passed over: whoever wrote it was killed.

    Raises:
        ConfigError: it cannot be read, is no recording, or is one of a newer dirge.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"recording {path} cannot be read: {why}.") from error
    exchanges: dict[int, RecordedExchange] = {}
    for number, line in _lines(path, content):
        try:
            _add_line(exchanges, line)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _refuse(path, number, f"it is no line of a recording ({error!r})")
    return list(exchanges.values())


def _lines(path: str, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line behind the first with its number, from 1."""
    *lines, _torn = content.split(b"\n")
    has_begun = False
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            _refuse(path, number, "it is no JSON")
        if has_begun and isinstance(line, dict):
            yield number, line
        elif has_begun or not isinstance(line, dict) or "dirge_recording" not in line:
            _refuse(path, number, "it is no line of a recording")
        elif line["dirge_recording"] != VERSION:
            _refuse(path, number, f"it has the version {line['dirge_recording']!r}, not {VERSION}")
        has_begun = True
    if not has_begun:
        _refuse(path, 1, "it is no recording")


def _add_line(exchanges: dict[int, RecordedExchange], line: Mapping[str, Any]) -> None:
    number = line["exchange"]
    if "method" in line:
        exchanges[number] = RecordedExchange(
            method=str(line["method"]),
            url=str(line["url"]),
            service=dict(line["service"]),
            is_whole=bool(line.get("whole")),
        )
        return
    exchange = exchanges[number]
    if "status" in line:
        exchange.status = int(line["status"])
        headers = dict(line["headers"])
        exchange.headers = {str(name).lower(): str(value) for name, value in headers.items()}
    elif "text" in line:
        exchange.pieces.append(line["text"].encode())
    elif "base64" in line:
        exchange.pieces.append(base64.b64decode(line["base64"], validate=True))
    elif line["end"] in _ENDS:
        exchange.end = line["end"]
        exchange.detail = str(line.get("detail", ""))
    else:
        raise ValueError(line["end"])


def _refuse(path: str, line: int, why: str) -> NoReturn:
    raise ConfigError(
        f"recording {path}, line {line}: {why}.",
        hint="`dirge --record FILE` writes recordings; a newer dirge may write others.",
    )
