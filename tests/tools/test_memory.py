"""The `memory` tool, with files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dirge_py.files.workspace import Workspace
from dirge_py.tools.base import ToolServices
from dirge_py.tools.toolbox import Toolbox, discover_tools
from dirge_py.types.tools import Claim
from tests.extensions.memory.test_files import kept_in
from tests.tools.conftest import ToolDriver


@pytest.fixture
def tools_with_memory(tools: ToolDriver, tmp_path: Path) -> Iterator[ToolDriver]:
    services = ToolServices(files=tools.workspace, memory=kept_in(tmp_path))
    tools.toolbox = Toolbox(discover_tools(), services, str(tools.folder))
    yield tools


async def test_memory_notes_are_added_viewed_replaced_and_removed(
    tools_with_memory: ToolDriver,
) -> None:
    call = tools_with_memory.text
    assert await call("memory", action="view") == "MEMORY.md is empty."
    done = await call("memory", action="add", content="use make")
    assert done == "Added to MEMORY.md. It is in your prompt from the next run on."
    await call("memory", action="add", store="user", content="tabs")
    await call("memory", action="replace", match="make", content="use ninja")
    assert await call("memory", action="view") == "- use ninja"
    await call("memory", action="remove", match="ninja")
    assert await call("memory", action="view") == "MEMORY.md is empty."
    assert await call("memory", action="view", store="user") == "- tabs"


async def test_argument_names_of_other_agents_are_accepted(tools_with_memory: ToolDriver) -> None:
    await tools_with_memory.text("memory", action="add", target="user", text="tabs")
    await tools_with_memory.text(
        "memory", action="replace", target="user", old_text="tab", content="x"
    )

    assert await tools_with_memory.text("memory", action="view", store="user") == "- x"


async def test_unmatched_text_error_shows_nearest_note(tools_with_memory: ToolDriver) -> None:
    await tools_with_memory.text("memory", action="add", content="run the tests with make test")

    refused = await tools_with_memory.refusal("memory", action="remove", match="tests by make")

    assert "`- run the tests with make test`" in refused


@pytest.mark.parametrize(
    "arguments", [{"action": "add"}, {"action": "replace", "content": " "}, {"action": "remove"}]
)
async def test_missing_argument_is_named(
    tools_with_memory: ToolDriver, arguments: dict[str, str]
) -> None:
    refused = await tools_with_memory.refusal("memory", **arguments)

    assert "is missing" in refused


@pytest.mark.parametrize(
    ("arguments", "resource", "shown"),
    [
        ({"action": "view"}, "view memory", None),
        ({"action": "add", "content": "x"}, "add memory", "add to MEMORY.md:\nx"),
        (
            {"action": "replace", "store": "user", "match": "a", "content": "b"},
            "replace user",
            "replace the part of USER.md with `a`:\nb",
        ),
        ({"action": "replace", "content": "b"}, "replace memory", "replace all of MEMORY.md:\nb"),
        (
            {"action": "remove", "match": "a"},
            "remove memory",
            "remove the part of MEMORY.md with `a`",
        ),
    ],
)
def test_memory_call_claims_and_previews_its_change(
    tools_with_memory: ToolDriver, arguments: dict[str, str], resource: str, shown: str | None
) -> None:
    tool = tools_with_memory.tool("memory")
    preview = tools_with_memory.preview("memory", **arguments)

    assert list(tool.claims(arguments)) == [Claim("memory", resource)]  # type: ignore[attr-defined]
    assert (preview.text if preview else None) == shown


def test_memory_tool_is_not_offered_without_memory(tmp_path: Path) -> None:
    workspace = Workspace([tmp_path], tmp_path)
    try:
        offered = Toolbox(discover_tools(), ToolServices(files=workspace), str(tmp_path)).loop_tools
    finally:
        workspace.close()

    assert "memory" not in [tool.name for tool in offered]
