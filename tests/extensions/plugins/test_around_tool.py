"""Plugins around tool calls: nesting, short-circuits, and no lost call."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.outcomes import Cancelled, Done
from dirge_py.types.tools import text_result
from tests.support.loop_runs import Tool, boom, forever, run_loop
from tests.support.plugins import SHORT_S, PluginFolder, run_with

Register = Callable[[Any], None]


def tracing(trace: list[str], name: str, tool: str = "") -> Register:
    def register(dirge: Any) -> None:
        async def around(call: Any, proceed: Any) -> Any:
            trace.append(f">{name}")
            result = await proceed()
            trace.append(f"<{name}")
            return result

        around.__name__ = name
        if tool:
            dirge.around_tool(tool)(around)
        else:
            dirge.around_tool(around)

    return register


async def test_case_a14_wrappers_of_all_tools_run_before_wrappers_of_one_tool(
    plugin_folder: PluginFolder,
):
    trace: list[str] = []

    async def body(*_: Any) -> Any:
        trace.append("tool")
        return text_result("ok")

    plugin_folder.add("a", tracing(trace, "t1", tool="echo"))
    host = plugin_folder.add("b", tracing(trace, "g1")).add("c", tracing(trace, "g2")).host()
    model = ScriptedModel().will_call("echo").will_call("other").will_say("done")
    await run_with(host, model, tools=[Tool(body=body), Tool(name="other", body=body)])
    assert " ".join(trace[:7]) == ">g1 >g2 >t1 tool <t1 <g2 <g1"
    assert " ".join(trace[7:]) == ">g1 >g2 tool <g2 <g1"
    assert host.chain("echo") == ["b.g1", "c.g2", "a.t1"]
    assert host.chain("other") == ["b.g1", "c.g2"]


async def once_called(
    plugin_folder: PluginFolder, fn: Any, tool: Tool | None = None, *, limit_s: float = 20.0
) -> Any:
    host = plugin_folder.add("wrap", lambda dirge: dirge.around_tool(fn)).host(limit_s=limit_s)
    model = ScriptedModel().will_call("echo").will_say("done")
    came = await run_with(host, model, tools=[tool or Tool()])
    assert isinstance(came.outcome, Done)
    return came


async def test_around_tool_function_can_answer_without_running_the_tool(
    plugin_folder: PluginFolder,
):
    async def cached(call: Any, proceed: Any) -> Any:
        return text_result("from the cache")

    tool = Tool()
    came = await once_called(plugin_folder, cached, tool)
    assert came.results[0].text == "from the cache"
    assert tool.ran == []


async def test_around_tool_function_that_fails_before_the_call_is_skipped(
    plugin_folder: PluginFolder,
):
    async def fails(call: Any, proceed: Any) -> Any:
        raise LookupError("nothing")

    tool = Tool()
    came = await once_called(plugin_folder, fails, tool)
    assert came.outcomes == ["ok"]
    assert len(tool.ran) == 1
    assert (
        "plugin `wrap`: `fails` at around_tool failed: LookupError: nothing"
        in plugin_folder.notices[0]
    )


@pytest.mark.parametrize("answer", ["fails", "nothing"])
async def test_around_tool_function_that_fails_after_the_call_keeps_the_result(
    plugin_folder: PluginFolder, answer: str
):
    async def around(call: Any, proceed: Any) -> Any:
        await proceed()
        if answer == "fails":
            raise LookupError("nothing")

    tool = Tool()
    came = await once_called(plugin_folder, around, tool)
    assert came.results[0].text == "ok"
    assert len(tool.ran) == 1
    assert len(plugin_folder.notices) == 1


async def test_tool_error_inside_around_tool_is_not_blamed_on_the_plugin(
    plugin_folder: PluginFolder,
):
    async def around(call: Any, proceed: Any) -> Any:
        return await proceed()

    came = await once_called(plugin_folder, around, Tool(body=boom))
    assert came.outcomes == ["error"]
    assert "nothing matched" in came.results[0].text
    assert plugin_folder.notices == []


async def test_tool_runs_once_if_proceed_is_called_twice(plugin_folder: PluginFolder):
    async def twice(call: Any, proceed: Any) -> Any:
        await proceed()
        return await proceed()

    tool = Tool()
    came = await once_called(plugin_folder, twice, tool)
    assert came.results[0].text == "ok"
    assert len(tool.ran) == 1
    assert plugin_folder.notices == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_around_tool_function_that_hangs_is_abandoned_and_call_gets_result(
    plugin_folder: PluginFolder, when: str
):
    async def hangs(call: Any, proceed: Any) -> Any:
        if when == "after":
            await proceed()
        await asyncio.Event().wait()

    tool = Tool()
    came = await once_called(plugin_folder, hangs, tool, limit_s=SHORT_S)
    assert came.results[0].text == "ok"
    assert len(tool.ran) == 1
    assert "it took longer than" in plugin_folder.notices[0]


async def test_plugin_time_limit_does_not_include_the_time_of_the_tool(plugin_folder: PluginFolder):
    """The tool takes longer than the plugin's time limit."""

    async def around(call: Any, proceed: Any) -> Any:
        return await proceed()

    async def slow(*_: Any) -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), SHORT_S * 4)
        return text_result("at last")

    came = await once_called(plugin_folder, around, Tool(body=slow), limit_s=SHORT_S)
    assert came.results[0].text == "at last"
    assert plugin_folder.notices == []


async def test_abort_reaches_the_tool_inside_around_tool(plugin_folder: PluginFolder):
    signal, was_cancelled = AbortSignal(), asyncio.Event()

    async def around(call: Any, proceed: Any) -> Any:
        return await proceed()

    async def body(*_: Any) -> Any:
        signal.abort("user")
        try:
            return await forever()
        finally:
            was_cancelled.set()

    host = plugin_folder.add("wrap", lambda dirge: dirge.around_tool(around)).host()
    config = compose(config=LoopConfig(interceptors=host.around_tool()))
    model = ScriptedModel().will_call("echo")
    came = await run_loop(model, "go", tools=[Tool(body=body)], config=config, signal=signal)
    assert came.outcome == Cancelled(reason="user")
    assert was_cancelled.is_set()
    assert came.outcomes == ["aborted"]


def test_around_tool_refuses_a_plain_function(plugin_folder: PluginFolder):
    host = plugin_folder.add(
        "plain", lambda dirge: dirge.around_tool(lambda call, proceed: None)
    ).host()
    assert "has to be an `async def`" in host.notices()[0]
