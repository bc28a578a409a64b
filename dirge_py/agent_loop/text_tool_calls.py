"""Finds calls that a model wrote as text, in its thinking or its answer, instead of making them.

Text in the answer may be an example: calls in code blocks, in quotes or behind `>` do not count
there, nor do calls that would change anything.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dirge_py.agent_loop.tool_calls import prepare_call, signature
from dirge_py.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock
from dirge_py.types.tools import LoopTool, ToolValidator, changes_something

MOST_CALLS = 4
MOST_BYTES = 100 * 1024

_MOST_FALSE_STARTS = 32
_BAR = "[|｜]"
_INVOKE = re.compile(rf'<{_BAR}DSML{_BAR}invoke\s+name="([^"<>]{{1,200}})"\s*>')
_INVOKE_END = re.compile(rf"</{_BAR}DSML{_BAR}invoke>")
_PARAMETER = re.compile(
    rf'<{_BAR}DSML{_BAR}parameter\s+name="([^"<>]{{1,200}})"(?:\s+string="(true|false)")?\s*>'
)
_PARAMETER_END = re.compile(rf"</{_BAR}DSML{_BAR}parameter>")
_JSON_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}"]', re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_SET_APART = re.compile(r"^(?:[ \t]*>| {4}|\t).*$", re.MULTILINE)
_QUOTES = "\"'“”„«»‘’`"


class WrittenCall(NamedTuple):
    """A call that was written as text."""

    name: str
    arguments: dict[str, Any]


def with_written_calls(
    message: AssistantMessage,
    tools: Sequence[LoopTool],
    validate: ToolValidator | None,
    new_id: Callable[[], str],
) -> AssistantMessage:
    """Return the message with the calls in its text that fit a tool, if it has no other call."""
    if message.calls:
        return message
    thoughts = [block.text for block in message.content if isinstance(block, ThinkingBlock)]
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    if sum(len(text.encode(errors="replace")) for text in (*thoughts, *texts)) > MOST_BYTES:
        return message
    names = {tool.name for tool in tools}
    candidates = [
        *((call, False) for call in find_calls("\n".join(thoughts), names)),
        *((call, True) for call in find_calls(without_quotations("\n".join(texts)), names)),
    ]
    blocks: dict[str, ToolCallBlock] = {}
    for (name, arguments), is_public in candidates:
        block = ToolCallBlock(id=f"call_{new_id()}", name=name, arguments=arguments)
        call = prepare_call(block, tools, validate)
        if call.problem is None and not (is_public and changes_something(call)):
            blocks.setdefault(signature(name, arguments), block)
    if not blocks:
        return message
    chosen = list(blocks.values())[:MOST_CALLS]
    return replace(message, content=(*message.content, *chosen), stop_reason="toolUse")


def find_calls(text: str, names: Collection[str], *, most: int | None = None) -> list[WrittenCall]:
    """Return the calls of known tools in `text`, in order: DSML blocks first, then JSON objects."""
    rest, blocks = _without_blocks(text)
    calls = [*blocks, *filter(None, map(_as_call, _objects_in(rest)))]
    return [call for call in calls if call.name in names][:most]


def without_quotations(text: str) -> str:
    """Return the text without code blocks, code spans, indented and quoted lines."""
    text = _FENCE.sub("\n", text)
    text = _SET_APART.sub("", text)
    return _CODE_SPAN.sub(" ", text)


def _without_blocks(text: str) -> tuple[str, list[WrittenCall]]:
    """Return the text without DSML blocks, and their calls, so that no call counts twice."""
    calls: list[WrittenCall] = []
    rest: list[str] = []
    at = 0
    for begin, body, end in _elements(text, _INVOKE, _INVOKE_END):
        rest.append(text[at : begin.start()])
        at = end
        arguments = {
            parameter[1]: _literal(value) if parameter[2] == "false" else value
            for parameter, value, _ in _elements(body, _PARAMETER, _PARAMETER_END)
        }
        calls.append(WrittenCall(begin[1], arguments))
    # What follows an open block belongs to it.
    return "\n".join([*rest, _INVOKE.split(text[at:], 1)[0]]), calls


def _elements(
    text: str, first: re.Pattern[str], last: re.Pattern[str]
) -> Iterator[tuple[re.Match[str], str, int]]:
    """Yield the begin of each element in `text`, its content, and where it ends."""
    at = 0
    while (begin := first.search(text, at)) and (end := last.search(text, begin.end())):
        at = end.end()
        yield begin, text[begin.end() : end.start()], at


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Yield every JSON object that is not inside another one and not in quotation marks."""
    at, false_starts = text.find("{"), 0
    while at != -1 and false_starts < _MOST_FALSE_STARTS:
        end = _balanced_end(text, at)
        if end is None:
            false_starts += 1
            at = text.find("{", at + 1)
            continue
        if not (at and text[at - 1] in _QUOTES):
            value = _literal(text[at:end])
            if isinstance(value, dict):
                yield value
        at = text.find("{", end)


def _balanced_end(text: str, begin: int) -> int | None:
    """Return the position of the brace that closes the one at `begin`, ignoring strings."""
    depth = 0
    for mark in _JSON_MARK.finditer(text, begin):
        match mark.group():
            case "{":
                depth += 1
            case "}":
                depth -= 1
                if not depth:
                    return mark.end()
            case '"':
                return None  # a string that never ends
    return None


def _as_call(value: dict[str, Any]) -> WrittenCall | None:
    """Return the call that an object of one of the three known shapes stands for."""
    match value:
        case {"type": "function", "function": dict(inner)}:
            value = inner
    match value:
        case {"name": str(name), "arguments": arguments}:
            pass
        case {"tool_name": str(name), "tool_args": arguments}:
            pass
        case _:
            return None
    arguments = _literal(arguments) if isinstance(arguments, str) else arguments
    return WrittenCall(name, arguments) if isinstance(arguments, dict) else None
