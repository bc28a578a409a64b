"""Aborts, chunk boundaries and reused connections, for every provider."""

import asyncio
import contextlib
import json
import secrets
import socket
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dirge_py.providers.anthropic import AnthropicParser
from dirge_py.providers.gemini import GeminiParser
from dirge_py.providers.ollama import OllamaParser
from dirge_py.providers.openai import OpenAIParser
from dirge_py.providers.openai_responses import ResponsesParser
from dirge_py.providers.settings import StreamTimeouts
from dirge_py.providers.stream_parser import NdjsonDecoder, SseDecoder
from dirge_py.testing.wire_formats import wire_events
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import StreamError, TextDelta
from tests.security.sizes import size
from tests.support.fake_service import ModelReply, NoReply, RawReply
from tests.support.provider_client import JSON_LINES, done_of, text_of

LONG = ModelReply(text="word " * 500, delta_chars=5, gap_s=0.02)


@pytest.fixture
def deaf_port():
    """A port with a full accept queue: connections are neither accepted nor refused."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    "reply", [NoReply(), RawReply(then="stall"), LONG], ids=["head", "body", "middle"]
)
async def test_abort_ends_stream_and_closes_connection(either, reply):
    client, signal = either(reply), AbortSignal()
    loop = asyncio.get_running_loop()
    aborted_at = []

    def abort():
        aborted_at.append(time.monotonic())
        signal.abort()

    loop.call_later(0.1, abort)
    events = await client.ask(signal=signal)

    assert time.monotonic() - aborted_at[0] < 5
    assert isinstance(events[-1], StreamError)
    assert events[-1].error.kind == "aborted"
    assert await asyncio.to_thread(client.service.hangup.wait, 2)


async def test_abort_from_thread_ends_stream(either):
    client, signal = either(NoReply()), AbortSignal()
    running = asyncio.create_task(client.ask(signal=signal))
    await asyncio.to_thread(_until, lambda: client.service.requests)
    await asyncio.to_thread(signal.abort)

    assert (await running)[-1].error.kind == "aborted"


async def test_aborted_call_sends_no_request(either):
    client, signal = either(ModelReply(text="x")), AbortSignal()
    signal.abort()

    assert (await client.ask(signal=signal))[-1].error.kind == "aborted"
    assert client.service.requests == []


async def test_abort_while_connecting_ends_stream(openai, deaf_port):
    signal = AbortSignal()
    asyncio.get_running_loop().call_later(0.05, signal.abort)
    started = time.monotonic()
    error = await openai().error(base_url=f"http://127.0.0.1:{deaf_port}", signal=signal)

    assert error.kind == "aborted"
    assert time.monotonic() - started < 1


async def test_slow_connect_times_out(openai, deaf_port):
    url = f"http://127.0.0.1:{deaf_port}"
    error = await openai().error(base_url=url, timeouts=StreamTimeouts(connect_s=0.1))

    assert "timed out" in error.message
    assert error.kind == "network"


async def test_no_event_follows_abort(either):
    client, signal = either(ModelReply(text="word " * 200, delta_chars=5)), AbortSignal()
    events = []
    async for event in client.stream(signal=signal):
        events.append(event)
        if isinstance(event, TextDelta):
            signal.abort()

    assert len([event for event in events if isinstance(event, TextDelta)]) == 1
    assert events[-1].error.kind == "aborted"


async def test_closing_stream_early_closes_connection(either):
    client = either(LONG)
    stream = client.stream()
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await stream.aclose()

    assert await asyncio.to_thread(client.service.hangup.wait, 2)


async def test_cancelling_reader_closes_connection(either):
    client = either(NoReply())
    running = asyncio.create_task(client.ask())
    await asyncio.to_thread(_until, lambda: client.service.requests)
    running.cancel()
    await asyncio.wait({running})

    assert running.cancelled()
    assert await asyncio.to_thread(client.service.hangup.wait, 2)


async def test_slow_reader_gets_all_text(either):
    client = either(ModelReply(text="word" * 3000, delta_chars=4))
    text = ""
    async for event in client.stream():
        if isinstance(event, TextDelta):
            text += event.text
            if len(text) % 400 == 0:
                await asyncio.sleep(0)

    assert text == "word" * 3000


async def test_connections_are_reused(either):
    client = either(*[ModelReply(text="x")] * 6)
    for _ in range(6):
        done_of(await client.ask())
        await asyncio.to_thread(_until, lambda: not client.http._lingering)

    assert {request.connection for request in client.service.requests} == {1}


async def test_many_streams_run_concurrently(either):
    client = either(*[ModelReply(text="x" * 100, delta_chars=3)] * 16)
    answers = await asyncio.gather(*[client.ask() for _ in range(16)])

    assert [text_of(events) for events in answers] == ["x" * 100] * 16


SAID = ModelReply(
    text="Grüße \U0001f600 an\u2028alle\nda.",
    thinking="hm",
    calls=[("read", {"path": "ä b"}), ("ls", {})],
    delta_chars=3,
)


ANSWERS = {
    "openai": lambda: OpenAIParser(frozenset(), "x"),
    "openai-responses": lambda: ResponsesParser(frozenset(), "x"),
    "anthropic": AnthropicParser,
    "ollama": lambda: OllamaParser(frozenset(), "x"),
    "gemini": lambda: GeminiParser(frozenset(), "x"),
}


def translated(kind, stream, cuts):
    decoder = NdjsonDecoder() if kind in JSON_LINES else SseDecoder()
    answer = ANSWERS[kind]()
    ends = [*sorted(cuts), len(stream)]
    events = []
    for start, end in zip([0, *ends], ends, strict=False):
        for name, text in decoder.feed(stream[start:end]):
            events += answer.finish() if text == "[DONE]" else answer.event(name, json.loads(text))
    return events


@pytest.mark.parametrize("kind", ANSWERS)
@settings(max_examples=size(33, 100))
@given(data=st.data())
def test_parsed_events_do_not_depend_on_chunk_boundaries(kind, data):
    events = wire_events(kind, SAID)
    stream = "".join(events).encode()
    cuts = data.draw(st.sets(st.integers(0, len(stream)), max_size=60))

    assert translated(kind, stream, cuts) == translated(kind, stream, ())


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("chunk_bytes", [3, 100_000])
async def test_events_over_socket_do_not_depend_on_chunks_and_line_ends(
    either, monkeypatch, chunk_bytes, line_end
):
    client = either(SAID)
    if client.kind in JSON_LINES and line_end == "\r":
        pytest.skip("a line of JSON does not end in a bare CR")
    # Generated ids differ from answer to answer.
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * size)
    whole = await client.ask()
    client.service.replies.append(
        ModelReply(
            text=SAID.text,
            thinking=SAID.thinking,
            calls=SAID.calls,
            delta_chars=3,
            chunk_bytes=chunk_bytes,
            line_end=line_end,
        )
    )

    assert await client.ask() == whole


def test_http_client_does_not_import_ui_libraries(tmp_path):
    code = """
import asyncio, json, sys
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
import dirge_py.providers.openai, dirge_py.providers.anthropic
early = "httpx" in sys.modules
asyncio.run(HttpClient().warm_up())
import httpx
drawing = sorted({"rich", "click", "pygments"} & set(sys.modules))
print(json.dumps([early, "httpx" in sys.modules, drawing]))
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(child.stdout) == [False, True, []]


def _until(holds):
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0)


async def test_second_request_searches_no_module(openai, monkeypatch):
    """Each search for a module that is not installed reads the folders of the whole path."""
    client = openai(ModelReply(text="a"), ModelReply(text="b"))
    await client.ask()
    searched = []

    class Watch:
        def find_spec(self, name, path=None, target=None):
            searched.append(name)

    monkeypatch.setattr(sys, "meta_path", [Watch(), *sys.meta_path])
    await client.ask()

    assert searched == []
