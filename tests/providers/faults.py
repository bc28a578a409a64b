"""The faults of a model service that the tests simulate."""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dirge_py.testing.wire_formats import BreakKind, wire_events
from tests.support.fake_service import ModelReply, NoReply, RawReply, ServiceReply

JSON = {"content-type": "application/json"}
PAST = "Wed, 21 Oct 2015 07:28:00 GMT"
CALL = ("echo", {"text": "aaaaaaaaaaaa~bbbbbbbbbbbb"})
TEXT = "AAAA BBBB CCCC DDDD"

_SILENCE_S = 0.8
PATIENCE_S = 20.0
"""The timeout for faults without a stall; long, because the machine may be busy."""

Make = Callable[[str], ServiceReply]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One failure of a service, and the expected outcome."""

    name: str
    make: Make
    expects: str
    """The kind of the error if the fault is permanent."""
    tries: int = 6
    """The number of attempts if the fault is permanent."""
    wait_s: float | None = None
    """The shortest wait between two attempts, if the service asks for one."""
    rest: str = TEXT
    """The model's text on the retry. Together with the text before the fault it is `TEXT`."""
    keeps: str = ""
    """The text that history keeps if the fault is permanent."""

    @property
    def silence_s(self) -> float:
        """The seconds after which the client gives up."""
        return _SILENCE_S if "stalls" in self.name else PATIENCE_S


def status(number: int, words: str = "", **headers: str) -> Make:
    """An HTTP error in the form of the wire format."""

    def make(kind: str) -> RawReply:
        said = words or "something is wrong"
        body: Any = {"error": {"message": said, "type": "some_error", "code": None}}
        if kind == "anthropic":
            body = {"type": "error", "error": {"type": "some_error", "message": said}}
        elif kind == "gemini":
            body = {"error": {"code": number, "message": said, "status": "SOME_STATUS"}}
        elif kind == "ollama":
            body = {"error": said}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return RawReply(status=number, body=json.dumps(body), headers={**JSON, **given})

    return make


def cut(say: ModelReply, mark: str, then: BreakKind | None) -> Callable[[str], RawReply]:
    """The answer `say`, cut after the first event that contains `mark`."""

    def make(kind: str) -> RawReply:
        events = wire_events(kind, say)
        last = next(at for at, event in enumerate(events) if mark in event)
        pieces = [event.encode() for event in events[: last + 1]]
        return RawReply(pieces=pieces, then=then)

    return make


def raw_of(reply: ServiceReply) -> Make:
    return lambda kind: reply


def raw(body: bytes) -> Make:
    return raw_of(RawReply(body=body))


def page_with(number: int) -> Make:
    page = "<!doctype html><html><body>Log in</body></html>"
    return lambda kind: RawReply(status=number, body=page, headers={"content-type": "text/html"})


def error_mid_stream(words: str, code: str) -> Make:
    """The answer with an error event after half of its text, in the form of the wire format."""

    def make(kind: str) -> RawReply:
        error: Any = {"error": {"message": words, "type": code, "code": code}}
        if kind == "anthropic":
            error = {"type": "error", "error": {"type": code, "message": words}}
        elif kind == "openai-responses":
            error = {"type": "error", "code": code, "message": words, "param": None}
        elif kind == "gemini":
            number, name = (401, "UNAUTHENTICATED") if "auth" in code else (503, "UNAVAILABLE")
            error = {"error": {"code": number, "message": words, "status": name}}
        elif kind == "ollama":
            error = {"error": words}
        text = json.dumps(error)
        piece = f"{text}\n" if kind == "ollama" else f"data: {text}\n\n"
        whole = cut(_TALK, "BBBB", None)(kind)
        return RawReply(pieces=[*whole.pieces, piece.encode()])

    return make


def bomb(kind: str) -> RawReply:
    """34 MB of blanks in a few compressed kilobytes: more than one event may contain."""
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    return RawReply(body=_BOMB, headers=headers)


_BLANKS = b"data: " + b" " * 34_000_000
_BOMB = gzip.compress(_BLANKS, compresslevel=1)
_NOISE = bytes(range(128, 256)) * 40 + b"\n"
_TALK = ModelReply(text=TEXT, delta_chars=5)
_CALLING = ModelReply(text=TEXT, delta_chars=5, calls=[CALL])
_BREAKS: Sequence[tuple[BreakKind, str]] = (
    ("reset", "connection reset"),
    ("close", "connection closed"),
    ("stall", "connection stalls"),
)

FAULTS: Sequence[Fault] = (
    Fault(name="429 without Retry-After", make=status(429), expects="rate_limit"),
    Fault(
        name="429, Retry-After: 7",
        make=status(429, retry_after="7"),
        expects="rate_limit",
        wait_s=7,
    ),
    Fault(
        name="429, Retry-After: date in the past",
        make=status(429, retry_after=PAST),
        expects="rate_limit",
    ),
    Fault(
        name="429, Retry-After: 3600",
        make=status(429, retry_after="3600"),
        expects="usage_cap",
        tries=1,
    ),
    Fault(
        name="429, daily limit reached",
        make=status(429, "You have reached your daily limit"),
        expects="usage_cap",
        tries=1,
    ),
    Fault(name="400", make=status(400), expects="invalid_request", tries=1),
    Fault(
        name="400, prompt too long",
        make=status(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        expects="context_length",
        tries=1,
    ),
    Fault(name="401", make=status(401), expects="auth", tries=1),
    Fault(name="402", make=status(402), expects="auth", tries=1),
    Fault(name="403", make=status(403), expects="auth", tries=1),
    Fault(name="404", make=status(404), expects="invalid_request", tries=1),
    Fault(name="408", make=status(408), expects="network"),
    Fault(name="413", make=status(413), expects="context_length", tries=1),
    Fault(name="500", make=status(500), expects="server"),
    Fault(name="502 with an HTML page", make=page_with(502), expects="server"),
    Fault(name="503", make=status(503), expects="server"),
    Fault(name="529", make=status(529), expects="rate_limit"),
    Fault(
        name="200 with an HTML page",
        make=page_with(200),
        expects="proxy_page",
    ),
    Fault(name="200 with an empty body", make=raw(b""), expects="network"),
    Fault(name="200 with random bytes", make=raw(_NOISE), expects="network"),
    Fault(name="200 with an incomplete JSON object", make=raw(b'{"half": '), expects="network"),
    Fault(name="200 with a compression bomb", make=bomb, expects="network"),
    Fault(
        name="error event mid-stream: overloaded",
        make=error_mid_stream("The model is overloaded. Try again later.", "overloaded_error"),
        expects="rate_limit",
        tries=4,
        rest="CCCC DDDD",
        keeps="AAAA BBBB ",
    ),
    Fault(
        name="error event mid-stream: invalid API key",
        make=error_mid_stream("invalid api key", "authentication_error"),
        expects="auth",
        tries=1,
        keeps="AAAA BBBB ",
    ),
    *(
        Fault(
            name=f"{words} before the response",
            make=raw_of(NoReply(then=how)),
            expects="network",
        )
        for how, words in _BREAKS
    ),
    *(
        Fault(name=f"{words} after the headers", make=raw_of(RawReply(then=how)), expects="network")
        for how, words in _BREAKS
    ),
    *(
        Fault(
            name=f"{words} in the text",
            make=cut(_TALK, "BBBB", how),
            expects="network",
            tries=4,
            rest="CCCC DDDD",
            keeps="AAAA BBBB ",
        )
        for how, words in _BREAKS
    ),
    *(
        Fault(
            name=f"{words} in a tool call",
            make=cut(_CALLING, "~", how),
            expects="network",
            tries=4,
            rest="",
            keeps=TEXT,
        )
        for how, words in _BREAKS
    ),
)
