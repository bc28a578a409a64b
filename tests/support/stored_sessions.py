"""Stored sessions, recorded by the real recorder, for tests of the index and of exports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd, UsageReported
from dirge_py.types.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import Done

USAGE = Usage(input=100, output=20, cache_read=40)


def exchange(prompt: str, answer: str) -> Sequence[Message]:
    message = AssistantMessage(content=(TextBlock(answer),), model="work/m", usage=USAGE)
    return [user_text(prompt), message]


def tool_use(call_id: str, command: str, output: str) -> Sequence[Message]:
    call = ToolCallBlock(id=call_id, name="bash", arguments={"command": command})
    result = ToolResultMessage(
        tool_call_id=call_id, tool_name="bash", content=(TextBlock(output),), details={}
    )
    return [AssistantMessage(content=(call,), stop_reason="toolUse", usage=USAGE), result]


def record(
    store: Store,
    session_id: str,
    messages: Sequence[Message],
    *,
    cost: float | None = 0.01,
    cwd: Path | None = None,
) -> None:
    """Record one run of the session, creating it if needed."""
    recorder = Recorder(store.open_or_create(session_id), clock=store._clock, cwd=cwd)
    loaded = recorder.load()
    if not loaded.choices.model:
        recorder.note_model("work/m")
    recorder.sink(AgentStart(run_id="r"))
    for message in messages:
        tick(store)
        recorder.sink(MessageEnd(message))
        if isinstance(message, AssistantMessage) and message.usage:
            recorder.sink(UsageReported(usage=message.usage, model="work/m", cost_usd=cost))
    recorder.sink(AgentEnd(outcome=Done(), messages=()))
    recorder.close()


def tick(store: Any) -> None:
    store._clock.now += 1
