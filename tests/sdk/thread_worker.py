"""One turn of a thread in its own process; JSON in and out.

A job has `input` (text, continue, or a resume), `replies` of the scripted model, and rules.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from dirge_py import Agent, Continue, Resume, Text, tool
from dirge_py.providers.scripted import Reply, Script
from dirge_py.sdk.agent_inputs import AgentInput
from dirge_py.testing import assert_balanced
from dirge_py.types.errors import SessionError
from dirge_py.types.outcomes import AwaitingConfirmation, Done

tool_log: list[str] = []


@tool(op="read")
async def look(where: str) -> str:
    """Look."""
    tool_log.append(f"look {where}")
    return f"saw {where}"


@tool(op="plugin", resource="target")
async def deploy(target: str) -> str:
    """Ship it."""
    tool_log.append(f"deploy {target}")
    return f"shipped {target}"


async def main(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    script = Script([_reply(reply) for reply in job.get("replies", ())])
    agent = Agent(
        stream_fn=script.stream,
        tools=[look, deploy],
        journal=folder,
        asker="defer",
        deny=job.get("deny", ()),
        cwd=folder,
    )
    async with agent:
        try:
            outcome = await agent.run_turn(_input(job["input"]), thread=job.get("thread", "t"))
        except SessionError as error:
            return {"error": error.message, "ran": tool_log}
        messages = agent.messages(thread=job.get("thread", "t"))
    told: dict[str, Any] = {
        "kind": type(outcome).__name__,
        "ran": tool_log,
        "asked": len(script.seen),
    }
    if isinstance(outcome, AwaitingConfirmation):
        told["continuation"] = outcome.continuation
    else:
        assert_balanced(messages)
    if isinstance(outcome, Done) and outcome.result is not None:
        told["response"] = outcome.result.response
    for name in ("turn", "total_usage"):
        if hasattr(outcome, name):
            told[name] = getattr(outcome, name)
    told["results"] = [m.text for m in messages if m.role == "toolResult"]
    return {**told, "total_usage": str(told.get("total_usage", ""))}


def _reply(written: dict[str, Any]) -> Reply:
    calls = [(name, arguments) for name, arguments in written.get("calls", ())]
    return Reply(text=written.get("text", ""), calls=calls)


def _input(written: Any) -> AgentInput:
    if written == "continue":
        return Continue()
    return Text(written) if isinstance(written, str) else Resume(**written)


def work(folder: Path, job: str) -> None:
    """Run the turn of `job` and print its outcome."""
    sys.stdout.write(json.dumps(asyncio.run(main(folder, json.loads(job)))))
