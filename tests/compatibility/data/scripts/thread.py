"""A thread in a journal: `begin` leaves a call that waits, `yes` or `no` decides it, `say` goes on."""

import asyncio
import json
import os
import sys
from pathlib import Path

from dirge_py import Agent, AwaitingConfirmation, Continue, Done, NeedsMoreTurns, Resume, Text, tool
from dirge_py.testing import ScriptedModel, assert_balanced

STATE = Path(os.environ["DIRGE_STATE_DIR"])
WAITING = STATE / "waiting.json"


@tool(op="network", resource="host")
async def deploy(host: str) -> str:
    """Deploy to a host."""
    return f"deployed to {host}"


@tool(op="read")
def look(part: str) -> str:
    """Look at a part."""
    return f"{part} is well"


async def main(word: str) -> None:
    model = ScriptedModel()
    given: Text | Resume = Text("Deploy to staging, after a look.")
    if word == "begin":
        model.will_call_all(("look", {"part": "staging"}), ("deploy", {"host": "staging"}))
    elif word == "say":
        model.will_say("Said.")
        given = Text("Anything else?")
    else:
        model.will_say("Decided.")
        continuation = json.loads(WAITING.read_text())
        given = Resume(continuation, continuation["awaiting"], word == "yes", "not on a Friday")
    async with Agent(
        model="zoo/scripted",
        stream_fn=model.stream_fn,
        tools=[deploy, look],
        journal=STATE,
        asker="defer",
    ) as agent:
        outcome = await agent.run_turn(given, thread="order-7")
        while isinstance(outcome, NeedsMoreTurns):
            outcome = await agent.run_turn(Continue(), thread="order-7")
        if isinstance(outcome, AwaitingConfirmation):
            WAITING.write_text(json.dumps(outcome.continuation))
        else:
            assert isinstance(outcome, Done), outcome
            assert_balanced(agent.messages(thread="order-7"))
        for message in agent.messages(thread="order-7"):
            print(message.role, message.text)


asyncio.run(main(sys.argv[1]))
