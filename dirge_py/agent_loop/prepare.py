"""From a call as the model wrote it to one that can run, or the words why it cannot."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dirge_py.agent_loop.argument_errors import cut_json, explain, place
from dirge_py.agent_loop.flatten import nested
from dirge_py.agent_loop.truncation import Parsed, parse_arguments
from dirge_py.lib.late import late
from dirge_py.lib.nearest import nearest
from dirge_py.types.messages import ToolCallBlock
from dirge_py.types.tools import (
    CallProblem,
    InvalidArguments,
    LoopTool,
    Operation,
    ToolCall,
    ToolOutcome,
    ToolValidator,
    changes_something,
    claims_only,
)

if TYPE_CHECKING:
    from dirge_py.agent_loop.repair import Dropped, Repaired, repair
else:
    repair = late("dirge_py.agent_loop.repair", "repair")

PROBLEM_OUTCOMES: Mapping[CallProblem, ToolOutcome] = {
    "unknown_tool": "unknown_tool",
    "invalid_arguments": "invalid",
    "truncated": "invalid",
}

CLOSED = "truncation_fixed"
"""Counts every call whose arguments broke off, also where nothing could be made of them."""

_AGAIN = "Make the call again with shorter arguments, or split the work into several calls."
_PREVIEW_BYTES = 500
_LOGGED_BYTES = 4096
_MOST_TOLD = 4

_READING: frozenset[Operation] = frozenset(("read",))
_SAYS_ALL: frozenset[Operation] = frozenset(("read", "edit", "execute"))
"""Calls of these are a path, a command or a text: what else names them is no part of them."""

_logger = logging.getLogger(__name__)


def prepare_call(
    block: ToolCallBlock,
    tools: Sequence[LoopTool],
    validate: ToolValidator | None,
    *,
    mend: bool = True,
) -> ToolCall:
    """The call with its tool and the arguments to use, or with its `problem`.

    With `mend` off, arguments run as they were written or not at all.
    """
    tool = next((tool for tool in tools if tool.name == block.name), None)
    if tool is None:
        return ToolCall(
            id=block.id,
            name=block.name,
            arguments=block.arguments,
            written=block.arguments,
            problem="unknown_tool",
            problem_text=_unknown(block.name, [tool.name for tool in tools]),
        )
    written = block.arguments
    if not isinstance(written, str):
        call = ToolCall(id=block.id, name=block.name, arguments=written, tool=tool, written=written)
        return _fitted(call, tool, validate, mend=mend)
    parsed = parse_arguments(written, may_close=mend)
    call = ToolCall(
        id=block.id, name=block.name, arguments=parsed.value, tool=tool, written=parsed.value
    )
    if parsed.state == "whole":
        return _fitted(call, tool, validate, mend=mend)
    call = replace(call, repairs=(CLOSED,) if mend else ())
    if parsed.state == "broken":
        return replace(call, problem="truncated", problem_text=_broken(call.name, parsed))
    return _closed(call, tool, validate)


def with_arguments(call: ToolCall, arguments: Any, validate: ToolValidator | None) -> ToolCall:
    """The call with other arguments, validated: they may mend its problem, or be one."""
    tool = call.tool
    if tool is None:
        return replace(call, arguments=arguments)
    call = replace(call, arguments=arguments, problem=None, problem_text="")
    try:
        return replace(call, arguments=_valid(tool, arguments, validate))
    except Exception as error:
        return _invalid(call, tool, error)


def _fitted(
    call: ToolCall,
    tool: LoopTool,
    validate: ToolValidator | None,
    *,
    mend: bool = True,
    keep_nulls: bool = False,
) -> ToolCall:
    """The call with arguments in the shape that the tool asks for."""

    def reshape(arguments: Any) -> Any:
        return tool.prepare_arguments(nested(tool.parameters, arguments))

    arguments = call.arguments
    try:
        arguments = reshape(arguments)
        if not mend:
            return replace(call, arguments=_valid(tool, arguments, validate))
        repaired = repair(
            tool.name,
            tool.parameters,
            arguments,
            lambda given: _valid(tool, given, validate),
            reshape=reshape,
            keep_nulls=keep_nulls,
        )
    except Exception as error:
        return _invalid(replace(call, arguments=arguments), tool, error)
    meant = _meant(tool, repaired)
    if meant:
        return _refused(replace(call, arguments=arguments), meant)
    return _repaired(call, repaired)


def _repaired(call: ToolCall, repaired: "Repaired") -> ToolCall:
    if not repaired.kinds:
        return replace(call, arguments=repaired.arguments, notes=(*call.notes, *repaired.notes))
    _logger.info(
        "repaired the arguments of %s (%s): %s",
        call.name,
        ", ".join(repaired.kinds),
        cut_json(call.written, _LOGGED_BYTES),
    )
    return replace(
        call,
        arguments=repaired.arguments,
        repairs=(*call.repairs, *repaired.kinds),
        notes=(*call.notes, *repaired.notes),
    )


def _closed(call: ToolCall, tool: LoopTool, validate: ToolValidator | None) -> ToolCall:
    """A call whose arguments broke off and could be closed: good enough to look, not to change."""
    # A name whose value never came was meant to have one, so its null is not left out.
    fitted = _fitted(call, tool, validate, keep_nulls=True)
    if fitted.problem is not None:
        text = f"The arguments of this `{call.name}` call were cut off. {_AGAIN}"
        return replace(fitted, problem="truncated", problem_text=f"{text}\n{fitted.problem_text}")
    if changes_something(tool, fitted.arguments):
        text = (
            f"The arguments of this `{call.name}` call were cut off, so it did not run: half of "
            f"what was meant must not be carried out. {_AGAIN}"
        )
        return replace(fitted, problem="truncated", problem_text=text)
    taken = cut_json(call.written, _PREVIEW_BYTES)
    note = f"`{call.name}`: the arguments were cut off; it ran with {taken}."
    return replace(fitted, notes=(note, *fitted.notes))


def _valid(tool: LoopTool, arguments: Any, validate: ToolValidator | None) -> Mapping[str, Any]:
    if not isinstance(arguments, Mapping):
        raise InvalidArguments("The arguments must be one JSON object.")
    return arguments if validate is None else validate(tool, arguments)


def _invalid(call: ToolCall, tool: LoopTool, error: Exception) -> ToolCall:
    text = explain(
        call.name,
        tool.parameters,
        call.arguments,
        message=str(error) or type(error).__name__,
        problems=error.problems if isinstance(error, InvalidArguments) else (),
    )
    _logger.info("invalid arguments for %s: %s", call.name, error)
    return replace(call, problem="invalid_arguments", problem_text=text)


def _broken(name: str, parsed: Parsed) -> str:
    preview = cut_json(parsed.value, _PREVIEW_BYTES)
    return (
        f"The arguments of this `{name}` call are no whole JSON ({parsed.reason}), cut off or "
        f"malformed, so it did not run. {_AGAIN}\nGot: {preview}"
    )


def _meant(tool: LoopTool, repaired: "Repaired") -> "Sequence[Dropped]":
    """What was left out of a call that does more than read, and could have been its point."""
    if not repaired.dropped or claims_only(tool, repaired.arguments, _READING):
        return ()
    takes_labels = claims_only(tool, repaired.arguments, _SAYS_ALL)
    return [
        one for one in repaired.dropped if not (one.is_reason or (one.is_label and takes_labels))
    ]


def _refused(call: ToolCall, meant: "Sequence[Dropped]") -> ToolCall:
    """The call refused for properties that its tool does not have: they may have been its point."""
    told = [
        f"`{call.name}` has no property `{place(one.path)}`. "
        f"Its properties: {', '.join(f'`{name}`' for name in one.known)}."
        for one in meant[:_MOST_TOLD]
    ]
    _logger.info("refused %s: %s", call.name, " ".join(told))
    text = (
        f"{' '.join(dict.fromkeys(told))} Nothing was run and nothing was changed: without it the "
        "call might do something else than you mean. Use the properties that exist, or leave "
        "it out if the call is correct without it."
    )
    return replace(call, problem="invalid_arguments", problem_text=text)


def _unknown(name: str, known: Sequence[str]) -> str:
    meant = nearest(name, known)
    if meant is not None:
        return f"There is no tool `{name}`. Did you mean `{meant}`?"
    if not known:
        return f"There is no tool `{name}`; no tools are available."
    return f"There is no tool `{name}`. There are: {', '.join(sorted(known))}."
