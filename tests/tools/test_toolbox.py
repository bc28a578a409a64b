import json
import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from pydantic import BaseModel

from dirge_py.tools import toolbox
from dirge_py.tools.arguments import ToolArgs
from dirge_py.tools.base import Tool, ToolServices
from dirge_py.tools.toolbox import Toolbox
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import FileError, ModelRetry, UsageError
from dirge_py.types.tools import Claim, InvalidArguments
from tests.tools import definitions

NOT_TOOLS = {
    "__init__",
    "arguments",
    "base",
    "function_tool",
    "schema",
    "syntax_check",
    "threads",
    "todo_list",
    "toolbox",
}


def test_every_tool_module_is_listed_by_name():
    folder = Path(toolbox.__file__).parent
    modules = {file.stem for file in folder.glob("*.py")} - NOT_TOOLS

    assert modules == set(toolbox.tool_names())
    assert [tool.name for tool in toolbox.discover_tools()] == toolbox.tool_names()


def test_definitions_are_those_of_the_modules():
    text = definitions.FILE.read_text(encoding="utf-8")

    assert text == definitions.rendered(), "Run `make definitions`."


def test_defined_tools_equal_those_of_the_modules():
    own = definitions.built_in_tools()

    for tool in toolbox.discover_tools():
        assert definitions.definition(tool) == definitions.definition(own[tool.name])
        assert json.dumps(tool.parameters) == json.dumps(own[tool.name].parameters)
        assert tool.args is own[tool.name].args


@pytest.mark.parametrize("name", ["unavailable", "around"])
def test_no_module_has_what_definitions_leave_out(name):
    kinds = [type(tool) for tool in definitions.built_in_tools().values()]

    assert [kind for kind in kinds if getattr(kind, name) is not getattr(Tool, name)] == []


def test_schemas_of_all_tools_fit_in_10_kb(tools):
    schemas = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in tools.toolbox.loop_tools
    ]

    assert len(json.dumps(schemas).encode()) <= 10_000
    assert "title" not in json.dumps(schemas)


def test_tool_schema_serializes_to_same_bytes_every_time(tools):
    again = Toolbox(toolbox.discover_tools(), ToolServices(files=tools.workspace), "/")

    for tool in again.loop_tools:
        assert json.dumps(tool.parameters) == json.dumps(tools.tool(tool.name).parameters)


OFFER_TOOLS = """
import sys
from dirge_py.tools.toolbox import Toolbox, discover_tools
from dirge_py.tools.base import ToolServices
box = Toolbox(discover_tools(), ToolServices(files=None, processes=object(), web=object()), "/")
print([(t.name, t.description, t.parameters, t.unavailable, t.hints) for t in box.loop_tools][0])
ours = [name for name in sys.modules if name.startswith("dirge_py.tools")]
print(sorted(ours), "pydantic" in sys.modules)
"""


def test_offered_tools_import_neither_their_modules_nor_pydantic():
    command = [sys.executable, "-c", OFFER_TOOLS]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    known = ["dirge_py.tools", "dirge_py.tools.base", "dirge_py.tools.toolbox"]
    assert printed.splitlines()[-1] == f"{known} False"


PRINT_SCHEMAS = """
import json
import os
import subprocess
import sys
from dirge_py.tools.toolbox import discover_tools
print(json.dumps([[tool.name, tool.args.model_json_schema()] for tool in discover_tools()]))
"""


def test_a103_tool_schemas_do_not_depend_on_hash_seed():
    schemas = {
        subprocess.run(
            [sys.executable, "-c", PRINT_SCHEMAS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(schemas) == 1


def test_tool_without_its_service_is_not_offered(tools):
    names = Toolbox(toolbox.discover_tools(), ToolServices(files=tools.workspace), "/").names

    assert "read" in names
    assert not {"bash", "grep"} & set(names)


def test_d61_unknown_tool_error_suggests_nearest(tools):
    with pytest.raises(UsageError) as caught:
        tools.toolbox.claims("reed", "x")

    assert caught.value.hint == "Did you mean `read`?"


def test_string_arguments_fill_first_required_field(tools):
    assert tools.toolbox.claims("read", "a") == [Claim("read", f"{tools.folder}/a")]


def test_invalid_arguments_error_lists_problems_and_expected_fields(tools):
    tool = tools.tool("read")

    with pytest.raises(ValueError) as caught:
        tools.toolbox.validate(tool, {"paht": "a", "limit": 0})

    assert str(caught.value).split("\n") == [
        "The arguments of `read` do not fit:",
        "- `path` is required.",
        "- `limit`: input should be greater than or equal to 1 (got 0).",
        "- `paht` is unknown. Did you mean `path`?",
        "Expected: path, offset (optional), limit (optional).",
    ]


def test_preview_of_impossible_change_is_file_error(tools):
    with pytest.raises(FileError, match="none"):
        tools.preview("edit", path="none", old_text="a", new_text="b")


async def test_aborted_call_ends_at_once(tools):
    tools.put("a", "x")
    tools.signal.abort()

    result = await tools.call("read", path="a")

    assert result.details["outcome"] == "aborted"


def problems(tools, name, arguments):
    with pytest.raises(InvalidArguments) as caught:
        tools.toolbox.validate(tools.tool(name), arguments)
    return {(each.path, each.kind) for each in caught.value.problems}


def test_argument_problems_have_paths(tools):
    assert problems(tools, "read", {"paht": "a", "limit": 0, "offset": "x"}) == {
        (("path",), "missing"),
        (("paht",), "extra"),
        (("limit",), "other"),
        (("offset",), "type"),
    }


def test_a22_bool_is_no_number_and_whole_float_is(tools):
    assert problems(tools, "read", {"path": "a", "limit": True}) == {(("limit",), "type")}
    valid = tools.toolbox.validate(tools.tool("read"), {"path": "a", "limit": 1.0})
    assert valid == {"path": "a", "limit": 1}


class Part(BaseModel):
    n: int
    yes: bool = False
    word: Literal["a", "b"] = "a"


class DeepArgs(ToolArgs):
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    either: int | list[Part] = 0


class Deep(Tool[DeepArgs]):
    name = "deep"
    label = "Deep"
    args = DeepArgs
    description = "Go deep."

    def claims(self, args, ctx):
        return []

    async def run(self, args, ctx):
        raise ModelRetry("deeper")


@pytest.fixture
def deep(tools):
    toolbox = Toolbox([Deep()], ToolServices(files=tools.workspace), "/")
    return toolbox, toolbox.loop_tools[0]


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        ({"part": {"n": True, "yes": True}}, {(("part", "n"), "type")}),
        ({"parts": [{"n": 1}, {"n": False}]}, {(("parts", 1, "n"), "type")}),
        ({"parts": [{"n": 1, "word": "c"}]}, {(("parts", 0, "word"), "enum")}),
        ({"parts": [{}]}, {(("parts", 0, "n"), "missing")}),
        ({"parts": {"n": 1}}, {(("parts",), "type")}),
        ({"either": [{}]}, {(("either",), "type"), (("either", 0, "n"), "missing")}),
    ],
)
def test_argument_problem_paths_lead_into_nested_arguments(deep, arguments, places):
    toolbox, tool = deep
    with pytest.raises(InvalidArguments) as caught:
        toolbox.validate(tool, arguments)
    assert {(each.path, each.kind) for each in caught.value.problems} == places


async def test_a20_model_retry_is_raised_unchanged(deep):
    with pytest.raises(ModelRetry, match="deeper"):
        await deep[1].execute("1", {}, AbortSignal(), lambda partial: None)


class Foreign:
    name = "foreign"
    parameters: ClassVar = {"type": "object", "required": ["path"]}


def test_foreign_loop_tool_is_validated_by_its_schema(tools):
    assert tools.toolbox.validate(Foreign(), {"path": "a"}) == {"path": "a"}
    with pytest.raises(InvalidArguments, match="`path` is required"):
        tools.toolbox.validate(Foreign(), {})
