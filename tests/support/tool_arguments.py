"""Tools with schemas and claims, and entries into the argument pipeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dirge_py.agent_loop import LoopConfig
from dirge_py.agent_loop.tool_calls import prepare_call
from dirge_py.testing import ScriptedModel
from dirge_py.tools.toolbox import validate_schema
from dirge_py.types.messages import ToolCallBlock
from dirge_py.types.tools import Claim, Operation, ToolCall
from tests.support.loop_runs import Tool

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
STRICT = {"type": "object", "properties": {"path": STRING}, "required": ["path"]}


@dataclass
class OperationTool(Tool):
    """A tool that claims these operations on one resource; none by default."""

    ops: Sequence[Operation] = ()

    def claims(self, arguments: Mapping[str, Any]) -> Sequence[Claim]:
        return [Claim(op, "/x") for op in self.ops]


class Unsure(Tool):
    def claims(self, arguments: Mapping[str, Any]) -> Sequence[Claim]:
        raise RuntimeError("it cannot say")


def shaped(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    """The schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def by_schema(tool: Any, arguments: Any) -> Mapping[str, Any]:
    return validate_schema(tool.parameters, arguments, tool=tool.name)


CHECKED = LoopConfig(validate=by_schema)


def prepared(tool: Any, arguments: Any, **options: Any) -> ToolCall:
    block = ToolCallBlock(id="1", name=tool.name, arguments=arguments)
    return prepare_call(block, [tool], by_schema, **options)


def mended(schema: Mapping[str, Any], arguments: Any) -> tuple[Any, tuple[str, ...]]:
    """The repaired arguments and the kinds of repair, or the error text."""
    call = prepared(Tool("read", parameters=schema), arguments)
    return (call.problem_text if call.problem else call.arguments), call.repairs


def asking(*calls: tuple[str, Any]) -> ScriptedModel:
    return ScriptedModel().will_call_all(*calls).will_say("done")
