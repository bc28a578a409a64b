"""A run stopped while a guardrail checks: the text is neither stored nor sent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dirge_py.extensions.guardrails.checks import Pass, Trip, Verdict
from dirge_py.providers.scripted import Reply
from dirge_py.sdk.agent import Agent
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.tools.function_tool import tool
from dirge_py.types.messages import AssistantMessage, ToolResultMessage

SECRET = "hunter2"


@tool(op="meta")
def lookup() -> str:
    """Look something up."""
    return f"the password is {SECRET}"


class Slow:
    """A check that starts, and returns when it is released."""

    name = "slow"

    def __init__(self, *, is_slow: bool = True) -> None:
        self.is_slow = is_slow
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()

    async def check(self, text: str) -> Verdict:
        if SECRET not in text:
            return Pass()
        self.began.set()
        if self.is_slow:
            await self.go_on.wait()
        return Trip("it holds the password")


def stored(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def sent(model: ScriptedModel) -> str:
    return str([context.messages for context in model.seen])


async def stopped_at(agent: Agent, began: asyncio.Event, way: str) -> None:
    run = agent.start("go")
    await began.wait()
    if way == "abort":
        run.abort()
        await run.outcome
    else:
        waiting = asyncio.ensure_future(agent.close())
        await waiting


@pytest.mark.parametrize("is_slow", [True, False], ids=["aborted", "tripped"])
async def test_tool_result_is_neither_stored_nor_sent_before_guardrail_passes_it(
    model: ScriptedModel, tmp_path: Path, is_slow: bool
) -> None:
    check = Slow(is_slow=is_slow)
    model.will_call("lookup").will_say("never" if is_slow else "ok").will_say("here")
    given: dict[str, Any] = {
        "tools": [lookup],
        "guardrails": {"tool_result": [check]},
        "journal": tmp_path / "kept",
    }
    async with Agent(stream_fn=model.stream_fn, **given) as agent:
        if is_slow:
            await stopped_at(agent, check.began, "abort")
        else:
            await agent.run("go")
        assert_balanced(agent.messages())
        await agent.run("again")
        kept = [one for one in agent.messages() if isinstance(one, ToolResultMessage)]

    expected = "aborted" if is_slow else "denied"
    assert [(one.is_error, one.details["outcome"]) for one in kept] == [(True, expected)]
    assert SECRET not in sent(model)
    assert SECRET not in stored(tmp_path / "kept")


async def test_agent_closed_during_guardrail_check_stores_no_tool_result(
    model: ScriptedModel, tmp_path: Path
) -> None:
    check = Slow()
    model.will_call("lookup").will_say("never")
    agent = Agent(
        stream_fn=model.stream_fn,
        tools=[lookup],
        guardrails={"tool_result": [check]},
        journal=tmp_path / "kept",
    )
    async with agent:
        await stopped_at(agent, check.began, "close")

    assert SECRET not in stored(tmp_path / "kept")


@pytest.mark.parametrize("is_whole", [True, False])
async def test_answer_is_neither_stored_nor_sent_before_guardrail_passes_it(
    model: ScriptedModel, tmp_path: Path, is_whole: bool
) -> None:
    check = Slow()
    said = asyncio.Event()

    async def hold() -> None:
        said.set()
        if not is_whole:
            await asyncio.Event().wait()

    model.will(Reply(text=f"it is {SECRET}", hold=hold)).will_say("here")
    async with Agent(
        stream_fn=model.stream_fn,
        guardrails={"output": [check]},
        journal=tmp_path / "kept",
    ) as agent:
        await stopped_at(agent, check.began if is_whole else said, "abort")
        await agent.run("again")
        first = next(one for one in agent.messages() if isinstance(one, AssistantMessage))

    assert first.stop_reason == "aborted" and first.withheld
    assert SECRET not in sent(model)
    assert SECRET not in stored(tmp_path / "kept")


async def test_prompt_is_not_sent_when_its_guardrail_check_is_aborted(
    model: ScriptedModel, tmp_path: Path
) -> None:
    check = Slow()
    model.will_say("here")
    async with Agent(
        stream_fn=model.stream_fn,
        guardrails={"input": [check]},
        journal=tmp_path / "kept",
    ) as agent:
        run = agent.start(f"log in with {SECRET}")
        await check.began.wait()
        run.abort()
        await run.outcome
        assert [message.text for message in run.unsent] == [f"log in with {SECRET}"]
        await agent.run("again")
        assert SECRET not in str(agent.messages())

    assert SECRET not in sent(model)
