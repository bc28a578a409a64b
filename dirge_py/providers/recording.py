"""Recordings of model requests and responses, as JSON Lines; `replay.py` plays them back.

The first line is `{"dirge_recording": 1, …}`. Each other line is a part of a numbered exchange: the
request, the head of the response, a piece of its body, or its end. Exchanges may alternate.

Secrets are removed, also those that are split over pieces or events. So a piece of a body is held
back until its last line is complete and the last word of each text in it has ended.
"""

import asyncio
import base64
import json
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import ExitStack, aclosing, suppress
from dataclasses import fields
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from dirge_py.config.services import wire_of
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redaction import redacted
from dirge_py.lib.version import __version__
from dirge_py.providers.client import HttpClient, HttpRequest, HttpResponse, TransportError
from dirge_py.providers.settings import ProviderSettings, Quirks, Redact
from dirge_py.providers.stream_parser import parse_json
from dirge_py.types.errors import ConfigError

VERSION = 1
Piece = tuple[float, bytes]
"""Seconds since the start of the recording, and the bytes that arrived then."""
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
            hint = "Choose a folder you can write to."
            raise ConfigError(f"{flag}: the file cannot be created: {why}.", hint=hint) from error
        self._began = time.monotonic()
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.write({"dirge_recording": VERSION, "dirge": __version__, "began": now})
        if self._fd is None:
            self._remove()
            raise ConfigError(f"{flag}: the file cannot be written.", hint="Is the disk full?")
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
                f"The recording {self.path} cannot be written: {error.strerror}. "
                "It ends here; the run continues."
            )

    def _remove(self) -> None:
        self._began = 0.0
        with suppress(OSError):
            self.path.unlink()

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
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

    def of(self, settings: ProviderSettings) -> HttpClient:
        quirks = ((each.name, getattr(settings.quirks, each.name)) for each in fields(Quirks))
        service = {
            "alias": settings.alias,
            "type": settings.type,
            "wire": wire_of(settings.type),
            "base_url": self._redact(settings.base_url),
            "dialect": {name: v for name, v in quirks if v != getattr(Quirks(), name)},
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
        whole = {"whole": True} if request.is_whole else {}
        url = self._redact(_without_key(request.url))
        head = {"service": self._service, "method": request.method, **whole, "url": url}
        exchange.write({**head, "headers": headers, **recorded})
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


TextPath = tuple[str | int, ...]
"""The place of a text in an event: names of members, and indexes of lists."""
_STREAMED_MEMBERS = frozenset(
    {
        *("arguments", "content", "delta", "partial_json", "reasoning", "reasoning_content"),
        *("refusal", "text", "thinking"),
    }
)
"""The members that hold the pieces of a streamed text, in any wire format."""
_CONTEXT_CHARS = 64
"""The text before a secret that may identify it, such as `Bearer`, is at most this long."""
_MAX_WORD_CHARS = 512
_MAX_BLOCK_CHARS = 16_384
_BETWEEN_WORDS = late_pattern(r"""[\s"'`,;(){}\[\]<>\\]""")
_AS_LONG_AS_A_SECRET = late_pattern(r"""[^\s"'`,;(){}\[\]<>\\]{8}""")
_BLOCK, _BLOCK_END = "-----BEGIN ", "-----END "
_EVENTS_BEFORE_OVER = 16
"""A text has ended if this many events in a row don't continue it."""
_MIN_SECRET_BYTES = 8
_MAX_LINE_BYTES = 4 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class _BodyLine:
    """One line of a body, with its line end."""

    raw: bytes
    pieces: list[tuple[int, float | None]]
    """The bytes of each piece in the line, and when the piece ended."""
    event: Any = None
    holds: int = 0
    """The number of its texts that may continue in a later line; 0: it can be written."""

    def replace_text(self, path: TextPath, text: str) -> None:
        """Put `text` at `path` of the event."""
        *way, last = path
        place = self.event
        for step in way:
            place = place[step]
        place[last] = text
        lead, _, _ = self.raw.partition(b"{")
        end = self.raw[len(self.raw.rstrip(b"\r\n")) :]
        self.raw = lead + json.dumps(self.event).encode() + end


class BodyRedactor:
    """Removes secrets from one body: takes its pieces, and returns them in order."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._open = b""
        self._open_pieces: list[tuple[int, float | None]] = []
        self._held: deque[_BodyLine] = deque()
        self._unfinished_piece = b""
        self._texts: dict[TextPath, _GrowingText] = {}
        self._events = 0

    def feed(self, piece: Piece) -> Iterator[Piece]:
        """Add a piece; returns the pieces that can be written now."""
        at, content = piece
        *whole, rest = content.split(b"\n")
        for number, part in enumerate(whole, start=1):
            is_last = not rest and number == len(whole)
            self._open_pieces.append((len(part) + 1, at if is_last else None))
            self._end_line(self._open + part + b"\n")
        if rest:
            self._open += rest
            self._open_pieces.append((len(rest), at))
        if len(self._open) > _MAX_LINE_BYTES:
            self._end_line(self._open)
        yield from self._released()

    def close(self) -> Iterator[Piece]:
        """End the body; returns the pieces that were held back."""
        if self._open:
            self._end_line(self._open)
        for text in self._texts.values():
            text.release(len(text.text), self._redact)
        self._texts.clear()
        yield from self._released()

    def _end_line(self, raw: bytes) -> None:
        line = _without_secrets(raw, self._redact)
        line.pieces, self._open_pieces, self._open = self._open_pieces, [], b""
        self._held.append(line)
        if line.event is None:
            return
        self._events += 1
        for path, growing in list(self._texts.items()):
            if self._events - growing.last_event > _EVENTS_BEFORE_OVER:
                growing.release(len(growing.text), self._redact)
                del self._texts[path]
        for path, text in _streamed_texts(line.event):
            growing = self._texts.setdefault(path, _GrowingText())
            growing.last_event = self._events
            growing.parts.append(_TextPart(line, path, text))
            line.holds += 1
            growing.release(_finished_chars(growing.text), self._redact)

    def _released(self) -> Iterator[Piece]:
        while self._held and not self._held[0].holds:
            line = self._held.popleft()
            rest = line.raw
            for number, (size, at) in enumerate(line.pieces, start=1):
                # A redacted line may have another length; its last piece takes the difference.
                size = len(rest) if number == len(line.pieces) else size
                self._unfinished_piece, rest = self._unfinished_piece + rest[:size], rest[size:]
                if at is not None:
                    yield at, self._unfinished_piece
                    self._unfinished_piece = b""


def _without_secrets(raw: bytes, redact: Redact) -> _BodyLine:
    """The line without secrets, with the event in it, if it holds one."""
    text = raw.decode("utf-8", "surrogateescape")
    at = text.find("{")
    lead = text[: max(at, 0)]
    event = parse_json(text[at:]) if at >= 0 and lead.strip() in ("", "data:") else None
    clean = redact(text) if len(raw) >= _MIN_SECRET_BYTES else text
    if clean != text:
        end = text[len(text.rstrip("\r\n")) :]
        lead, event = redact(lead), redacted(event, redact)
        # JSON stays JSON, whatever a secret looks like.
        clean = clean if event is None else lead + json.dumps(event) + end
    encoded = clean.encode("utf-8", "surrogateescape")
    return _BodyLine(raw=encoded, pieces=[], event=event)


def _streamed_texts(value: Any, path: TextPath = ()) -> Iterator[tuple[TextPath, str]]:
    """The texts in an event that may continue in the next one, with their places."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            if not isinstance(member, str):
                yield from _streamed_texts(member, (*path, name))
            elif name in _STREAMED_MEMBERS and member:
                yield (*path, name), member
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _streamed_texts(item, (*path, index))


@dataclass(slots=True)
class _TextPart:
    line: _BodyLine
    path: TextPath
    text: str


class _GrowingText:
    """The text at one place of an answer, as it grows from event to event."""

    def __init__(self) -> None:
        self.before = ""
        self.parts: list[_TextPart] = []
        self.last_event = 0

    @property
    def text(self) -> str:
        return self.before + "".join(part.text for part in self.parts)

    def release(self, chars: int, redact: Redact) -> None:
        """Redact the first `chars` characters and release the lines that hold them.

        They must end with a whole word: a secret that is still incomplete is not recognized.
        """
        whole, end, released = self.text, len(self.before), 0
        for part in self.parts:
            end += len(part.text)
            if end > chars:
                break
            released += 1
        if _AS_LONG_AS_A_SECRET.search(whole, len(self.before), chars):
            redacted = redact(whole[:chars])
            if redacted != whole[:chars]:
                self._replace(redacted + whole[chars:])
        for part in self.parts[:released]:
            part.line.holds -= 1
            self.before += part.text
        del self.parts[:released]
        if len(self.before) > _CONTEXT_CHARS:
            # Drop the first word, which is cut in half: the rest of it may look like a secret.
            context = self.before[-_CONTEXT_CHARS:]
            word_end = _BETWEEN_WORDS.search(context)
            self.before = context[word_end.end() :] if word_end else context

    def _replace(self, new: str) -> None:
        """Spread the new text over the parts; the first that was changed gets the replacement."""
        old = self.text
        begin = _common_prefix_chars(old, new)
        end = _common_prefix_chars(old[begin:][::-1], new[begin:][::-1])
        stop, replacement = len(old) - end, new[begin : len(new) - end]
        at = len(self.before)
        for part in self.parts:
            first, last = max(begin - at, 0), min(stop - at, len(part.text))
            at += len(part.text)
            if first < last or (replacement and at >= stop):
                part.text = part.text[:first] + replacement + part.text[max(last, first) :]
                part.line.replace_text(part.path, part.text)
                replacement = ""


def _finished_chars(text: str) -> int:
    """The number of characters before the last word or key block, which may continue."""
    block = text.rfind(_BLOCK)
    if block > text.rfind(_BLOCK_END):
        return max(block, len(text) - _MAX_BLOCK_CHARS)
    last_word = _BETWEEN_WORDS.split(text)[-1]
    return len(text) - min(len(last_word), _MAX_WORD_CHARS)


def _common_prefix_chars(first: str, second: str) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
