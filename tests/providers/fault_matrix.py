"""Every fault, tried with every wire format through the loop: what became of it.

`python -m tests.providers.fault_matrix` prints the page docs/faults.md.
"""

import asyncio
import gzip
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dirge_py.abort import AbortSignal
from dirge_py.agent_loop import Context, LoopConfig, compose
from dirge_py.agent_loop.guards.recover import recover
from dirge_py.agent_loop.retry import RecoveryPolicy, retrying_stream_fn
from dirge_py.messages import AssistantMessage, Message
from dirge_py.outcomes import Done, Failed
from dirge_py.providers.base import ProviderSettings, Timeouts
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import provider
from dirge_py.streams import LlmContext, StreamEvent, StreamFn, StreamOptions
from dirge_py.testing import assert_balanced
from tests.agent_loop.kit import Ran, Tool, ran
from tests.providers.asking import KINDS
from tests.providers.server import Answering, FakeService, Hang, Raw, Say
from tests.providers.strict import problems
from tests.providers.wires import wire_of
from tests.providers.wires.say import Break

JSON = {"content-type": "application/json"}
PAST = "Wed, 21 Oct 2015 07:28:00 GMT"
CALL = ("echo", {"text": "aaaaaaaaaaaa~bbbbbbbbbbbb"})
TEXT = "AAAA BBBB CCCC DDDD"

_SILENCE_S = 0.8
_AT_ONCE = 8

Make = Callable[[str], Answering]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that goes wrong. `expects` is the kind of error when it goes on for ever.

    `rest` is what the model says when it is asked again; with what came before the fault, `TEXT`
    must stand in history once. `tries`: how often a service is asked that never recovers.
    """

    name: str
    make: Make
    expects: str
    tries: int = 6
    wait_s: float | None = None
    rest: str = TEXT
    keeps: str = ""


@dataclass(kw_only=True)
class Outcome:
    """What became of a fault that stays, and of one that passes."""

    kind: str = ""
    tries: int = 0
    waits: list[float] = field(default_factory=list)
    kept: str = ""
    goes_on: bool = False
    complaints: list[str] = field(default_factory=list)

    @property
    def told(self) -> str:
        tries = "1 try" if self.tries == 1 else f"{self.tries} tries"
        kept = f", {self.kept!r} kept" if self.kept else ""
        return f"`{self.kind}`, {tries}{kept}"


def status(number: int, words: str = "", **headers: str) -> Make:
    """A refusal in the shape that the format has for one."""

    def make(kind: str) -> Raw:
        said = words or "something is wrong"
        body: Any = {"error": {"message": said, "type": "some_error", "code": None}}
        if kind == "anthropic":
            body = {"type": "error", "error": {"type": "some_error", "message": said}}
        elif kind == "gemini":
            body = {"error": {"code": number, "message": said, "status": "SOME_STATUS"}}
        elif kind == "ollama":
            body = {"error": said}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return Raw(status=number, body=json.dumps(body), headers={**JSON, **given})

    return make


def cut(say: Say, mark: str, then: Break | None) -> Callable[[str], Raw]:
    """The answer `say`, broken behind the first event that holds `mark`."""

    def make(kind: str) -> Raw:
        events = wire_of(kind).events(say)
        last = next(at for at, event in enumerate(events) if mark in event)
        pieces = [event.encode() for event in events[: last + 1]]
        return Raw(pieces=pieces, then=then)

    return make


def raw_of(reply: Answering) -> Make:
    return lambda kind: reply


def raw(body: bytes) -> Make:
    return raw_of(Raw(body=body))


def page_with(number: int) -> Make:
    page = "<!doctype html><html><body>Log in</body></html>"
    return lambda kind: Raw(status=number, body=page, headers={"content-type": "text/html"})


def told_in_the_middle(words: str, code: str) -> Make:
    """The answer, and behind half of its text an error in the shape that the format has for one."""

    def make(kind: str) -> Raw:
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
        return Raw(pieces=[*whole.pieces, piece.encode()])

    return make


def bomb(kind: str) -> Raw:
    """Forty megabytes of blanks in a few kilobytes: more than one event may hold."""
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    return Raw(body=_BOMB, headers=headers)


_BLANKS = b"data: " + b" " * 40_000_000
_BOMB = gzip.compress(_BLANKS, compresslevel=1)
_NOISE = bytes(range(128, 256)) * 40 + b"\n"
_TALK = Say(text=TEXT, delta_chars=5)
_CALLING = Say(text=TEXT, delta_chars=5, calls=[CALL])
_BREAKS: Sequence[tuple[Break, str]] = (
    ("reset", "is reset"),
    ("close", "is closed"),
    ("stall", "falls silent"),
)

FAULTS: Sequence[Fault] = (
    Fault(name="429 without a wait", make=status(429), expects="rate_limit"),
    Fault(
        name="429, Retry-After: 7",
        make=status(429, retry_after="7"),
        expects="rate_limit",
        wait_s=7,
    ),
    Fault(
        name="429, Retry-After: a date", make=status(429, retry_after=PAST), expects="rate_limit"
    ),
    Fault(
        name="429, Retry-After: 3600",
        make=status(429, retry_after="3600"),
        expects="usage_cap",
        tries=1,
    ),
    Fault(
        name="429, a daily limit",
        make=status(429, "You have reached your daily limit"),
        expects="usage_cap",
        tries=1,
    ),
    Fault(name="400", make=status(400), expects="invalid_request", tries=1),
    Fault(
        name="400, the prompt is too long",
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
    Fault(name="502, a web page", make=page_with(502), expects="server"),
    Fault(name="503", make=status(503), expects="server"),
    Fault(name="529", make=status(529), expects="rate_limit"),
    Fault(
        name="200, a web page",
        make=page_with(200),
        expects="proxy_page",
    ),
    Fault(name="200, nothing", make=raw(b""), expects="network"),
    Fault(name="200, random bytes", make=raw(_NOISE), expects="network"),
    Fault(name="200, half of a JSON object", make=raw(b'{"half": '), expects="network"),
    Fault(name="200, a compressed bomb", make=bomb, expects="network"),
    Fault(
        name="an error in the middle: overloaded",
        make=told_in_the_middle("The model is overloaded. Try again later.", "overloaded_error"),
        expects="rate_limit",
        tries=4,
        rest="CCCC DDDD",
        keeps="AAAA BBBB ",
    ),
    Fault(
        name="an error in the middle: the key was revoked",
        make=told_in_the_middle("invalid api key", "authentication_error"),
        expects="auth",
        tries=1,
        keeps="AAAA BBBB ",
    ),
    *(
        Fault(
            name=f"the connection {words} before the answer",
            make=raw_of(Hang(then=how)),
            expects="network",
        )
        for how, words in _BREAKS
    ),
    *(
        Fault(name=f"… {words} behind the head", make=raw_of(Raw(then=how)), expects="network")
        for how, words in _BREAKS
    ),
    *(
        Fault(
            name=f"… {words} in the text",
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
            name=f"… {words} in a tool call",
            make=cut(_CALLING, "~", how),
            expects="network",
            tries=4,
            rest="",
            keeps=TEXT,
        )
        for how, words in _BREAKS
    ),
)


async def all_tried(kind: str) -> list[Outcome]:
    """What became of each of `FAULTS`, in their order; some at a time."""
    http, turns = HttpClient(), asyncio.Semaphore(_AT_ONCE)

    async def one(fault: Fault) -> Outcome:
        async with turns:
            return await tried(kind, fault, http)

    try:
        return await asyncio.gather(*map(one, FAULTS))
    finally:
        await http.aclose()


async def tried(kind: str, fault: Fault, http: HttpClient) -> Outcome:
    """The fault for ever, then another prompt; and once, then a good answer."""
    outcome = Outcome()
    with FakeService() as service:
        await _stays(kind, fault, http, service, outcome)
    with FakeService() as service:
        await _passes(kind, fault, http, service, outcome)
    return outcome


async def _stays(
    kind: str, fault: Fault, http: HttpClient, service: FakeService, outcome: Outcome
) -> None:
    service.replies = [fault.make(kind)] * 20
    run, asked = await _ran(kind, http, service, Context(system_prompt="s"))
    outcome.tries, outcome.waits = asked.times, asked.waits
    if isinstance(run.outcome, Failed):
        outcome.kind = run.outcome.kind
    last = run.new[-1]
    outcome.kept = last.text if isinstance(last, AssistantMessage) else ""
    service.replies[len(service.requests) :] = [Say(text="Fine.")]
    context = Context(system_prompt="s", messages=run.new)
    again, _ = await _ran(kind, http, service, context)
    outcome.complaints += _complaints(kind, service, [*run.new, *again.new])
    if not isinstance(again.outcome, Done):
        outcome.complaints.append(f"the next prompt ended {again.outcome}")


async def _passes(
    kind: str, fault: Fault, http: HttpClient, service: FakeService, outcome: Outcome
) -> None:
    service.replies = [
        fault.make(kind),
        Say(text=fault.rest, calls=[CALL]),
        Say(text="Fine."),
    ]
    tool = Tool()
    run, _ = await _ran(kind, http, service, Context(system_prompt="s", tools=[tool]))
    outcome.goes_on = isinstance(run.outcome, Done)
    outcome.complaints += _complaints(kind, service, run.new)
    said = "".join(m.text for m in run.new if isinstance(m, AssistantMessage))
    if outcome.goes_on and said != f"{TEXT}Fine.":
        outcome.complaints.append(f"the text is {said!r}")
    if len(tool.ran) != outcome.goes_on:
        outcome.complaints.append(f"the call ran {len(tool.ran)} times")


async def _ran(
    kind: str, http: HttpClient, service: FakeService, context: Context
) -> "tuple[Ran, Asked]":
    settings = ProviderSettings(
        alias="work",
        type=kind,
        base_url=service.url(kind),
        api_key="k",
        timeouts=Timeouts(establish_s=_SILENCE_S, chunk_s=_SILENCE_S, tool_call_gap_s=_SILENCE_S),
    )
    asked = Asked(provider(kind).make(settings, http))
    stream_fn = retrying_stream_fn(
        asked.stream, RecoveryPolicy(), sleep=asked.sleep, random=lambda: 0.0
    )
    config = compose(recover(3), config=LoopConfig(model="work/m"))
    return await ran(stream_fn, "go", context=context, config=config), asked


class Asked:
    """Counts how often a stream function is called; nobody waits between two tries."""

    def __init__(self, inner: StreamFn) -> None:
        self._inner = inner
        self.times = 0
        self.waits: list[float] = []

    def stream(
        self, context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        self.times += 1
        return self._inner(context, options, signal)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def _complaints(kind: str, service: FakeService, messages: Sequence[Message]) -> list[str]:
    found = [
        f"request {number}: {problem}"
        for number, request in enumerate(service.requests)
        for problem in problems(kind, request.json)
    ]
    try:
        assert_balanced(messages)
    except AssertionError as error:
        found.append(str(error))
    broken = [m for m in messages if isinstance(m, AssistantMessage) and m.error_message]
    found += [f"{m.text!r} is not marked" for m in broken if m.stop_reason != "error"]
    return found


async def page() -> str:
    """docs/faults.md."""
    columns = [await all_tried(kind) for kind in KINDS]
    rows = zip(FAULTS, zip(*columns, strict=True), strict=True)
    lines = [_HEAD, "| fault | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    for fault, outcomes in rows:
        cells = " | ".join(outcome.told for outcome in outcomes)
        lines.append(f"| {fault.name} | {cells} |")
    return "\n".join([*lines, "", _FOOT])


_HEAD = """\
# What happens when a service fails

Made by `python -m tests.providers.fault_matrix`: each fault is played by a service on loopback, in
each wire format, through the loop with its retries and recoveries. A cell is what it comes to where
the service never gets well: the kind of the error, how often it was asked, and the text that stays
in history, marked as broken off. A test keeps this page as it is measured.
"""

_FOOT = """\
The first wait is 1 s and doubles, or as long as the service asks for. In every cell, too: where the
fault passes, the answer is whole, with no word twice, and its tool call runs once; nothing that was
asked for in a broken answer ever runs; and each later request, also the one of the next prompt, is
one that a strict service of that format accepts."""


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(page()) + "\n")
