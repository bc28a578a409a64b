"""What a model's answer costs on its way from the socket to the loop, for each wire format.

    python bench/providers.py [--tokens N] [--rounds N] [--kinds openai,gemini]

Rows: CPU milliseconds per 1,000 streamed tokens through the adapter, beside a bare httpx read of
the same bytes from the same service, round by round in turn; what importing one adapter costs
beside an interpreter that imports nothing, and whether it brings another one along; milliseconds
from an abort to the end of the stream, while the service is silent before its answer, in the middle
of it, and while it talks. A figure is a median with its range. Nothing here fails: it prints.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from report import Report

from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings
from dirge_py.testing.wire_formats import WIRE_FORMATS, wire_events
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, StreamEvent, StreamFn, StreamOptions, TextDelta
from dirge_py.types.messages import user_text
from tests.support.fake_service import FakeService, ModelReply, NoReply, RawReply, ServiceReply
from tests.support.provider_client import KINDS

_WORD = "word "
REPORT = Report("providers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--serve", metavar="KIND", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.serve:
        serve(flags.serve, flags.tokens)
        return
    kinds = flags.kinds.split(",")
    print(f"CPU ms per 1,000 streamed tokens ({flags.tokens:,} a round, {flags.rounds} rounds)")
    for kind in kinds:
        with service(kind, flags.tokens) as port:
            asyncio.run(streamed(kind, port, flags.tokens, flags.rounds))
    print("\nimport of one adapter")
    for kind in kinds:
        imported(kind, flags.rounds)
    print("\nms from an abort to the end of the stream")
    for kind in kinds:
        asyncio.run(aborted(kind, flags.rounds))
    REPORT.save()


def serve(kind: str, tokens: int) -> None:
    """The service, in a process of its own: its CPU time is not ours."""
    events = wire_events(kind, ModelReply(text=_WORD * tokens, delta_chars=len(_WORD)))
    reply = RawReply(pieces=[event.encode() for event in events])
    with FakeService([reply] * 1000) as fake:
        print(fake.port, flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def service(kind: str, tokens: int) -> Iterator[int]:
    command = [sys.executable, __file__, "--serve", kind, "--tokens", str(tokens)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stdout is not None
        yield int(running.stdout.readline())
        running.stdin.close()


async def streamed(kind: str, port: int, tokens: int, rounds: int) -> None:
    base = f"http://127.0.0.1:{port}{WIRE_FORMATS[kind].base_path}"
    http = HttpClient()
    ours, bare = [], []
    try:
        stream_fn = made(kind, base, http)
        size = await read_bare(base, kind)  # imports and connections, once
        await read_through(stream_fn)
        for _ in range(rounds):
            ours.append(await cpu_ms(read_through(stream_fn)) / tokens * 1000)
            bare.append(await cpu_ms(read_bare(base, kind)) / tokens * 1000)
    finally:
        await http.aclose()
    floor = f"{kind}, bare read of {size / 1e6:.1f} MB"
    REPORT.row(floor, bare)
    REPORT.row(f"{kind}, 1,000 tokens through the adapter", ours, floor=floor)


async def read_through(stream_fn: StreamFn) -> None:
    said = 0
    async for event in stream_fn(context(), StreamOptions(model="work/m"), AbortSignal()):
        said += isinstance(event, TextDelta)
    if not said:
        raise SystemExit("nothing was said")


async def read_bare(base: str, kind: str) -> int:
    import httpx

    size = 0
    async with (
        httpx.AsyncClient(trust_env=False, timeout=None) as client,
        client.stream("POST", base + _PATHS[kind], content=b"{}") as response,
    ):
        async for chunk in response.aiter_bytes():
            size += len(chunk)
    return size


_PATHS = {
    "openai": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
    "ollama": "/api/chat",
}


async def cpu_ms(work: Awaitable[object]) -> float:
    before = time.process_time()
    await work
    return (time.process_time() - before) * 1000


def imported(kind: str, rounds: int) -> None:
    code = (
        "import json, sys, time\n"
        "from dirge_py.providers.registry import find_provider\n"
        "before, at = set(sys.modules), time.process_time()\n"
        f"find_provider({kind!r})\n"
        "ms = (time.process_time() - at) * 1000\n"
        "print(json.dumps([ms, sorted(set(sys.modules) - before)]))\n"
    )
    spent, brought = [], []
    for _ in range(rounds):
        output = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True
        ).stdout
        ms, brought = json.loads(output)
        spent.append(ms)
    adapters = {f"dirge_py.providers.{name.replace('-', '_')}" for name in KINDS}
    others = sorted(adapters & set(brought) - {f"dirge_py.providers.{kind.replace('-', '_')}"})
    heavy = [name for name in ("httpx", "pydantic", "ssl") if name in brought]
    REPORT.row(f"{kind}, import", spent)
    REPORT.row(f"{kind}, modules imported", [len(brought)], "")
    if others or heavy:
        print(f"  with it: {', '.join(others + heavy)}")


async def aborted(kind: str, rounds: int) -> None:
    say = ModelReply(text=_WORD * 50, delta_chars=len(_WORD))
    events = [event.encode() for event in wire_events(kind, say)]
    cases: dict[str, ServiceReply] = {
        "silent before it": NoReply(),
        "silent in the middle": RawReply(pieces=events[:9], then="stall"),
        "talking": RawReply(pieces=[*events[:9], *[events[8]] * 5000], gap_s=0.002),
    }
    for name, reply in cases.items():
        REPORT.row(f"{kind}, abort, {name}", [await abort_ms(kind, reply) for _ in range(rounds)])


async def abort_ms(kind: str, reply: ServiceReply) -> float:
    http, signal = HttpClient(), AbortSignal()
    with FakeService([reply]) as fake:
        ended = 0.0

        async def read() -> None:
            nonlocal ended
            stream = made(kind, fake.url(kind), http)(
                context(), StreamOptions(model="work/m"), signal
            )
            seen: list[StreamEvent] = [event async for event in stream]
            ended = time.perf_counter()
            del seen

        task = asyncio.create_task(read())
        await asyncio.sleep(0.15)
        begun = time.perf_counter()
        signal.abort()
        await task
        await http.aclose()
    return (ended - begun) * 1000


def made(kind: str, base: str, http: HttpClient) -> StreamFn:
    settings = ProviderSettings(alias="work", type=kind, base_url=base, api_key="k")
    return find_provider(kind).make(settings, http)


def context() -> LlmContext:
    return LlmContext(system_prompt="s", messages=[user_text("go")])


if __name__ == "__main__":
    main()
