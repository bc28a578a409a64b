"""Replaying a recording: the same answers and failures, without a network."""

import asyncio
import json
import random
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dirge_py.config.services import SERVICES, Service
from dirge_py.providers.client import HttpClient, HttpRequest
from dirge_py.providers.recording import HttpRecording, RecordingClient
from dirge_py.providers.registry import find_provider
from dirge_py.providers.replay import Cassette, ReplayClient
from dirge_py.providers.settings import ProviderSettings, Quirks
from dirge_py.providers.stream_parser import join_deltas
from dirge_py.testing.wire_formats import wire_events
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError, ProviderError
from dirge_py.types.llm import (
    LlmContext,
    StreamDone,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import user_text
from tests.providers.recordings import finished_exchanges
from tests.support.fake_service import FakeService, ModelReply, NoReply, RawReply, ServiceReply, cut
from tests.support.provider_client import KINDS, Client, short

CONTEXT = LlmContext(system_prompt="", messages=(user_text("hello"),), tools=())
WEATHER = ModelReply(
    thinking="Look first.", text="I look.", calls=[("read", {"path": "a.txt"})], delta_chars=3
)


def pieced(events: list[StreamEvent]) -> list[Any]:
    """The events in comparable form: deltas joined, errors by message, calls without new ids."""
    return [comparable(event) for event in join_deltas(events)]


def comparable(event: StreamEvent) -> Any:
    if isinstance(event, StreamError):
        error = event.error
        return error.kind, error.status, error.phase, error.message
    if isinstance(event, ToolCallDelta | ToolCallEnd):
        return replace(event, id="")
    return event


def whole_answer(events: list[StreamEvent]) -> tuple[str, str, str, Any]:
    """The whole answer, however it was split."""
    text = "".join(e.text for e in events if isinstance(e, TextDelta))
    thinking = "".join(e.text for e in events if isinstance(e, ThinkingDelta))
    arguments = "".join(e.arguments for e in events if isinstance(e, ToolCallDelta))
    return text, thinking, arguments, pieced(events[-1:])


class Studio:
    """Records calls to fake services, and replays the recording."""

    def __init__(self, folder: Path, serve: Callable[..., FakeService]) -> None:
        self.file = folder / "run.jsonl"
        self.recording = HttpRecording(self.file)
        self.recording.open(lambda text: None)
        self.http = HttpClient()
        self._serve = serve

    async def record(
        self, kind: str, *replies: ServiceReply, times: int = 1, **ask: Any
    ) -> list[list[StreamEvent]]:
        """The events of each call."""
        http = RecordingClient(self.http, self.recording, lambda text: text)
        client = Client(http, kind, self._serve(*replies))
        address = ask.get("base_url", client.url)
        client.http = http.of(ProviderSettings(alias="work", type=kind, base_url=address))
        heard = [await client.ask(**ask) for _ in range(times)]
        await finished_exchanges(self.file)
        return heard

    def player(self, **changes: Any) -> StreamFn:
        values = {"alias": "work", "type": "replay", "script": str(self.file), **changes}
        return find_provider("replay").make(ProviderSettings(**values), self.http)

    async def play(
        self, player: StreamFn, *, signal: AbortSignal | None = None
    ) -> list[StreamEvent]:
        stream: Any = player(CONTEXT, StreamOptions(model="work/m"), signal or AbortSignal())
        async with aclosing(stream) as events:
            return [event async for event in events]


@pytest.fixture
async def studio(tmp_path: Path, serve: Callable[..., FakeService]) -> AsyncIterator[Studio]:
    studio = Studio(tmp_path, serve)
    yield studio
    await studio.http.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_replay_repeats_recorded_answers(studio: Studio, kind: str) -> None:
    first, second = await studio.record(kind, WEATHER, ModelReply(text="Dry."), times=2)
    player = studio.player()

    assert pieced(await studio.play(player)) == pieced(first)
    assert pieced(await studio.play(player)) == pieced(second)
    assert isinstance(first[-1], StreamDone)


@pytest.mark.parametrize("kind", KINDS)
async def test_replay_beyond_last_answer_is_error(studio: Studio, kind: str) -> None:
    await studio.record(kind, ModelReply(text="x"))
    player = studio.player()
    await studio.play(player)
    [event] = await studio.play(player)

    assert isinstance(event, StreamError)
    assert event.error.kind == "invalid_request"
    assert "1 answers" in event.error.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "reply",
    [
        RawReply(status=500, body="oops"),
        RawReply(status=429, body="{}", headers={"retry-after": "7"}),
        RawReply(status=200, body="<html>log in</html>", headers={"content-type": "text/html"}),
        ModelReply(text="half of it", delta_chars=2, after_bytes=700, then="reset"),
        ModelReply(text="half of it", delta_chars=2, after_bytes=700, then="close"),
        NoReply(then="close"),
        NoReply(then="reset"),
    ],
)
async def test_replay_repeats_recorded_failures(
    studio: Studio, kind: str, reply: ServiceReply
) -> None:
    [heard] = await studio.record(kind, reply)

    assert pieced(await studio.play(studio.player())) == pieced(heard)


async def test_replay_repeats_refused_connection(studio: Studio) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    [heard] = await studio.record("openai", base_url=nowhere)

    assert pieced(await studio.play(studio.player())) == pieced(heard)
    assert nowhere in str(pieced(heard))


async def test_replay_repeats_timeouts(studio: Studio) -> None:
    limits = short(chunk_s=0.1, establish_s=0.1)
    stalled = ModelReply(text="half of it", delta_chars=2, after_bytes=700, then="stall")
    heard = await studio.record("openai", stalled, NoReply(), times=2, timeouts=limits)
    player = studio.player(timeouts=limits)

    assert pieced(await studio.play(player)) == pieced(heard[0])
    assert pieced(await studio.play(player)) == pieced(heard[1])


@pytest.mark.parametrize("kind", KINDS)
async def test_replayed_stall_lasts_until_abort(studio: Studio, kind: str) -> None:
    whole = "".join(wire_events(kind, ModelReply(text="half of it", delta_chars=2)))
    half = ModelReply(
        text="half of it", delta_chars=2, after_bytes=len(whole) * 2 // 3, then="stall"
    )
    await studio.record(kind, half, timeouts=short(chunk_s=0.1))
    signal = AbortSignal()
    heard: list[StreamEvent] = []
    async for event in studio.player()(CONTEXT, StreamOptions(model="work/m"), signal):
        heard.append(event)
        if isinstance(event, TextDelta):
            signal.abort()

    assert isinstance(heard[-1], StreamError)
    assert heard[-1].error.kind == "aborted"


async def test_replay_gives_answers_of_several_services_in_order(studio: Studio) -> None:
    await studio.record("openai", ModelReply(text="one"))
    await studio.record("anthropic", ModelReply(text="two"))
    await studio.record("openai", ModelReply(text="three"))
    player = studio.player()
    heard = await asyncio.gather(*(studio.play(player) for _ in range(3)))

    assert [whole_answer(events)[0] for events in heard] == ["one", "two", "three"]


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.type)
async def test_replay_keeps_quirks_of_service(
    studio: Studio, serve: Callable[..., FakeService], service: Service
) -> None:
    quirks = Quirks(**service.dialect)
    client = Client(studio.http, service.speaks, serve(ModelReply(text="x")))
    address = ProviderSettings(alias="work", type=service.type, base_url=client.url, quirks=quirks)
    http = RecordingClient(studio.http, studio.recording, lambda text: text)
    client.http = http.of(address)
    await client.ask()

    [exchange] = await finished_exchanges(studio.file)
    assert exchange.service["type"] == service.type
    assert Quirks(**exchange.service["dialect"]) == quirks
    assert whole_answer(await studio.play(studio.player()))[0] == "x"


async def test_aborted_call_uses_up_no_recorded_answer(studio: Studio) -> None:
    await studio.record("openai", ModelReply(text="one"))
    player = studio.player()
    stopped = AbortSignal()
    stopped.abort()
    await studio.play(player, signal=stopped)

    assert whole_answer(await studio.play(player))[0] == "one"


async def test_unstreamed_answers_are_replayed_by_url(studio: Studio) -> None:
    http = RecordingClient(studio.http, studio.recording, lambda text: text)
    with FakeService([RawReply(body=b"[1]"), RawReply(body=b"[2]")]) as service:
        address = f"http://127.0.0.1:{service.port}"
        for path in ("/a", "/b"):
            await http.fetch(HttpRequest("GET", address + path), timeout_s=5)
    client = ReplayClient(Cassette(str(studio.file)), studio.http)

    assert (await client.fetch(HttpRequest("GET", f"{address}/b"), timeout_s=5)).body == b"[2]"
    assert (await client.fetch(HttpRequest("GET", f"{address}/a"), timeout_s=5)).body == b"[1]"
    with pytest.raises(Exception, match="has no GET"):
        await client.fetch(HttpRequest("GET", f"{address}/a"), timeout_s=5)


def exchange_lines(kind: str, pieces: list[bytes]) -> str:
    service = {"alias": "work", "type": kind, "wire": kind, "base_url": "", "dialect": {}}
    lines: list[dict[str, Any]] = [
        {"dirge_recording": 1},
        {"exchange": 1, "service": service, "method": "POST", "url": "u", "body": {}},
        {"exchange": 1, "status": 200, "headers": {"Content-Type": "text/event-stream"}},
        *({"exchange": 1, "base64": b64encode(piece).decode()} for piece in pieces),
        {"exchange": 1, "end": "complete"},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_replayed_body_cut_anywhere_gives_same_answer(tmp_path: Path, kind: str, seed: int) -> None:
    body = "".join(wire_events(kind, WEATHER)).encode()

    async def play(pieces: list[bytes]) -> Any:
        file = tmp_path / "run.jsonl"
        file.write_text(exchange_lines(kind, pieces))
        http = HttpClient()
        values = ProviderSettings(alias="work", type="replay", script=str(file))
        stream: Any = find_provider("replay").make(values, http)(
            CONTEXT, StreamOptions(model="work/m"), AbortSignal()
        )
        heard = whole_answer([event async for event in stream])
        await http.aclose()
        return heard

    whole = asyncio.run(play([body]))
    assert asyncio.run(play(list(cut(body, random.Random(seed))))) == whole
    assert whole[0] == "I look."


def make(file: Path) -> StreamFn:
    values = ProviderSettings(alias="work", type="replay", script=str(file))
    return find_provider("replay").make(values, HttpClient())


async def test_truncated_last_line_of_recording_is_ignored(studio: Studio, tmp_path: Path) -> None:
    await studio.record("openai", ModelReply(text="one two three", delta_chars=4))
    content = studio.file.read_bytes()
    end = content.index(b"thre") + 2
    studio.file.write_bytes(content[:end])
    events = await studio.play(studio.player())

    assert whole_answer(events)[0] == "one two "
    assert isinstance(events[-1], StreamError)
    assert "the recording ends before" in events[-1].error.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "line 1: it is not a recording"),
        ("nonsense\n", "line 1: it is not JSON"),
        ('{"a": 1}\n', "line 1: it is not a line of a recording"),
        ('{"dirge_recording": 2}\n', "line 1: it has the version 2"),
        ('{"dirge_recording": 1}\n{"exchange": 1, "end": "complete"}\n', "line 2: "),
        ('{"dirge_recording": 1}\n\n{"a": 1}\n', "line 2: it is not JSON"),
        ('{"dirge_recording": 1}\n[]\n', "line 2: it is not a line"),
        (exchange_lines("openai", []).replace('"complete"', '"odd"'), "line 4: "),
        (exchange_lines("openai", [b"x"]).replace('"eA=="', '"!"'), "line 4: "),
        (exchange_lines("openai", []).replace("200", '"many"'), "line 3: "),
    ],
)
def test_invalid_recording_is_config_error_with_line(
    tmp_path: Path, content: str, words: str
) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(content)

    with pytest.raises(ConfigError) as caught:
        make(file)

    assert words in caught.value.message
    assert str(file) in caught.value.message


def test_missing_recording_file_is_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        make(tmp_path / "none.jsonl")


@pytest.mark.parametrize("wire", ["nonesuch", "", "../x"])
async def test_unknown_wire_format_in_recording_is_error(tmp_path: Path, wire: str) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(exchange_lines(wire, [b"x"]))
    events = make(file)(CONTEXT, StreamOptions(model="work/m"), AbortSignal())
    [event] = [event async for event in events]

    assert isinstance(event, StreamError)
    assert isinstance(event.error, ProviderError)
    assert "no provider type" in event.error.message
