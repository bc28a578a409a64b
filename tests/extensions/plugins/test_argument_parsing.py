"""The arguments of a call are parsed once, for all checks of what the call would do."""

from pathlib import Path

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.tools.base import ToolServices
from dirge_py.tools.function_tool import tool
from dirge_py.tools.toolbox import BoundTool, Toolbox
from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import Claim, ToolCall
from tests.support.plugin_conversation import open_with_plugins
from tests.support.project import ScriptedProject

COUNTING = """\
from typing import Annotated
from pydantic import BeforeValidator

def register(dirge):
    seen = []

    def counted(value):
        seen.append(value)
        return value

    @dirge.tool(op="edit", resource="path")
    async def put(path: Annotated[str, BeforeValidator(counted)]) -> str:
        "Say how often its arguments were parsed, in all calls so far."
        return str(len(seen))
"""
EDITING = """\

    @dirge.on("before_tool_call")
    def elsewhere(info, call):
        return dirge.edit({"path": "other.txt"})
"""


@pytest.mark.parametrize(("plugin", "times"), [(COUNTING, 1), (COUNTING + EDITING, 2)])
async def test_arguments_are_parsed_again_only_if_a_hook_changed_them(
    project: ScriptedProject, tmp_path: Path, plugin: str, times: int
) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "counting.py").write_text(plugin)
    async with open_with_plugins(project, folder) as it:
        it.model.will_call("put", path="a.txt").will_call("put", path="b.txt").will_say("done")
        await it.conversation.send("go")

    # The count of the second call includes all parses of the first call.
    assert [result.text for result in it.results] == [str(times), str(2 * times)]


@tool(op="edit", resource="path")
def append(path: str, lines: list[str]) -> str:
    """Change its own list, as functions do."""
    lines.append("more")
    return str(len(lines))


@pytest.fixture
def appending(tmp_path: Path) -> BoundTool:
    box = Toolbox([append], ToolServices(files=Workspace([tmp_path], tmp_path)), str(tmp_path))
    [bound] = box.loop_tools
    assert isinstance(bound, BoundTool)
    return bound


def test_claims_follow_arguments_changed_in_place(appending: BoundTool, tmp_path: Path) -> None:
    arguments = dict(appending.validate({"path": "a", "lines": []}))
    call = ToolCall(id="1", name="append", arguments=arguments, tool=appending)
    assert call.claims == (Claim("edit", f"{tmp_path}/a"),)

    arguments["path"] = "b"

    assert call.claims == (Claim("edit", f"{tmp_path}/b"),)


async def test_tool_that_mutates_its_arguments_does_not_affect_an_equal_call(
    appending: BoundTool,
) -> None:
    given = {"path": "a", "lines": ["one"]}
    first, second = appending.validate(given), appending.validate(given)

    results = [
        await appending.execute(str(number), arguments, AbortSignal(), lambda partial: None)
        for number, arguments in enumerate((first, second))
    ]

    assert [result.text for result in results] == ["2", "2"]


async def test_validated_arguments_are_independent_of_the_models_arguments(
    appending: BoundTool,
) -> None:
    given = {"path": "a", "lines": ["one"]}
    arguments = appending.validate(given)
    given["lines"].append("two")  # type: ignore[attr-defined]

    result = await appending.execute("1", arguments, AbortSignal(), lambda partial: None)

    assert result.text == "2"


@pytest.mark.parametrize("arguments", [{"path": 1}, {"lines": []}, {}])
def test_call_with_invalid_arguments_or_unbound_tool_has_no_claims(
    appending: BoundTool, arguments: dict[str, object]
) -> None:
    assert ToolCall(id="1", name="append", arguments=arguments, tool=appending).claims is None
    assert ToolCall(id="1", name="append", arguments=arguments).claims is None
