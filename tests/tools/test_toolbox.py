import json
from pathlib import Path

import pytest

from dirge_py.claims import Claim
from dirge_py.errors import UsageError
from dirge_py.tools import registry
from dirge_py.tools.base import Services
from dirge_py.tools.toolbox import Toolbox

NOT_TOOLS = {"__init__", "base", "json_schema", "registry", "schema", "toolbox"}


def test_every_tool_is_a_file_with_its_text_beside_it():
    folder = Path(registry.__file__).parent
    modules = {file.stem for file in folder.glob("*.py")} - NOT_TOOLS

    assert modules == set(registry.names())
    assert [tool.name for tool in registry.discover()] == registry.names()


def test_all_tools_together_are_told_in_6_kb(bench):
    told = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in bench.toolbox.loop_tools
    ]

    assert len(json.dumps(told).encode()) <= 6000
    assert "title" not in json.dumps(told)


def test_a_schema_is_the_same_bytes_every_time(bench):
    again = Toolbox(registry.discover(), Services(files=bench.workspace), "/")

    for tool in again.loop_tools:
        assert json.dumps(tool.parameters) == json.dumps(bench.tool(tool.name).parameters)


def test_a_tool_without_its_service_is_not_offered(bench):
    names = Toolbox(registry.discover(), Services(files=bench.workspace), "/").names

    assert "read" in names
    assert not {"bash", "grep"} & set(names)


def test_d61_an_unknown_tool_names_the_nearest(bench):
    with pytest.raises(UsageError) as caught:
        bench.toolbox.claims("reed", "x")

    assert caught.value.hint == "Did you mean `read`?"


def test_a_string_fills_the_first_required_field(bench):
    assert bench.toolbox.claims("read", "a") == [Claim("read", f"{bench.folder}/a")]


def test_wrong_arguments_are_named_with_what_was_expected(bench):
    tool = bench.tool("read")

    with pytest.raises(ValueError) as caught:
        bench.toolbox.validate(tool, {"paht": "a", "limit": 0})

    assert str(caught.value).split("\n") == [
        "The arguments of `read` do not fit:",
        "- `path` is required.",
        "- `limit`: input should be greater than or equal to 1 (got 0).",
        "- `paht` is unknown. Did you mean `path`?",
        "Expected: path, offset (optional), limit (optional).",
    ]


def test_a_change_that_cannot_be_made_has_no_preview(bench):
    assert bench.preview("edit", path="none", old_text="a", new_text="b") is None


async def test_an_aborted_call_ends_at_once(bench):
    bench.put("a", "x")
    bench.signal.abort()

    result = await bench.call("read", path="a")

    assert result.details["outcome"] == "aborted"
