"""A run that is stopped while a plugin's hook checks a result."""

import asyncio
from typing import Any

import pytest

from dirge_py.agent_loop import LoopConfig, compose
from dirge_py.testing import ScriptedModel
from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import text_result
from tests.support.loop_runs import Tool, run_loop
from tests.support.plugins import SHORT_S, PluginFolder, run_with


async def secret(*_: Any) -> Any:
    return text_result("hunter2", excerpt="hunter2")


@pytest.mark.parametrize("is_single_turn", [False, True])
async def test_result_is_withheld_if_run_is_aborted_during_after_tool_call(
    plugin_folder: PluginFolder, is_single_turn: bool
) -> None:
    signal = AbortSignal()

    async def after(*_: Any) -> None:
        asyncio.get_running_loop().call_soon(signal.abort)
        await asyncio.Event().wait()

    host = plugin_folder.add("hide", lambda dirge: dirge.on("after_tool_call", after)).host()
    config = compose(*host.hooks(), config=LoopConfig())
    # A single turn wraps the other hooks.
    config = compose(config=config) if is_single_turn else config
    model = ScriptedModel().will_call("echo")
    came = await run_loop(model, "go", tools=[Tool(body=secret)], config=config, signal=signal)

    assert came.outcomes == ["aborted"]
    assert came.results[0].text.startswith("[result withheld")
    assert "hunter2" not in str(came.events)


async def test_after_tool_call_hook_that_times_out_keeps_the_result(
    plugin_folder: PluginFolder,
) -> None:
    async def after(*_: Any) -> None:
        await asyncio.Event().wait()

    host = plugin_folder.add("slow", lambda dirge: dirge.on("after_tool_call", after)).host(
        limit_s=SHORT_S
    )
    model = ScriptedModel().will_call("echo").will_say("done")
    came = await run_with(host, model, tools=[Tool(body=secret)])

    assert came.results[0].text == "hunter2"
    assert "took longer" in plugin_folder.notices[0]
