"""Removing single registrations and whole plugins within a session."""

from pathlib import Path
from typing import Any

import pytest

from dirge_py.extensions.plugins.host import PluginHost
from dirge_py.files.workspace import Workspace
from dirge_py.testing import ScriptedModel
from dirge_py.tools.base import ToolServices
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Section
from tests.support.histories import build_prompt
from tests.support.loop_runs import Tool
from tests.support.plugins import PluginFolder, run_with


async def test_registration_handle_can_be_closed_and_called(
    plugin_folder: PluginFolder,
):
    handles: list[Any] = []
    asked: list[str] = []

    def register(dirge: Any) -> None:
        @dirge.on("transform_context")
        def look(info: Any) -> None:
            asked.append("look")

        handles.append(look)
        handles.append(dirge.on("turn_start", lambda event: asked.append("heard")))

    host = plugin_folder.add("a", register).host()
    model = ScriptedModel().will_say("one").will_say("two")
    await run_with(host, model)
    handles[0](None)
    assert sorted(asked) == ["heard", "look", "look"]
    for handle in handles:
        handle.close()
        handle.close()
    await run_with(host, model)
    await host.close()
    assert len(asked) == 3
    assert host.order() == []


async def test_hook_closed_during_a_run_is_not_called_again(plugin_folder: PluginFolder):
    asked: list[int] = []

    def register(dirge: Any) -> None:
        @dirge.on("transform_context")
        def once(info: Any) -> None:
            asked.append(info.turn)
            once.close()

    model = ScriptedModel().will_call("echo").will_say("done")
    await run_with(plugin_folder.add("a", register).host(), model)
    assert asked == [1]


async def test_hook_registered_during_a_run_starts_with_the_next_run(plugin_folder: PluginFolder):
    asked: list[str] = []

    def register(dirge: Any) -> None:
        @dirge.on("agent_start")
        def begin(event: Any) -> None:
            dirge.on("transform_context", lambda info: asked.append("late"))
            begin.close()

    host = plugin_folder.add("a", register).host()
    model = ScriptedModel().will_say("one").will_say("two")
    await run_with(host, model)
    await run_with(host, model)
    assert asked == ["late"]


def everything(asked: list[str]) -> Any:
    def register(dirge: Any) -> None:
        @dirge.on("transform_context")
        def look(info: Any) -> None:
            asked.append("hook")

        @dirge.around_tool
        async def around(call: Any, proceed: Any) -> Any:
            asked.append("around")
            return await proceed()

        @dirge.tool
        def lookup(key: str) -> str:
            """Look up."""
            return key

        dirge.command("look", "look", lambda args, conversation, front: "looked")
        dirge.on("before_prompt_build", lambda sections: dirge.prompt(append="look first"))
        dirge.on("turn_start", lambda event: asked.append("event"))

    return register


def toolbox(host: PluginHost, cwd: Path) -> Toolbox:
    return Toolbox(host.tools(), ToolServices(files=Workspace([cwd], cwd)), str(cwd))


async def test_case_a74_removed_plugin_is_gone_with_everything_it_registered(
    plugin_folder: PluginFolder, tmp_path: Path
):
    asked: list[str] = []
    host = plugin_folder.add("a", everything(asked)).add("b", lambda dirge: None).host()
    tools = [Tool(), *toolbox(host, tmp_path).loop_tools]
    host.remove("a")

    model = ScriptedModel().will_call("lookup", key="x").will_call("echo").will_say("done")
    came = await run_with(host, model, tools=tools)
    await host.close()
    assert asked == []
    assert came.outcomes == ["unknown_tool", "ok"]
    assert [tool.name for tool in model.seen[0].tools] == ["echo"]
    assert (host.tools(), host.commands(), host.chain("echo")) == ([], [], [])
    assert (
        build_prompt([Section(name="a", priority=0, text="hello")], [host.edit_prompt]) == "hello"
    )
    assert [(plugin.name, plugin.state) for plugin in host.report()] == [("a", "off"), ("b", "on")]


async def test_registration_after_plugin_removal_is_refused(plugin_folder: PluginFolder):
    kept: list[Any] = []
    host = plugin_folder.add("a", kept.append).host()
    host.remove("a")
    with pytest.raises(Exception, match="the plugin `a` is off"):
        kept[0].on("turn_start", print)


def test_removing_an_unknown_plugin_lists_the_active_plugins(plugin_folder: PluginFolder):
    host = plugin_folder.add("a", lambda dirge: None).host()
    with pytest.raises(UsageError, match="there is no plugin `b` that is on") as raised:
        host.remove("b")
    assert raised.value.hint == "On: a."
