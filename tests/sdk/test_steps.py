"""A run step by step, and changes between steps."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from dirge_py import Agent, Compacted, FinalResponse, Stopped, ToolsExecuted, tool
from dirge_py.agent_loop import Hooks, TurnInfo
from dirge_py.testing import ScriptedModel, assert_balanced
from dirge_py.types.events import ContextCompacted
from dirge_py.types.messages import user_text
from dirge_py.types.outcomes import Cancelled, MaxTurns
from tests.support.agent_tools import TOOLS, results


@pytest.fixture
async def agent(model: ScriptedModel) -> AsyncIterator[Agent]:
    async with Agent(stream_fn=model.stream_fn, tools=TOOLS) as agent:
        yield agent


async def test_a52_steps_and_run_record_the_same_messages(
    agent: Agent, model: ScriptedModel
) -> None:
    for _ in range(2):
        model.will_call("echo", text="a").will_say("done")

    steps = [step async for step in agent.steps("go")]
    whole = await agent.run("go", thread="other")

    executed, final = steps
    assert isinstance(executed, ToolsExecuted)
    assert [call.name for call in executed.calls] == ["echo"]
    assert [result.text for result in executed.results] == ["a"]
    assert isinstance(final, FinalResponse)
    assert (final.result.response, final.result.turns) == ("done", 2)
    roles = [message.role for message in whole.messages]
    assert [message.role for message in agent.messages()] == roles


async def test_a52_steering_between_steps_enters_after_tool_results(
    agent: Agent, model: ScriptedModel
) -> None:
    model.will_call("echo", text="a").will_say("done")
    steps = agent.steps("go")

    assert isinstance(await anext(steps), ToolsExecuted)
    steps.steer("be quick")
    assert isinstance(await anext(steps), FinalResponse)
    with pytest.raises(StopAsyncIteration):
        await anext(steps)

    assert [message.role for message in model.seen[1].messages] == [
        "user",
        "assistant",
        "toolResult",
        "user",
    ]
    assert model.seen[1].messages[-1].text.endswith("be quick")  # type: ignore[union-attr]


async def test_run_pauses_until_the_next_step(agent: Agent, model: ScriptedModel) -> None:
    model.will_call("echo", text="a").will_say("done")
    steps = agent.steps("go")

    await anext(steps)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(model.seen) == 1
    await anext(steps)
    assert len(model.seen) == 2


async def test_steps_call_no_model_before_the_first_step(
    agent: Agent, model: ScriptedModel
) -> None:
    steps = agent.steps("go")
    await asyncio.sleep(0)

    assert model.seen == []
    assert list(steps.messages) == []


async def test_message_can_be_injected_between_steps(agent: Agent, model: ScriptedModel) -> None:
    model.will_call("echo", text="a").will_say("done")
    steps = agent.steps("go")

    await anext(steps)
    steps.inject_message("The build is green.")
    await anext(steps)

    assert model.seen[1].messages[-1].text == "The build is green."  # type: ignore[union-attr]


async def test_history_can_be_replaced_between_steps(agent: Agent, model: ScriptedModel) -> None:
    model.will_call("echo", text="a").will_say("done").will_say("and on")
    steps = agent.steps("go")

    await anext(steps)
    assert len(steps.messages) == 3
    steps.messages = [user_text("Begin here.")]
    assert len(steps.messages) == 1
    await anext(steps)

    assert [message.text for message in model.seen[1].messages] == ["Begin here."]  # type: ignore[union-attr]
    assert [message.role for message in agent.messages()] == ["user", "assistant"]
    await agent.run("more")
    assert len(model.seen[2].messages) == 3


async def test_tools_can_be_replaced_between_steps(agent: Agent, model: ScriptedModel) -> None:
    @tool(op="read")
    async def fresh(number: int) -> int:
        """Count on."""
        return number + 1

    model.will_call("echo", text="a").will_call("fresh", number=1).will_call("fresh", number="x")
    model.will_say("done")
    steps = agent.steps("go")

    await anext(steps)
    assert [known.name for known in steps.tools] == ["echo", "deploy"]
    steps.tools = [fresh]
    seen = [step async for step in steps]

    assert [spec.name for spec in model.seen[1].tools] == ["fresh"]
    assert isinstance(seen[0], ToolsExecuted) and isinstance(seen[1], ToolsExecuted)
    assert seen[0].results[0].text == "2"
    assert seen[1].results[0].details["outcome"] == "invalid"


async def test_parallel_calls_are_one_step(agent: Agent, model: ScriptedModel) -> None:
    model.will_call_all(("echo", {"text": "a"}), ("echo", {"text": "b"})).will_say("done")

    executed = await anext(agent.steps("go"))

    assert isinstance(executed, ToolsExecuted)
    assert [result.text for result in executed.results] == ["a", "b"]


async def test_compaction_is_a_separate_step(model: ScriptedModel) -> None:
    model.will_say("done")

    def shrink(info: TurnInfo) -> None:
        info.emit(
            ContextCompacted(tokens_before=900, tokens_after=90, first_kept_index=0, kind="prune")
        )

    bundle = Hooks(name="shrink", transform_context=shrink)
    async with Agent(stream_fn=model.stream_fn, bundles=[bundle]) as agent:
        steps = [step async for step in agent.steps("go")]

    assert steps[0] == Compacted(old_tokens=900, new_tokens=90)
    assert isinstance(steps[1], FinalResponse)


async def test_last_step_of_an_unfinished_run_is_stopped_with_its_outcome(
    model: ScriptedModel,
) -> None:
    model.will_call("echo", text="a")
    async with Agent(stream_fn=model.stream_fn, tools=TOOLS, max_turns=1) as agent:
        steps = [step async for step in agent.steps("go")]

    assert steps[1:] == [Stopped(MaxTurns(max=1))]


async def test_closing_the_steps_stops_the_run(agent: Agent, model: ScriptedModel) -> None:
    model.will_call("echo", text="a")
    steps = agent.steps("go")
    await anext(steps)
    await steps.aclose()

    assert steps._run is not None
    assert await steps._run == Cancelled(reason="abandoned")
    assert_balanced(agent.messages())
    with pytest.raises(StopAsyncIteration):
        await anext(steps)


async def test_garbage_collected_steps_stop_the_run(agent: Agent, model: ScriptedModel) -> None:
    model.will_call("echo", text="a").will_say("done")
    steps = agent.steps("go")
    await anext(steps)
    run = steps._run
    assert run is not None
    del steps
    gc.collect()

    assert await run == Cancelled(reason="abandoned")
    assert (await agent.run("again")).response == "done"


async def test_results_of_terminating_tools_are_the_last_results(model: ScriptedModel) -> None:
    from dirge_py.types.messages import TextBlock
    from dirge_py.types.tools import LoopToolResult

    @tool(op="read")
    async def finish() -> LoopToolResult:
        return LoopToolResult(content=(TextBlock("over"),), terminate=True)

    model.will_call("finish")
    async with Agent(stream_fn=model.stream_fn, tools=[finish]) as agent:
        steps = [step async for step in agent.steps("go")]
        assert results(agent.messages()) == ["over"]

    assert [type(step) for step in steps] == [ToolsExecuted, FinalResponse]
