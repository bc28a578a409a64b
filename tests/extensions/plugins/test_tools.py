"""Tools of plugins: typed functions under the same permission rules as other tools."""

import sys
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.testing import ScriptedModel
from dirge_py.tools.base import ToolServices
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.tools import Claim, LoopTool
from tests.support.plugins import PluginFolder, run_with


def tools_of(plugin_folder: PluginFolder, cwd: Path, fn: Any, **options: Any) -> list[LoopTool]:
    host = plugin_folder.add("a", lambda dirge: dirge.tool(fn, **options)).host()
    assert host.notices() == ()
    return list(
        Toolbox(host.tools(), ToolServices(files=Workspace([cwd], cwd)), str(cwd)).loop_tools
    )


async def lookup(key: Annotated[str, "What to look up."], deep: bool = False) -> str:
    """Look up a value by key."""
    return f"{key} is {deep}"


def test_typed_function_becomes_a_tool_with_description_and_schema(
    plugin_folder: PluginFolder, tmp_path: Path
):
    [tool] = tools_of(plugin_folder, tmp_path, lookup)
    assert (tool.name, tool.description) == ("lookup", "Look up a value by key.")
    assert tool.parameters["properties"]["key"] == {
        "description": "What to look up.",
        "type": "string",
    }
    assert tool.parameters["required"] == ["key"]


def test_plugin_tool_is_sequential_and_claims_plugin_by_default(
    plugin_folder: PluginFolder, tmp_path: Path
):
    [plain] = tools_of(plugin_folder, tmp_path, lookup)
    assert plain.execution_mode == "sequential"
    assert plain.claims({"key": "x"}) == [Claim("plugin", "lookup")]

    plugin_folder.found.clear()
    [open_one] = tools_of(
        plugin_folder, tmp_path, lookup, op="read", resource="key", mode="parallel"
    )
    assert open_one.execution_mode == "parallel"
    assert open_one.claims({"key": "x"}) == [Claim("read", str(tmp_path / "x"))]


def test_plugin_tool_can_limit_and_describe_its_results(
    plugin_folder: PluginFolder, tmp_path: Path
):
    schema = {"type": "string"}
    options: dict[str, Any] = {"max_result_chars": 20_000, "output_schema": schema}
    [tool] = tools_of(plugin_folder, tmp_path, lookup, **options)
    assert {name: getattr(tool, name) for name in options} == options


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_plugin_tool_prints_to_stderr_and_cannot_exit_the_program(
    plugin_folder: PluginFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    out, err = StringIO(), StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    def plain() -> str:
        """Exit."""
        sys.stdout.write("bye\n")
        sys.exit(3)

    async def coroutine() -> str:
        """Exit."""
        return plain()

    fn = plain if kind == "plain" else coroutine
    tools = tools_of(plugin_folder, tmp_path, fn, name="leave")
    model = ScriptedModel().will_call("leave").will_say("done")
    came = await run_with(plugin_folder.host(), model, tools=tools)
    assert came.outcomes == ["error"]
    assert "it tried to exit (3)" in came.results[0].text
    assert (out.getvalue(), err.getvalue()) == ("", "bye\n")


async def test_tool_of_a_plugin_that_was_turned_off_returns_an_error(
    plugin_folder: PluginFolder, tmp_path: Path
):
    tools = tools_of(plugin_folder, tmp_path, lookup)
    host = plugin_folder.host()
    [tool] = Toolbox(
        host.tools(), ToolServices(files=Workspace([tmp_path], tmp_path)), str(tmp_path)
    ).loop_tools
    host.remove("a")
    model = ScriptedModel().will_call("lookup", key="x").will_say("done")
    came = await run_with(plugin_folder.host(), model, tools=[tool])
    assert "was turned off" in came.results[0].text
    assert tools[0].name == "lookup"
