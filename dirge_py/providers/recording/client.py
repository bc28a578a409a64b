"""The HTTP client that records what passes through it."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import fields
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from dirge_py.providers.client import (
    FetchedResponse,
    HttpClient,
    HttpResponse,
    TransportError,
    never_late,
)
from dirge_py.providers.recording.file import HttpRecording
from dirge_py.providers.recording.redaction import BodyRedactor, Piece
from dirge_py.providers.settings import ProviderSettings, Quirks, Redact

KEY = "[key]"
_PLAIN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "http-referer",
        "openai-beta",
        "user-agent",
        "x-title",
    }
)
"""Of other headers a service may want, nobody can say whether they hold a key."""
_PRIVATE_HEADERS = frozenset(
    {
        "anthropic-organization-id",
        "openai-organization",
        "openai-project",
        "set-cookie",
        "set-cookie2",
    }
)
_PLAIN_QUERY = frozenset({"alt", "api-version", "beta"})
_SMALL_BYTES = 65_536
_WITHOUT_PAUSE_S = 0.004


class RecordingClient(HttpClient):
    """The client of one process, recorded; `of` gives the one that knows whom it speaks to."""

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

    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        connect_s: float = 30.0,
        is_late: Callable[[], bool] = never_late,
    ) -> HttpResponse:
        if not self._recording.is_open:
            return await self._client.post(url, headers=headers, body=body, connect_s=connect_s)
        note = await self._begun("POST", url, headers, body, is_late=is_late)
        try:
            answer = await self._client.post(url, headers=headers, body=body, connect_s=connect_s)
        except BaseException as error:
            note.end(error)
            raise
        note.head(answer.status, answer.headers)
        return _RecordedResponse(answer, note)

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        timeout_s: float,
        max_bytes: int = 32 * 1024 * 1024,
    ) -> FetchedResponse:
        note = await self._begun(method, url, headers, body or b"", is_whole=True)
        try:
            fetched = await self._client.fetch(
                method, url, headers=headers, body=body, timeout_s=timeout_s, max_bytes=max_bytes
            )
        except BaseException as error:
            note.end(error)
            raise
        note.head(fetched.status, fetched.headers)
        note.piece(fetched.body)
        note.end()
        return fetched

    async def warm_up(self) -> None:
        await self._client.warm_up()

    def linger(self, task: asyncio.Task[None]) -> None:
        self._client.linger(task)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _begun(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        is_whole: bool = False,
        is_late: Callable[[], bool] = never_late,
    ) -> "_ExchangeWriter":
        note = _ExchangeWriter(self._recording, self._redact, is_late)
        if len(body) < _SMALL_BYTES:
            recorded = _recorded_body(body, self._redact)
        else:
            # A long history takes as long as a frame of the screen may.
            recorded = await asyncio.to_thread(_recorded_body, body, self._redact)
        shown = {
            name: self._redact(value) if name.lower() in _PLAIN_HEADERS else KEY
            for name, value in headers.items()
        }
        note.write(
            {
                "service": self._service,
                "method": method,
                **({"whole": True} if is_whole else {}),
                "url": self._redact(_without_key(url)),
                "headers": shown,
                **recorded,
            }
        )
        return note


class _ExchangeWriter:
    """Writes down one exchange."""

    def __init__(
        self, recording: HttpRecording, redact: Redact, is_late: Callable[[], bool]
    ) -> None:
        self._recording = recording
        self._redact = redact
        self._is_late = is_late
        self._number = recording.next_exchange()
        self._at = recording.seconds()
        self._body = BodyRedactor(redact)
        self._is_over = False

    def write(self, members: Mapping[str, Any]) -> None:
        self._recording.write(self._number, self._at, members)

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._at = self._recording.seconds()
        shown = {
            name.lower(): self._redact(value)
            for name, value in headers.items()
            if name.lower() not in _PRIVATE_HEADERS
        }
        self.write({"status": status, "headers": shown})

    def piece(self, content: bytes) -> None:
        if self._recording.is_open:
            self._write_pieces(self._body.feed((self._recording.seconds(), content)))

    def end(self, error: BaseException | None = None) -> None:
        """How it ended: as it should, by `error`, or because nobody wanted more of it."""
        if self._is_over or not self._recording.is_open:
            return
        self._is_over = True
        self._write_pieces(self._body.close())
        self._at = self._recording.seconds()
        if error is None:
            self.write({"end": "complete"})
        elif isinstance(error, TransportError):
            self.write({"end": error.kind, "detail": self._redact(error.detail)})
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
            self._recording.write(self._number, at, members)


class _RecordedResponse:
    """An answer whose body is written down as it is read."""

    def __init__(self, answer: HttpResponse, note: _ExchangeWriter) -> None:
        self._answer = answer
        self._note = note
        self.status = answer.status
        self.headers = answer.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._answer.chunks()) as chunks:
                begun = time.monotonic()
                async for chunk in chunks:
                    self._note.piece(chunk)
                    yield chunk
                    if time.monotonic() - begun > _WITHOUT_PAUSE_S:
                        # What was received already is not waited for: let others have a turn.
                        await asyncio.sleep(0)
                        begun = time.monotonic()
        except BaseException as error:
            self._note.end(error)
            raise
        self._note.end()

    async def aclose(self) -> None:
        self._note.end(asyncio.CancelledError())
        await self._answer.aclose()


def _changed_quirks(quirks: Quirks) -> Mapping[str, Any]:
    """What of a dialect is not as usual."""
    usual = Quirks()
    values = {each.name: getattr(quirks, each.name) for each in fields(quirks)}
    return {name: value for name, value in values.items() if value != getattr(usual, name)}


def _recorded_body(body: bytes, redact: Redact) -> Mapping[str, Any]:
    """As JSON where it is some, and still is without its secrets."""
    text = redact(body.decode("utf-8", "replace"))
    try:
        return {"body": json.loads(text)}
    except (ValueError, RecursionError):
        return {"body_text": text}


def _without_key(url: str) -> str:
    """The address; some services take the key in the query."""
    parts = urlsplit(url)
    query = [
        f"{name}={value if name in _PLAIN_QUERY else KEY}"
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return urlunsplit(parts._replace(query="&".join(query), fragment=""))
