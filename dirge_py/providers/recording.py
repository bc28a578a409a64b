"""Recordings of model requests and responses, as JSON Lines; `replay.py` plays them back.

The first line is `{"dirge_recording": 1, …}`. Each other line is a part of a numbered exchange: the
request, the head of the response, a piece of its body, or its end. Exchanges may alternate.
"""

import asyncio
import base64
import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import ExitStack, aclosing, suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from dirge_py.lib.version import __version__
from dirge_py.providers.client import HttpClient, HttpRequest, HttpResponse, TransportError
from dirge_py.providers.recording_redaction import BodyRedactor, Piece
from dirge_py.providers.settings import ProviderSettings, Quirks, Redact
from dirge_py.types.errors import ConfigError

VERSION = 1
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
KEY = "[key]"
_PLAIN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "anthropic-beta", "anthropic-version", "content-type"),
        *("http-referer", "openai-beta", "user-agent", "x-title"),
    }
)
"""Request headers that are recorded; all others may hold a key."""
_PRIVATE_HEADERS = frozenset(
    {
        *("anthropic-organization-id", "openai-organization", "openai-project"),
        *("set-cookie", "set-cookie2"),
    }
)
"""Response headers that are not recorded."""
_PLAIN_QUERY = frozenset({"alt", "api-version", "beta"})
_SMALL_BYTES = 65_536
_YIELD_EVERY_S = 0.004


class HttpRecording:
    """The file with all exchanges of one process. `open` creates it, and may be called again."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """`path` is written as the user typed it."""
        self.path = Path(path)
        self._fd: int | None = None
        self._began = 0.0
        self._exchanges = 0
        self._notify: Callable[[str], None] = lambda _: None

    @property
    def is_open(self) -> bool:
        """Whether exchanges are recorded; a write that fails ends the recording."""
        return self._fd is not None

    def open(self, notify: Callable[[str], None]) -> str:
        """Create the file, for its owner alone; returns a notice for the user, once.

        `notify` gets a message when a write fails. Raises ConfigError if it can't be created.
        """
        if self._began:
            self._notify = notify
            return ""
        self.path = self.path.absolute()
        flag = f"--record {self.path}"
        try:
            self._fd = os.open(self.path, _FLAGS, 0o600)
        except FileExistsError as error:
            hint = "Choose another name."
            raise ConfigError(f"{flag}: this file exists already.", hint=hint) from error
        except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
            why = getattr(error, "strerror", None) or error
            hint = "Choose a folder that you may write to."
            raise ConfigError(f"{flag}: the file can't be created: {why}.", hint=hint) from error
        self._began = time.monotonic()
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.write({"dirge_recording": VERSION, "dirge": __version__, "began": now})
        if self._fd is None:
            self._remove()
            raise ConfigError(f"{flag}: the file can't be written.", hint="Is the disk full?")
        self._notify = notify
        return (
            f"All requests to model services and their responses are recorded in {self.path}, "
            "without keys. Check the file before you share it."
        )

    def forget(self) -> None:
        """Remove the file if nothing was recorded, so that it can be created again."""
        if self._fd is not None and not self._exchanges:
            self._close()
            self._remove()

    def next_exchange(self) -> int:
        """The number of the next exchange, from 1."""
        self._exchanges += 1
        return self._exchanges

    def seconds(self) -> float:
        """Seconds since the recording began."""
        return round(time.monotonic() - self._began, 6)

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line. Never raises: the run continues without a recording."""
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
                f"The recording {self.path} can't be written: {error.strerror}. "
                "It ends here; the run continues."
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


def begin_recording(
    recording: HttpRecording | None, notify: Callable[[str], None], undo: ExitStack
) -> tuple[str, ...]:
    """Create the file, which `undo` removes while empty; returns notices. Raises ConfigError."""
    if recording is None:
        return ()
    notice = recording.open(notify)
    undo.callback(recording.forget)
    return (notice,) if notice else ()


def recording_client(
    client: HttpClient, recording: HttpRecording | None, redact: Redact
) -> HttpClient:
    """`client`, which records if there is a recording."""
    return client if recording is None else RecordingClient(client, recording, redact)


class RecordingClient(HttpClient):
    """An `HttpClient` that records; `of` returns the one for a service."""

    def __init__(
        self,
        client: HttpClient,
        recording: HttpRecording,
        redact: Redact,
        service: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._recording = recording
        self._redact = redact
        self._service = service or {}

    def of(self, settings: ProviderSettings, wire: str) -> HttpClient:
        service = {
            "alias": settings.alias,
            "type": settings.type,
            "wire": wire,
            "base_url": self._redact(settings.base_url),
            "dialect": _changed_quirks(settings.quirks),
        }
        return RecordingClient(self._client, self._recording, self._redact, service)

    async def send(
        self, request: HttpRequest, *, connect_s: float | None, is_late: Callable[[], bool]
    ) -> HttpResponse:
        if not self._recording.is_open:
            return await self._client.send(request, connect_s=connect_s, is_late=is_late)
        exchange = _RecordedResponse(self._recording, self._redact, is_late)
        body = request.body or b""
        if len(body) < _SMALL_BYTES:
            recorded = _recorded_body(body, self._redact)
        else:
            # Redacting a long history would block the event loop.
            recorded = await asyncio.to_thread(_recorded_body, body, self._redact)
        headers = {
            name: self._redact(value) if name.lower() in _PLAIN_HEADERS else KEY
            for name, value in request.headers.items()
        }
        exchange.write(
            {
                "service": self._service,
                "method": request.method,
                **({"whole": True} if request.is_whole else {}),
                "url": self._redact(_without_key(request.url)),
                "headers": headers,
                **recorded,
            }
        )
        try:
            answer = await self._client.send(request, connect_s=connect_s, is_late=is_late)
        except BaseException as error:
            exchange.end(error)
            raise
        exchange.begin(answer)
        return exchange

    async def warm_up(self) -> None:
        await self._client.warm_up()

    def linger(self, task: asyncio.Task[None]) -> None:
        self._client.linger(task)

    async def aclose(self) -> None:
        await self._client.aclose()


class _RecordedResponse:
    """Writes one exchange: the request, then the response as it is read."""

    status: int
    headers: Mapping[str, str]

    def __init__(
        self, recording: HttpRecording, redact: Redact, is_late: Callable[[], bool]
    ) -> None:
        self._recording = recording
        self._redact = redact
        self._is_late = is_late
        self._number = recording.next_exchange()
        self._body = BodyRedactor(redact)
        self._answer: HttpResponse | None = None
        self._is_over = False

    def write(self, members: Mapping[str, Any], at: float | None = None) -> None:
        at = self._recording.seconds() if at is None else at
        self._recording.write({"exchange": self._number, "at": at, **members})

    def begin(self, answer: HttpResponse) -> None:
        """Write the head of the response."""
        self._answer, self.status, self.headers = answer, answer.status, answer.headers
        headers = ((name.lower(), value) for name, value in answer.headers.items())
        shown = {name: self._redact(v) for name, v in headers if name not in _PRIVATE_HEADERS}
        self.write({"status": answer.status, "headers": shown})

    def end(self, error: BaseException | None = None) -> None:
        """Write how the exchange ended: complete, with `error`, or closed by dirge."""
        if self._is_over or not self._recording.is_open:
            return
        self._is_over = True
        self._write_pieces(self._body.close())
        if error is None:
            self.write({"end": "complete"})
        elif isinstance(error, TransportError):
            self.write({"end": error.kind, "detail": self._redact(str(error))})
        elif isinstance(error, TimeoutError) or self._is_late():
            self.write({"end": "timed out"})
        else:
            self.write({"end": "closed"})

    def _write_pieces(self, pieces: Iterator[Piece]) -> None:
        for at, content in pieces:
            try:
                members = {"text": content.decode()}
            except UnicodeDecodeError:
                members = {"base64": base64.b64encode(content).decode()}
            self.write(members, at)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        assert self._answer is not None
        try:
            async with aclosing(self._answer.chunks()) as chunks:
                begun = time.monotonic()
                async for chunk in chunks:
                    if self._recording.is_open:
                        self._write_pieces(self._body.feed((self._recording.seconds(), chunk)))
                    yield chunk
                    if time.monotonic() - begun > _YIELD_EVERY_S:
                        # Chunks that have arrived already don't yield to the event loop.
                        await asyncio.sleep(0)
                        begun = time.monotonic()
        except BaseException as error:
            self.end(error)
            raise
        self.end()

    async def aclose(self) -> None:
        self.end(asyncio.CancelledError())
        if self._answer is not None:
            await self._answer.aclose()


def _changed_quirks(quirks: Quirks) -> Mapping[str, Any]:
    """The quirks that differ from the defaults."""
    values = ((field.name, getattr(quirks, field.name)) for field in fields(quirks))
    return {name: value for name, value in values if value != getattr(Quirks(), name)}


def _recorded_body(body: bytes, redact: Redact) -> Mapping[str, Any]:
    """The body without secrets: as JSON if it parses, else as text."""
    text = redact(body.decode("utf-8", "replace"))
    try:
        return {"body": json.loads(text)}
    except (ValueError, RecursionError):
        return {"body_text": text}


def _without_key(url: str) -> str:
    """The address with the values in its query hidden, except those that can't be keys."""
    parts = urlsplit(url)
    query = [
        f"{name}={value if name in _PLAIN_QUERY else KEY}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(query="&".join(query), fragment=""))
