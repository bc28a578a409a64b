"""Tools for tests of the agent loop, and `run_loop`, which runs it to its end."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dirge_py.agent_loop import (
    CallDecision,
    Context,
    LoopConfig,
    run_agent_loop,
    run_agent_loop_continue,
)
from dirge_py.testing import EventRecorder, ScriptedModel, assert_event_grammar
from dirge_py.types.abort import AbortSignal
from dirge_py.types.events import LoopEvent
from dirge_py.types.llm import StreamFn
from dirge_py.types.messages import Message, ToolResultMessage, user_text
from dirge_py.types.outcomes import Outcome
from dirge_py.types.tools import LoopToolResult, text_result


@dataclass
class Tool:
    """A LoopTool made of a coroutine function; it counts parallel calls."""

    name: str = "echo"
    body: Any = None
    execution_mode: Any = None
    prepare: Any = None
    description: str = "Say it again."
    label: str = "Echo"
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    ran: list[Any] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    def prepare_arguments(self, arguments: Any) -> Any:
        return self.prepare(arguments) if self.prepare else arguments

    def claims(self, arguments: Mapping[str, Any]) -> Sequence[Any]:
        return ()

    async def execute(self, call_id: str, arguments: Any, signal: Any, on_update: Any) -> Any:
        self.ran.append(arguments)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.body is None:
                return text_result("ok")
            return await self.body(call_id, arguments, signal, on_update)
        finally:
            self.running -= 1


async def forever(*_: Any) -> LoopToolResult:
    await asyncio.Event().wait()
    return text_result("never")


async def stubborn(*_: Any) -> LoopToolResult:
    """Ignores cancellation for much longer than the grace period."""
    until = asyncio.get_running_loop().time() + 0.4
    while (left := until - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), left)
        except (asyncio.CancelledError, TimeoutError):
            continue
    return text_result("late")


async def boom(*_: Any) -> LoopToolResult:
    raise LookupError("nothing matched")


async def a_breath(*_: Any) -> LoopToolResult:
    for _ in range(3):
        await asyncio.sleep(0)
    return text_result("ok")


@dataclass
class LoopRun:
    """The new messages and the events of a finished run."""

    new: list[Message]
    recorder: EventRecorder

    @property
    def events(self) -> list[LoopEvent]:
        return self.recorder.events

    @property
    def outcome(self) -> Outcome:
        return self.recorder.outcome

    @property
    def roles(self) -> list[str]:
        return [message.role for message in self.new]

    @property
    def results(self) -> list[ToolResultMessage]:
        return [message for message in self.new if isinstance(message, ToolResultMessage)]

    @property
    def outcomes(self) -> list[str]:
        return [result.details["outcome"] for result in self.results]


async def run_loop(
    model: ScriptedModel | StreamFn,
    *prompts: str,
    tools: Sequence[Any] = (),
    config: LoopConfig | None = None,
    context: Context | None = None,
    signal: AbortSignal | None = None,
    decisions: Sequence[CallDecision] | None = None,
    recorder: EventRecorder | None = None,
) -> LoopRun:
    """A whole run, its events checked; without prompts it continues `context`."""
    recorder = recorder or EventRecorder()
    arguments: dict[str, Any] = {
        "context": context or Context(system_prompt="first", tools=tools),
        "config": config or LoopConfig(),
        "signal": signal or AbortSignal(),
        "emit": recorder,
        "stream_fn": model.stream_fn if isinstance(model, ScriptedModel) else model,
    }
    if prompts:
        new = await run_agent_loop([user_text(text) for text in prompts], **arguments)
    else:
        new = await run_agent_loop_continue(**arguments, decisions=decisions or ())
    assert_event_grammar(recorder.events)
    return LoopRun(new, recorder)
