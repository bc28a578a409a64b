"""What the loop itself costs: no network, a model that answers from memory, tools that do nothing.

    python bench/loop.py [--rounds N]

Rows: one turn (a model call and one tool call) with 1 and with 1,000 messages of history, for the
bare loop and for the whole product with every guard and its journal; the same beside what merely
walking over that history costs; long streams at full and at half length, with their peak memory;
how long an abort takes with a tool that swallows its cancellation and with one that blocks a
thread; a batch of 50 parallel tools. A figure is a median with its range. Nothing here fails: it
prints.
"""

import argparse
import asyncio
import logging
import os
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from report import Report

from dirge_py.agent_loop import Context, LoopConfig, run_agent_loop
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import LoopEvent, ToolExecutionStart
from dirge_py.types.llm import (
    LlmContext,
    StreamDone,
    StreamOptions,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
)
from dirge_py.types.messages import AssistantMessage, Message, TextBlock, user_text
from dirge_py.types.tools import LoopToolResult, text_result

TURNS = 20
BARE = "bare loop, one turn, history of 1"


class Echo:
    """The tool that every row calls; `body` is what it does instead of nothing."""

    name = label = "echo"
    description = "Says it again."
    execution_mode = None
    parameters: Mapping[str, Any] = {"type": "object"}

    def __init__(self, body: Callable[[], Awaitable[None]] | None = None) -> None:
        self._body = body

    def prepare_arguments(self, arguments: Any) -> Any:
        return arguments

    def claims(self, arguments: Mapping[str, Any]) -> Sequence[Any]:
        return ()

    async def execute(
        self, call_id: str, arguments: Any, signal: AbortSignal, on_update: Any
    ) -> LoopToolResult:
        if self._body is not None:
            await self._body()
        return text_result("ok")


class Model:
    """Asks for `calls` tools in each of `turns` turns, each time another way, then says a word."""

    def __init__(self, turns: int, calls: int = 1) -> None:
        self._left = turns
        self._calls = calls

    async def stream(self, context: LlmContext, options: StreamOptions, signal: AbortSignal) -> Any:
        if self._left == 0:
            yield TextDelta("done")
            yield StreamDone()
            return
        self._left -= 1
        for number in range(self._calls):
            key = f"{self._left}.{number}"
            yield ToolCallEnd(key=key, id=f"call-{key}", name="echo", arguments={"n": key})
        yield StreamDone(stop_reason="toolUse")


def history(length: int) -> list[Message]:
    """Prompts and answers in turn, about 200 characters each."""
    words = "a word and another " * 10
    return [
        user_text(f"{n} {words}") if n % 2 == 0 else AssistantMessage(content=(TextBlock(words),))
        for n in range(length - length % 2)
    ]


def no_sink(event: LoopEvent) -> None:
    """Hear nothing."""


async def run(
    stream: Any,
    *,
    past: Sequence[Message] = (),
    tools: Sequence[Any] = (Echo(),),
    signal: AbortSignal | None = None,
    emit: Callable[[LoopEvent], None] = no_sink,
    config: LoopConfig | None = None,
) -> None:
    await run_agent_loop(
        [user_text("go")],
        context=Context(messages=past, tools=tools),
        config=config or LoopConfig(max_parallel=50),
        signal=signal or AbortSignal(),
        emit=emit,
        stream_fn=stream,
    )


async def bare_turn(past: Sequence[Message]) -> float:
    began = time.perf_counter()
    await run(Model(TURNS).stream, past=past)
    return (time.perf_counter() - began) / (TURNS + 1)


async def product_turn(length: int) -> float:
    """The same through a conversation as `dirge` builds it, with a journal on disk."""
    from dirge_py.config.load import load
    from dirge_py.frontend.print.print_mode import PolicyAsker
    from dirge_py.sdk.build import build

    with tempfile.TemporaryDirectory() as folder:
        os.environ["DIRGE_STATE_DIR"] = f"{folder}/state"
        os.environ["DIRGE_CONFIG_DIR"] = f"{folder}/config"
        os.environ["OPENAI_API_KEY"] = "asked of nobody"
        work = Path(folder) / "work"
        work.mkdir()
        (work / "a.txt").write_text("a\n")
        os.chdir(work)
        model = ProductModel(history_turns=length // 2)
        conversation = build(load(), PolicyAsker("deny"), stream_fn=model.stream)
        try:
            while model.history_turns:
                await conversation.send("more " * 40)
            began = time.perf_counter()
            await conversation.send("go")
            return (time.perf_counter() - began) / (TURNS + 1)
        finally:
            await conversation.close()
            os.chdir("/")


class ProductModel:
    """First some plain answers, to grow a history, then `TURNS` reads, each of another line."""

    def __init__(self, history_turns: int) -> None:
        self.history_turns = history_turns
        self._left = TURNS

    async def stream(self, context: LlmContext, options: StreamOptions, signal: AbortSignal) -> Any:
        if self.history_turns:
            self.history_turns -= 1
            yield TextDelta("a word and another " * 10)
            yield StreamDone()
        elif self._left:
            self._left -= 1
            wanted = {"path": "a.txt", "offset": self._left + 1}
            call_id = f"call-{self._left}"
            yield ToolCallEnd(key=call_id, id=call_id, name="read", arguments=wanted)
            yield StreamDone(stop_reason="toolUse")
        else:
            yield TextDelta("done")
            yield StreamDone()


def long_text(deltas: int) -> Any:
    async def stream(context: LlmContext, options: StreamOptions, signal: AbortSignal) -> Any:
        for _ in range(deltas):
            yield TextDelta("word ")
        yield StreamDone()

    return stream


def long_call(deltas: int) -> Any:
    state = {"asked": False}

    async def stream(context: LlmContext, options: StreamOptions, signal: AbortSignal) -> Any:
        if state["asked"]:
            yield StreamDone()
            return
        state["asked"] = True
        yield ToolCallDelta(key="k", id="c", name="echo", arguments='{"text": "')
        for _ in range(deltas):
            yield ToolCallDelta(key="k", arguments="word ")
        yield ToolCallDelta(key="k", arguments='"}')
        yield ToolCallEnd(key="k")
        yield StreamDone(stop_reason="toolUse")

    return stream


async def streamed(make: Callable[[int], Any], deltas: int) -> tuple[float, float]:
    """Seconds, and in a second run of its own the peak of memory in MB."""
    began = time.perf_counter()
    await run(make(deltas))
    seconds = time.perf_counter() - began
    tracemalloc.start()
    await run(make(deltas))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak / 1e6


async def swallowing() -> None:
    until = time.monotonic() + 0.5
    while (left := until - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


async def blocking() -> None:
    await asyncio.to_thread(time.sleep, 0.5)


async def abort_latency(body: Callable[[], Awaitable[None]]) -> float:
    signal = AbortSignal()
    aborted_at = 0.0

    def abort() -> None:
        nonlocal aborted_at
        aborted_at = time.perf_counter()
        signal.abort()

    def emit(event: LoopEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            asyncio.get_running_loop().call_later(0.02, abort)

    await run(Model(1).stream, tools=[Echo(body)], signal=signal, emit=emit)
    latency = time.perf_counter() - aborted_at
    # What was left behind ends before the next try, so that the tries do not add up.
    await asyncio.sleep(0.5)
    return latency


async def fifty_tools() -> float:
    began = time.perf_counter()
    await run(Model(1, calls=50).stream)
    return time.perf_counter() - began


async def measured(rounds: int) -> None:
    async def several(make: Callable[[], Awaitable[float]], times: int = rounds) -> list[float]:
        return [await make() for _ in range(times)]

    report = Report("loop")

    def told(name: str, seconds: Sequence[float], floor: str = "") -> None:
        report.row(name, [each * 1000 for each in seconds], floor=floor)

    short, long = history(2), history(1000)
    told(BARE, await several(lambda: bare_turn(short)))
    told("bare loop, one turn, history of 1,000", await several(lambda: bare_turn(long)), BARE)
    walks = [timed(lambda: [hash(id(message)) for message in long]) for _ in range(rounds)]
    told("  (walking over 1,000 messages once)", walks)
    told("product, one turn, history of 1", await several(lambda: product_turn(0)), BARE)
    turns = await several(lambda: product_turn(1000), 3)
    told("product, one turn, history of 1,000", turns, "product, one turn, history of 1")
    for name, make, deltas in (
        ("text deltas", long_text, 20_000),
        ("tool-call deltas", long_call, 5_000),
    ):
        for count in (deltas // 2, deltas):
            pairs = [await streamed(make, count) for _ in range(rounds)]
            told(f"{count:,} {name}", [seconds for seconds, _ in pairs])
            report.row(f"{count:,} {name}: peak memory", [peak for _, peak in pairs], "MB")
    told("abort, a tool that swallows it", await several(lambda: abort_latency(swallowing), 20))
    told("abort, a tool that blocks a thread", await several(lambda: abort_latency(blocking), 20))
    told("50 parallel tools, both turns", await several(fifty_tools), BARE)
    report.save()


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    # Tools that are left behind are what two rows are about; no need to warn of each.
    logging.disable(logging.WARNING)
    asyncio.run(measured(parser.parse_args().rounds))
