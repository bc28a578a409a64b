"""Recording exchanges with model services, and redaction."""

import asyncio
import json
import os
import random
import socket
import stat
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dirge_py.lib.redaction import Redactor
from dirge_py.providers.client import HttpClient, HttpRequest
from dirge_py.providers.recording import BodyRedactor, HttpRecording, RecordingClient
from dirge_py.providers.replay import RecordedExchange
from dirge_py.providers.settings import ProviderSettings
from dirge_py.testing.wire_formats import wire_events
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import StreamEvent, TextDelta
from tests.providers.recordings import finished_exchanges
from tests.support.fake_service import FakeService, ModelReply, NoReply, RawReply, ServiceReply, cut
from tests.support.provider_client import KEY, KINDS, Client, short, text_of

JSON = {"content-type": "application/json"}
UNKNOWN_KEY = "sk-ant-api03-AbCdEf0123456789AbCdEf"
"""Not registered with the redactor; it only looks like a key."""


class Recorder:
    """Calls fake services and records the exchanges into `file`."""

    def __init__(self, folder: Path, serve: Callable[..., FakeService]) -> None:
        self.file = folder / "run.jsonl"
        self.recording = HttpRecording(self.file)
        self.notices: list[str] = []
        self.recording.open(self.notices.append)
        self.redactor = Redactor([KEY])
        self.http = RecordingClient(HttpClient(), self.recording, self.redactor.redact)
        self._serve = serve

    def client(self, kind: str, *replies: ServiceReply) -> Client:
        settings = ProviderSettings(alias="work", type=kind, base_url="http://127.0.0.1/v1")
        return Client(self.http.of(settings), kind, self._serve(*replies))

    async def record(
        self, *replies: ServiceReply, kind: str = "openai", **ask: Any
    ) -> RecordedExchange:
        """The recording of one call."""
        await self.client(kind, *replies).ask(**ask)
        return (await self.finished_exchanges())[-1]

    async def finished_exchanges(self) -> list[RecordedExchange]:
        return await finished_exchanges(self.file)

    @property
    def text(self) -> str:
        return self.file.read_text()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


@pytest.fixture
async def recorder(tmp_path: Path, serve: Callable[..., FakeService]) -> AsyncIterator[Recorder]:
    recorder = Recorder(tmp_path, serve)
    yield recorder
    await recorder.http.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_exchange_is_recorded_with_request_pieces_and_end(
    recorder: Recorder, kind: str
) -> None:
    client = recorder.client(kind, ModelReply(text="hello there", delta_chars=3))
    await client.ask()
    await recorder.finished_exchanges()

    head, request, answer, *pieces, end = recorder.lines
    assert head["dirge_recording"] == 1
    assert request["service"]["wire"] == kind
    assert request["service"]["alias"] == "work"
    assert request["body"] == client.service.requests[0].json
    assert answer["status"] == 200
    assert len(pieces) > 3
    assert end["end"] == "complete"
    times = [line["at"] for line in recorder.lines[1:]]
    assert times == sorted(times)


async def test_body_is_recorded_byte_for_byte(recorder: Recorder) -> None:
    pieces = [b'data: {"choices": [{"delta": {"content": "h\xc3', b'\xa4"}}]}\n', b"\n"]
    exchange = await recorder.record(RawReply(pieces=[*pieces, b"data: [DONE]\n\n"], gap_s=0.02))

    assert b"".join(exchange.pieces) == b"".join(pieces) + b"data: [DONE]\n\n"
    assert exchange.pieces[:2] == pieces[:2]


@pytest.mark.parametrize("kind", KINDS)
async def test_secrets_are_redacted_from_recording(recorder: Recorder, kind: str) -> None:
    echo = json.dumps({"error": {"message": f"bad key {KEY}"}})
    headers = {**JSON, "set-cookie": "session=hidden", "x-echo": KEY, "openai-organization": "acme"}
    client = recorder.client(kind, RawReply(status=401, body=echo, headers=headers))
    await client.ask(system=f"The key is {KEY}.", headers={"x-own": "my-own-gateway-token"})

    for secret in (KEY, "hidden", "my-own-gateway-token", "acme"):
        assert secret not in recorder.text
    [exchange] = await recorder.finished_exchanges()
    assert exchange.status == 401
    assert b"bad key [redacted]" in exchange.pieces[0]
    assert exchange.headers["x-echo"] == "[redacted]"


@pytest.mark.parametrize("secret", [KEY, UNKNOWN_KEY])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 3, 11])
async def test_secret_split_across_stream_pieces_is_redacted(
    recorder: Recorder, kind: str, secret: str, width: int
) -> None:
    say = ModelReply(text=f"I saw {secret}, and more.", delta_chars=width, cut_seed=width)
    exchange = await recorder.record(say, kind=kind)

    assert secret not in played_text(kind, exchange)
    assert played_text(kind, exchange) == "I saw [redacted], and more."


def played_text(kind: str, exchange: RecordedExchange) -> str:
    """The text of the recorded body."""

    async def play() -> list[StreamEvent]:
        http = HttpClient()
        try:
            with FakeService([RawReply(body=b"".join(exchange.pieces))]) as service:
                return await Client(http, kind, service).ask()
        finally:
            await http.aclose()

    return text_of(_run_in_own_event_loop(play))


def _run_in_own_event_loop(play: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(play())).result()


@given(
    st.lists(st.text('ab sk-{}"\n\\é1', max_size=6), max_size=12),
    st.integers(0, 10_000),
    st.sampled_from(["data: ", ""]),
)
def test_body_without_secrets_keeps_its_pieces(texts: list[str], seed: int, lead: str) -> None:
    body = "".join(
        f"{lead}{json.dumps({'delta': {'content': text}}, ensure_ascii=False)}\n\n"
        for text in texts
    ).encode()
    pieces = list(cut(body, random.Random(seed)))
    body_filter = BodyRedactor(Redactor([KEY]).redact)

    passed = [
        piece
        for at, content in enumerate(pieces)
        for piece in body_filter.feed((float(at), content))
    ]
    passed += body_filter.close()

    assert passed == [(float(at), content) for at, content in enumerate(pieces)]


@given(
    st.lists(st.sampled_from(["hello ", "x", KEY, '"', "\n", UNKNOWN_KEY + " "]), max_size=8),
    st.integers(1, 7),
    st.integers(0, 10_000),
)
@example(["x", f"{UNKNOWN_KEY} ", f"{UNKNOWN_KEY} ", "hello ", KEY, '"', KEY], 1, 0)
def test_secret_in_body_is_redacted_at_any_cut(words: list[str], width: int, seed: int) -> None:
    redact = Redactor([KEY]).redact
    text = "".join(words)
    parts = [text[at : at + width] for at in range(0, len(text), width)]
    body = "".join(f"data: {json.dumps({'text': part})}\n\n" for part in parts).encode()
    body_filter = BodyRedactor(redact)

    passed = [
        piece
        for content in cut(body, random.Random(seed))
        for piece in body_filter.feed((0.0, content))
    ]
    whole = b"".join(content for _, content in [*passed, *body_filter.close()]).decode()

    said = "".join(json.loads(line[6:])["text"] for line in whole.splitlines() if line)
    assert KEY not in said
    assert said == redact(text)


async def test_recording_is_written_while_answer_streams(recorder: Recorder) -> None:
    events = wire_events("openai", ModelReply(text="one two three four", delta_chars=4))
    half = [event.encode() for event in events[:5]]
    client = recorder.client("openai", RawReply(pieces=half, gap_s=0.01, then="stall"))
    signal = AbortSignal()
    heard = ""
    async for event in client.stream(signal=signal):
        heard += event.text if isinstance(event, TextDelta) else ""
        if heard == "one two " and not signal.aborted:
            assert '\\"two \\"' in recorder.text
            signal.abort()

    assert signal.aborted
    assert (await recorder.finished_exchanges())[0].end == "closed"


async def test_recording_names_how_exchange_ended(recorder: Recorder) -> None:
    half = ModelReply(text="half of it", delta_chars=4, after_bytes=600, then="reset")
    stalled = ModelReply(text="half of it", delta_chars=4, after_bytes=600, then="stall")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}/v1"

    ends = [
        (await recorder.record(ModelReply(text="x"))).end,
        (await recorder.record(half)).end,
        (await recorder.record(NoReply(then="close"))).end,
        (await recorder.record(stalled, timeouts=short(chunk_s=0.2))).end,
        (await recorder.record(NoReply(), timeouts=short(establish_s=0.1))).end,
        (await recorder.record(base_url=nowhere)).end,
    ]

    assert ends == ["complete", "dropped", "dropped", "timed out", "timed out", "refused"]


async def test_unstreamed_answers_are_recorded(recorder: Recorder) -> None:
    client = recorder.client("openai", RawReply(body=b'{"models": []}', headers=JSON))
    address = f"{client.url}/models?key={KEY}&alt=sse"
    request = HttpRequest("GET", address, {"x-api-key": KEY})
    fetched = await client.http.fetch(request, timeout_s=5)

    [exchange] = await recorder.finished_exchanges()
    assert fetched.body == b"".join(exchange.pieces) == b'{"models": []}'
    assert (exchange.method, exchange.is_whole, exchange.end) == ("GET", True, "complete")
    assert exchange.url == f"{client.url}/models?key=[key]&alt=sse"
    assert KEY not in recorder.text


async def test_concurrent_exchanges_are_recorded_separately(recorder: Recorder) -> None:
    says = [ModelReply(text=f"answer {n} " * 20, delta_chars=5) for n in range(4)]
    clients = [recorder.client("openai", say) for say in says]
    await asyncio.gather(*(client.ask() for client in clients))

    texts = {played_text("openai", exchange) for exchange in await recorder.finished_exchanges()}
    assert texts == {say.text for say in says}


async def test_long_history_is_redacted_and_recorded(recorder: Recorder) -> None:
    exchange = await recorder.record(ModelReply(text="ok"), system=f"{KEY} long words " * 20_000)

    assert exchange.end == "complete"
    assert recorder.lines[1]["body"]["messages"][0]["content"].count("[redacted]") == 20_000


def test_recording_file_is_private_and_must_be_new(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    recording = HttpRecording(file)
    told = recording.open(lambda text: None)

    assert str(file) in told
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert recording.open(lambda text: None) == ""
    with pytest.raises(ConfigError, match="already"):
        HttpRecording(file).open(lambda text: None)
    recording.forget()
    assert not file.exists()


@pytest.mark.parametrize("name", ["nowhere/run.jsonl", ".", "a\0b"])
def test_unwritable_recording_path_is_config_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError, match="--record"):
        HttpRecording(name).open(lambda text: None)


def test_symlink_at_recording_path_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")

    with pytest.raises(ConfigError):
        HttpRecording(tmp_path / "link").open(lambda text: None)

    assert not os.path.exists(tmp_path / "target")
