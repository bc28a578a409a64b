"""Runs every fault with every wire format through the loop, and records the outcome.

`python -m tests.providers.fault_matrix` prints the page docs/faults.md.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from dirge_py.agent_loop import Context, LoopConfig, compose
from dirge_py.agent_loop.retry import RecoveryPolicy, retrying_stream_fn
from dirge_py.guards.recovery import resume_broken_answers
from dirge_py.providers.client import HttpClient
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings, StreamTimeouts
from dirge_py.testing import assert_balanced
from dirge_py.types.abort import AbortSignal
from dirge_py.types.llm import LlmContext, StreamEvent, StreamFn, StreamOptions
from dirge_py.types.messages import AssistantMessage, Message
from dirge_py.types.outcomes import Done, Failed
from tests.providers.faults import CALL, FAULTS, PATIENCE_S, TEXT, Fault
from tests.support.fake_service import FakeService, ModelReply
from tests.support.loop_runs import LoopRun, Tool, run_loop
from tests.support.provider_client import KINDS
from tests.support.strict_services import problems

_AT_ONCE = 8


@dataclass(kw_only=True)
class Outcome:
    """The outcome of a permanent fault and of a temporary one."""

    kind: str = ""
    tries: int = 0
    waits: list[float] = field(default_factory=list)
    kept: str = ""
    recovers: bool = False
    complaints: list[str] = field(default_factory=list)

    @property
    def description(self) -> str:
        attempts = "1 attempt" if self.tries == 1 else f"{self.tries} attempts"
        kept = f", keeps {self.kept!r}" if self.kept else ""
        return f"`{self.kind}`, {attempts}{kept}"


async def try_all_faults(kind: str) -> list[Outcome]:
    """The outcomes of `FAULTS`, in order; several run at a time."""
    http, turns = HttpClient(), asyncio.Semaphore(_AT_ONCE)

    async def one(fault: Fault) -> Outcome:
        async with turns:
            return await try_fault(kind, fault, http)

    try:
        return await asyncio.gather(*map(one, FAULTS))
    finally:
        await http.aclose()


async def try_fault(kind: str, fault: Fault, http: HttpClient) -> Outcome:
    """Play the fault forever, then send a prompt; play the fault once, then a good answer."""
    outcome = Outcome()
    with FakeService() as service:
        await _run_permanent_fault(kind, fault, http, service, outcome)
    with FakeService() as service:
        await _run_passing_fault(kind, fault, http, service, outcome)
    return outcome


async def _run_permanent_fault(
    kind: str, fault: Fault, http: HttpClient, service: FakeService, outcome: Outcome
) -> None:
    service.replies = [fault.make(kind)] * 20
    start = Context(system_prompt="s")
    run, asked = await _run(kind, http, service, start, fault.silence_s)
    outcome.tries, outcome.waits = asked.times, asked.waits
    if isinstance(run.outcome, Failed):
        outcome.kind = run.outcome.kind
    last = run.new[-1]
    outcome.kept = last.text if isinstance(last, AssistantMessage) else ""
    service.replies[len(service.requests) :] = [ModelReply(text="Fine.")]
    context = Context(system_prompt="s", messages=run.new)
    again, _ = await _run(kind, http, service, context, PATIENCE_S)
    outcome.complaints += _complaints(kind, service, [*run.new, *again.new])
    if not isinstance(again.outcome, Done):
        outcome.complaints.append(f"the next prompt ended {again.outcome}")


async def _run_passing_fault(
    kind: str, fault: Fault, http: HttpClient, service: FakeService, outcome: Outcome
) -> None:
    service.replies = [
        fault.make(kind),
        ModelReply(text=fault.rest, calls=[CALL]),
        ModelReply(text="Fine."),
    ]
    tool = Tool()
    start = Context(system_prompt="s", tools=[tool])
    run, _ = await _run(kind, http, service, start, 2 * fault.silence_s)
    outcome.recovers = isinstance(run.outcome, Done)
    outcome.complaints += _complaints(kind, service, run.new)
    text = "".join(m.text for m in run.new if isinstance(m, AssistantMessage))
    if outcome.recovers and text != f"{TEXT}Fine.":
        outcome.complaints.append(f"the text is {text!r}")
    if len(tool.ran) != outcome.recovers:
        outcome.complaints.append(f"the call ran {len(tool.ran)} times")


async def _run(
    kind: str, http: HttpClient, service: FakeService, context: Context, silence_s: float
) -> "tuple[LoopRun, CountingStream]":
    settings = ProviderSettings(
        alias="work",
        type=kind,
        base_url=service.url(kind),
        api_key="k",
        timeouts=StreamTimeouts(
            establish_s=silence_s, chunk_s=silence_s, tool_call_gap_s=silence_s
        ),
    )
    asked = CountingStream(find_provider(kind).make(settings, http))
    stream_fn = retrying_stream_fn(
        asked.stream, RecoveryPolicy(), sleep=asked.sleep, random=lambda: 0.0
    )
    config = compose(
        resume_broken_answers(3, sleep=asked.sleep, random=lambda: 0.0),
        config=LoopConfig(model="work/m"),
    )
    return await run_loop(stream_fn, "go", context=context, config=config), asked


class CountingStream:
    """Counts calls of a stream function, without waits between retries."""

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
    """The text of docs/faults.md."""
    columns = [await try_all_faults(kind) for kind in KINDS]
    rows = zip(FAULTS, zip(*columns, strict=True), strict=True)
    lines = [_HEAD, "| fault | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    for fault, outcomes in rows:
        cells = " | ".join(outcome.description for outcome in outcomes)
        lines.append(f"| {fault.name} | {cells} |")
    return "\n".join([*lines, "", _FOOT])


_HEAD = """\
# What happens when a service fails

Generated by `python -m tests.providers.fault_matrix`. For each wire format, a service on loopback
plays each fault, and the agent loop runs against it with its retries and recoveries. Each cell
shows the outcome of a permanent fault: the kind of the error, the number of attempts, and the
partial text that history keeps, marked as incomplete. A test checks that this page matches the
measurements.
"""

_FOOT = """\
dirge waits 1 s before the first retry and twice as long before each further one, or as long as the
service asks for. The test also checks for every cell:

* Once the fault passes, the answer is complete, no word is repeated, and its tool call runs once.
* A tool call in a broken answer never runs.
* A strict service of that format accepts each later request, including that of the next prompt."""


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(page()) + "\n")
