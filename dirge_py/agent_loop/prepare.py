"""From a call as the model wrote it to one that can run, or the words why it cannot."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dirge_py.calls import CallProblem, LoopTool, ToolCall, ToolOutcome, ToolValidator
from dirge_py.lib.nearest import nearest
from dirge_py.messages import ToolCallBlock

PROBLEM_OUTCOMES: Mapping[CallProblem, ToolOutcome] = {
    "unknown_tool": "unknown_tool",
    "invalid_arguments": "invalid",
    "truncated": "invalid",
}

_TRUNCATED = (
    "The arguments of this call were cut off before they were complete, so it did not run. "
    "Make the call again with shorter arguments, or split the work into several calls."
)
_NO_OBJECT = "The arguments must be one JSON object."


def prepare_call(
    block: ToolCallBlock, tools: Sequence[LoopTool], validate: ToolValidator | None
) -> ToolCall:
    """The call with its tool and the arguments to use, or with its `problem`."""
    call = ToolCall(id=block.id, name=block.name, arguments=block.arguments)
    tool = next((tool for tool in tools if tool.name == block.name), None)
    if tool is None:
        text = _unknown(block.name, [tool.name for tool in tools])
        return replace(call, problem="unknown_tool", problem_text=text)
    call, arguments = replace(call, tool=tool), block.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return replace(call, problem="truncated", problem_text=_TRUNCATED)
    try:
        arguments = tool.prepare_arguments(arguments)
    except Exception as error:
        return _invalid(call, str(error) or type(error).__name__)
    return with_arguments(call, arguments, validate)


def with_arguments(call: ToolCall, arguments: Any, validate: ToolValidator | None) -> ToolCall:
    """The call with other arguments, validated: they may mend its problem, or be one."""
    tool = call.tool
    if tool is None:
        return replace(call, arguments=arguments)
    call = replace(call, arguments=arguments, problem=None, problem_text="")
    if not isinstance(arguments, Mapping):
        return _invalid(call, _NO_OBJECT)
    if validate is None:
        return call
    try:
        return replace(call, arguments=validate(tool, arguments))
    except Exception as error:
        return _invalid(call, str(error) or type(error).__name__)


def _invalid(call: ToolCall, why: str) -> ToolCall:
    text = f"Invalid arguments for `{call.name}`, so it did not run. {why}"
    return replace(call, problem="invalid_arguments", problem_text=text)


def _unknown(name: str, known: Sequence[str]) -> str:
    meant = nearest(name, known)
    if meant is not None:
        return f"There is no tool `{name}`. Did you mean `{meant}`?"
    if not known:
        return f"There is no tool `{name}`; no tools are available."
    return f"There is no tool `{name}`. There are: {', '.join(sorted(known))}."
