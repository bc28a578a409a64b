"""Hostile answers: too long, endless, repeated, or of the wrong type.

Broken connections and garbage are in `fault_matrix` and `test_faults`, cuts and line ends in
`test_stream_ends`.
"""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.agent_loop import Context, LoopConfig
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.testing import assert_balanced
from dirge_py.testing.wire_formats import wire_events
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import StreamDone, StreamError, ThinkingDelta, ToolCallDelta
from dirge_py.types.messages import AssistantMessage
from dirge_py.types.outcomes import Done
from tests.security.sizes import IS_WHOLE, size
from tests.support.fake_service import FakeService, ModelReply, RawReply, cut
from tests.support.loop_runs import Tool, run_loop
from tests.support.provider_client import (
    JSON_LINES,
    KINDS,
    done_of,
    short,
    text_of,
    thinking_of,
)
from tests.support.strict_services import problems

PIECES = size(3_000, 100_000)
LINE_CHARS = size(500_000, 5_000_000)
CALLS = [("echo", {"text": "a"}), ("echo", {"text": "b"})]


# -- long streams


@pytest.mark.parametrize("what", ["text", "thinking", "calls"])
async def test_long_stream_cut_at_random_is_decoded_exactly(either, what):
    client = either()
    words = "".join(f"{n} {{ü}} \u2028\U0001f600\n" for n in range(PIECES // 3))
    body = _stream(client.kind, _reply_with(what, words, width=len(words) // PIECES + 1))
    client.service.replies.append(RawReply(pieces=list(cut(body, random.Random(7), most=9_000))))

    assert await _content_of_answer(client, what) == words


@pytest.mark.parametrize("what", ["text", "calls"])
async def test_line_of_megabytes_is_decoded_exactly(either, what):
    client = either()
    words = "ä€x\\" * (LINE_CHARS // 4)
    body = _stream(client.kind, _reply_with(what, words))
    pieces = [body[at : at + 65_521] for at in range(0, len(body), 65_521)]
    client.service.replies.append(RawReply(pieces=pieces))

    assert await _content_of_answer(client, what) == words


def _reply_with(what, words, width=0):
    reply = {"calls": [("echo", {"text": words})]} if what == "calls" else {what: words}
    return ModelReply(**reply, delta_chars=width)


async def _content_of_answer(client, what):
    async with asyncio.timeout(60):
        events = await client.ask()
    done_of(events)
    if what == "calls":
        pieces = (event.arguments for event in events if isinstance(event, ToolCallDelta))
        return json.loads("".join(pieces))["text"]
    return {"text": text_of, "thinking": thinking_of}[what](events)


_READS_AND_DROPS = """
import asyncio, json, resource, sys
from pathlib import Path
from dirge_py.types.abort import AbortSignal
from dirge_py.types.messages import user_text
from dirge_py.providers.settings import ProviderSettings
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
from dirge_py.types.llm import LlmContext, StreamOptions, TextDelta, ThinkingDelta

async def read(http, kind, url):
    made = find_provider(kind).make(
        ProviderSettings(alias="work", type=kind, base_url=url, api_key="k"), http
    )
    asked = LlmContext(system_prompt="", messages=(user_text("go"),))
    chars = 0
    async for event in made(asked, StreamOptions(model="work/m"), AbortSignal()):
        chars += len(event.text) if isinstance(event, TextDelta | ThinkingDelta) else 0
    return chars

def most_kb():
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    # Not ru_maxrss, which begins with what the parent had.
    status = Path("/proc/self/status").read_text().split("\\n")
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

async def main(urls):
    http = HttpClient()
    small = [await read(http, kind, url) for kind, url in urls.items()]
    before = most_kb()
    large = [await read(http, kind, url) for kind, url in urls.items()]
    grown_kb = most_kb() - before
    await http.aclose()
    print(json.dumps([small, large, grown_kb]))

asyncio.run(main(json.loads(sys.argv[1])))
"""


def test_long_stream_uses_little_memory():
    """Peak memory of a process that discards the events, for all formats."""
    say = ModelReply(thinking="hmmm " * (PIECES // 2), text="word " * (PIECES // 2), delta_chars=5)
    with FakeService([ModelReply(text="x")] * len(KINDS)) as service:
        for kind in KINDS:
            body = _stream(kind, say)
            chunks = [body[at : at + 30_000] for at in range(0, len(body), 30_000)]
            service.replies.append(RawReply(pieces=chunks))
        urls = json.dumps({kind: service.url(kind) for kind in KINDS})
        child = subprocess.run(
            [sys.executable, "-c", _READS_AND_DROPS, urls],
            capture_output=True,
            text=True,
            check=True,
        )

    small, large, grown_kb = json.loads(child.stdout)
    assert small == [1] * len(KINDS)
    assert large == [len(say.text + say.thinking)] * len(KINDS)
    assert grown_kb < (100_000 if IS_WHOLE else 20_000)


# -- endless streams


class _Endless(Sequence[bytes]):
    """Pieces of an answer: its beginning, then one piece repeated."""

    def __init__(self, start: Sequence[str], again: str) -> None:
        self._start = [piece.encode() for piece in start]
        self._again = again.encode()

    def __len__(self) -> int:
        return sys.maxsize

    def __getitem__(self, at):
        return self._start[at] if at < len(self._start) else self._again

    def __iter__(self) -> Iterator[bytes]:
        yield from self._start
        while True:
            yield self._again


def _endless(kind):
    events = wire_events(kind, ModelReply(thinking="hm~hm~", delta_chars=3))
    first = next(at for at, event in enumerate(events) if "hm~" in event)
    return _Endless(events[:first], events[first])


async def test_abort_ends_endless_thinking(either):
    client, signal = either(), AbortSignal()
    client.service.replies.append(RawReply(pieces=_endless(client.kind)))
    heard, last = 0, None
    async with aclosing(client.stream(signal=signal)) as stream:
        async for event in stream:
            last = event
            heard += isinstance(event, ThinkingDelta)
            if heard == PIECES // 3:
                signal.abort()

    assert heard == PIECES // 3
    assert isinstance(last, StreamError)
    assert last.error.kind == "aborted"


async def test_request_timeout_ends_endless_thinking(either):
    client = either()
    client.service.replies.append(RawReply(pieces=_endless(client.kind), gap_s=0.005))
    error = await client.error(request_timeout_s=0.1, timeouts=short())

    assert "whole" in error.message


# -- duplicate or missing ids


def _same_ids(payload):
    for at in _objects(payload):
        for name in ("id", "call_id"):
            if str(at.get(name)).startswith(("call_", "toolu_")):
                at[name] = "call_same"
        if "args" in at:
            at["id"] = "call_same"
    for call in payload.get("message", {}).get("tool_calls", ()):
        call["id"] = "call_same"


def _repeated_ids(payload):
    """Servers that send id and name with each piece of a call, and an empty piece at the end."""
    for choice in payload.get("choices", ()):
        for call in choice["delta"].get("tool_calls", ()):
            call["id"] = f"call_{call['index']}"
            call["function"]["name"] = "echo"
            choice["delta"]["tool_calls"] = [call, call | {"function": {"name": "echo"}}]


def _no_ids(payload):
    for at in _objects(payload):
        for name in ("id", "call_id", "item_id"):
            at.pop(name, None)


@pytest.mark.parametrize("change", [_same_ids, _repeated_ids, _no_ids])
async def test_tool_calls_with_same_or_missing_ids_stay_distinct(either, change):
    """Two calls in one answer, and two in the next."""
    client, tool = either(), Tool()
    body = _stream(client.kind, ModelReply(text="I look.", calls=CALLS, delta_chars=4), change)
    client.service.replies += [RawReply(body=body), RawReply(body=body), ModelReply(text="Fine.")]
    run = await run_loop(
        _stream_fn(client.kind, client.service, client.http), "go", context=_context_with(tool)
    )

    assert isinstance(run.outcome, Done)
    assert tool.ran == [{"text": "a"}, {"text": "b"}] * 2
    _assert_sound(client.kind, client.service.requests, run.new)


async def test_empty_answer_leaves_history_sendable(either):
    client = either(*[ModelReply()] * 10)
    stream_fn = _stream_fn(client.kind, client.service, client.http)
    first = await run_loop(
        stream_fn, "go", context=_context_with(Tool()), config=LoopConfig(model="work/m")
    )
    client.service.replies[len(client.service.requests) :] = [ModelReply(text="Fine.")]
    context = Context(system_prompt="s", messages=first.new)
    second = await run_loop(stream_fn, "go on", context=context, config=LoopConfig(model="work/m"))

    assert isinstance(second.outcome, Done)
    _assert_sound(client.kind, client.service.requests, [*first.new, *second.new])


# -- wrong types

_NAMES = st.sampled_from(["type", "text", "id", "error", "index", "name"])
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, -3, 2**70, 1e308, -0.5])
    | st.sampled_from(["", " ", "x", "0", "tool_use", "error", "\ud800", "{", "stop", "{}"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=4,
)
ALL = ModelReply(text="I look.", thinking="hm", calls=CALLS, delta_chars=6)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_json_types_break_neither_stream_nor_history(kind):
    """Replaces parts of a good answer by any JSON, then sends another prompt."""
    payloads = _payloads(kind, ALL)
    places = [(at, path) for at, payload in enumerate(payloads) for path in _paths(payload)]
    changes = st.lists(st.tuples(st.sampled_from(places), VALUES), min_size=1, max_size=3)
    with asyncio.Runner() as runner, FakeService() as service:
        http = HttpClient()

        @settings(max_examples=size(15, 3_000))
        @given(changes)
        def tried(wrong):
            changed = json.loads(json.dumps(payloads))
            for (at, path), value in wrong:
                changed[at] = _replaced(changed[at], path, value)
            body = b"".join(_event(kind, payload) for payload in changed)
            runner.run(_assert_next_prompt_works(kind, service, http, body))

        try:
            tried()
        finally:
            runner.run(http.aclose())


async def _assert_next_prompt_works(kind, service, http, body):
    before = len(service.requests)
    service.replies[before:] = [RawReply(body=body), *[ModelReply(text="Fine.")] * 9]
    stream_fn = _stream_fn(kind, service, http)
    first = await run_loop(
        stream_fn, "go", context=_context_with(Tool()), config=LoopConfig(model="work/m")
    )
    context = Context(system_prompt="s", messages=first.new)
    second = await run_loop(stream_fn, "go on", context=context, config=LoopConfig(model="work/m"))

    assert isinstance(second.outcome, Done)
    assert second.new[-1].text == "Fine."
    _assert_sound(kind, service.requests[before:], [*first.new, *second.new])


# -- helpers


def _stream_fn(kind, service, http):
    """The provider's stream function, checked: one final event, nothing raised."""
    made = find_provider(kind).make(
        ProviderSettings(alias="work", type=kind, base_url=service.url(kind), api_key="k"), http
    )

    async def watched(context, options, signal):
        ends = 0
        async for event in made(context, options, signal):
            assert not ends
            ends += isinstance(event, StreamDone | StreamError)
            yield event
        assert ends == 1

    return watched


def _context_with(tool):
    return Context(system_prompt="s", tools=[tool])


def _assert_sound(kind, requests, messages):
    assert_balanced(messages)
    assert [problem for seen in requests for problem in problems(kind, seen.json)] == []
    ids = [call.id for m in messages if isinstance(m, AssistantMessage) for call in m.calls]
    assert len(set(ids)) == len(ids)


def _payloads(kind, say):
    """Each event's JSON."""
    events = wire_events(kind, say)
    lines = (event.strip("\n").split("\n")[-1].removeprefix("data: ") for event in events)
    return [json.loads(line) for line in lines if line != "[DONE]"]


def _event(kind, payload):
    # JSON encodes a lone surrogate as an escape.
    line = json.dumps(payload)
    return f"{line}\n".encode() if kind in JSON_LINES else f"data: {line}\n\n".encode()


def _stream(kind, say, change=lambda payload: None):
    """The answer `say` with each of its payloads changed."""
    payloads = _payloads(kind, say)
    for payload in payloads:
        change(payload)
    if kind in JSON_LINES:
        return b"".join(_event(kind, payload) for payload in payloads)
    lines = (json.dumps(payload, ensure_ascii=False) for payload in payloads)
    return "".join(f"data: {line}\n\n" for line in lines).encode()


def _objects(value):
    """Every JSON object in `value`, itself first."""
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else value
    for each in inner if isinstance(value, dict | list) else ():
        yield from _objects(each)


def _paths(value, path=()):
    """The path of every value in `value`."""
    yield path
    if isinstance(value, dict | list):
        for step in value if isinstance(value, dict) else range(len(value)):
            yield from _paths(value[step], (*path, step))


def _replaced(value, path, new):
    """`value` with `new` at `path`; unchanged if the path no longer exists."""
    if not path:
        return new
    step, *rest = path
    if isinstance(value, dict) and step in value:
        return {**value, step: _replaced(value[step], rest, new)}
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return [*value[:step], _replaced(value[step], rest, new), *value[step + 1 :]]
    return value
