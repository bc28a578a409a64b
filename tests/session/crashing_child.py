"""A child process for tests to kill: it continues session `s` in the state of `base` forever.

Prints one line for each committed record, right after the commit: `said TEXT` or `ran CALL`. The
effect of a tool is a line in the file `effects`, written with a single call.
"""

import asyncio
import os
from pathlib import Path

from dirge_py.session.recorder import Recorder
from dirge_py.session.store import Store
from dirge_py.types.events import AgentEnd, AgentStart, MessageEnd, UsageReported
from dirge_py.types.messages import (
    AssistantMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    user_text,
)
from dirge_py.types.outcomes import Done
from dirge_py.types.tools import ToolCall, text_result


def say(line):
    os.write(1, line.encode() + b"\n")


def live(base):
    asyncio.run(_live(Path(base)))


async def _live(base):
    store = Store(base / "state", base)
    recorder = Recorder(store.open_or_create("s"))
    recorder.load()
    effects = os.open(base / "effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    turn = 0
    while True:
        turn += 1
        call_id = f"{os.getpid()}.{turn}"
        recorder.sink(AgentStart(run_id=call_id))
        recorder.sink(MessageEnd(user_text(f"prompt {call_id}")))
        say(f"said prompt {call_id}")
        block = ToolCallBlock(id=call_id, name="bash", arguments={"n": turn})
        usage = Usage(input=1, output=1)
        recorder.sink(
            MessageEnd(AssistantMessage(content=(TextBlock(f"ask {call_id}"), block), usage=usage))
        )
        say(f"said ask {call_id}")
        recorder.sink(UsageReported(usage=usage, model="m", cost_usd=0.1))

        async def proceed(call_id=call_id):
            os.write(effects, call_id.encode() + b"\n")
            return text_result("x" * 5000)

        call = ToolCall(id=call_id, name="bash", arguments={"n": turn})
        result = await recorder.interceptor(call, proceed)
        recorder.sink(
            MessageEnd(
                ToolResultMessage(tool_call_id=call_id, tool_name="bash", content=result.content)
            )
        )
        say(f"ran {call_id}")
        recorder.sink(AgentEnd(messages=(), outcome=Done()))
