"""Finds calls that a model wrote as text, in its thinking or its answer, instead of making them.

| syntax                                                                   | written by       |
|--------------------------------------------------------------------------|------------------|
| `<invoke name="read"><parameter name="path">a</parameter></invoke>`      | Claude, MiniMax  |
| `<tool_name>read</tool_name><parameters><path>a</path></parameters>`     | Claude 2         |
| `<read><path>a</path></read>`                                            | prompts of Cline |
| `<｜DSML｜invoke name="read">…`, `<｜tool▁call▁begin｜>read{…}`          | DeepSeek         |
| `<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{…}`     | Kimi             |
| `<tool_call>{"name": "read", "arguments": {…}}</tool_call>`              | Hermes, Qwen     |
| `<function=read><parameter=path>a</parameter></function>`                | Qwen3-Coder      |
| `<function=read>{"path": "a"}</function>`                                | Llama            |
| `<tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value>`         | GLM              |
| `<|channel|>commentary to=functions.read <|message|>{…}<|call|>`         | Harmony          |
| `{"name": "read", "arguments": {…}}`, and other names for both members   | all              |

Text in the answer may be an example: calls in code blocks, in quotes or behind `>` do not count
there. A call that would change anything never runs from text, nor does one that is cut off.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from dirge_py.agent_loop.argument_repair import read_json
from dirge_py.agent_loop.tool_calls import prepare_call, signature
from dirge_py.agent_loop.tool_names import known_tool_name
from dirge_py.lib.lazy import late_pattern
from dirge_py.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock
from dirge_py.types.tools import LoopTool, ToolValidator, changes_something

MOST_CALLS = 4
MOST_BYTES = 100 * 1024

ToolArguments: TypeAlias = Mapping[str, Collection[str]]
"""The names of a tool's arguments, by the name of the tool."""

FENCE = late_pattern(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
"""A code block of Markdown."""

_MOST_FALSE_STARTS = 12
_FEW = 100
_BAR = "[|｜]"
_TOOL = r"[\w.-]{1,80}"
_OPENING = late_pattern(
    # The first line only saves time.
    rf"""
      (?=[<{{]|to=|function=)(?:
      (?P<element><(?P<element_tag>(?:{_BAR}DSML{_BAR}|[\w-]{{1,20}}:)?(?:invoke|function|tool_call|tool))
          \s+name="(?P<element_name>[^"<>]{{1,200}})"\s*>)
    | (?P<assigned><?\bfunction=(?P<assigned_name>{_TOOL})[ \t]{{0,3}}>?(?=\s*[{{<]))
    | (?P<named><(?P<inner_tag>tool_name|function_name|name)>\s*(?P<named_name>{_TOOL})\s*
          </(?P=inner_tag)>\s*<(?P<named_tag>parameters|arguments|params|args|input)>)
    | (?P<keyed><tool_call>\s*(?P<keyed_name>{_TOOL})\s*(?=<arg_key>))
    | (?P<wrapped><(?:tool_call|tool_use|function_call)>\s*(?={{))
    | (?P<token><{_BAR}tool[_▁]call[_▁]begin{_BAR}>\s*(?:function\s*<{_BAR}tool[_▁]sep{_BAR}>)?\s*
          (?P<token_name>{_TOOL})(?::\d{{1,6}})?)
    | (?P<routed>\bto=(?P<routed_name>{_TOOL})
          (?:\s|<\|\w{{1,20}}\|>|commentary|analysis|json|code|assistant){{0,40}}(?={{))
    | (?P<tags><(?P<tags_tag>(?P<tags_name>[A-Za-z_][\w-]{{0,80}}))>(?=\s*<[A-Za-z_]))
    | (?P<object>{{(?=\s*")))
    """,
    re.VERBOSE,
)
_ARGUMENT = late_pattern(
    rf"<((?:{_BAR}DSML{_BAR}|[\w-]{{1,20}}:)?parameter)"
    r'(?:\s+name="([^"<>]{1,200})"|=([^<>"\s]{1,200}))(?:\s+string="(true|false)")?\s*>'
    r"|<arg_key>([^<>]{1,200})</arg_key>\s*<(arg_value)>|<([A-Za-z_][\w-]{0,80})>"
)
_BEFORE_OBJECT = late_pattern(rf"\s*(?:<{_BAR}[^<>]{{1,40}}{_BAR}>)?\s*(?:```\w{{0,10}}\s*)?(?={{)")
_NAME_IN_JSON = late_pattern(rf"\{{[^{{}}]{{0,80}}['\"]name['\"]\s*:\s*['\"]({_TOOL})['\"]")
_JSON_MARK = late_pattern(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}"]', re.DOTALL)
_CLOSED_BY = {"assigned": "function", "keyed": "tool_call"}
_CODE_SPAN = late_pattern(r"(`+)(?!`).*?(?<!`)\1(?!`)")
# An indented line is code only after an empty one: elements are often indented.
_SET_APART = late_pattern(
    r"^[ \t]*>.*$|(?:\A|(?<=\n)[ \t]*\n)(?:(?: {4}|\t).*(?:\n|\Z))+", re.MULTILINE
)
_QUOTES = "\"'“”„«»‘’`"
_NAME_KEYS = ("name", "tool_name", "tool", "function", "function_name", "action", "recipient_name")
_ARGUMENTS_KEYS = (
    *("arguments", "tool_args", "parameters", "args", "input", "tool_input", "action_input"),
)


class WrittenCall(NamedTuple):
    """A call that was written as text."""

    name: str
    """The name of the tool."""
    arguments: dict[str, Any] | None
    """The arguments, as far as they are complete; None if they are cut off or cannot be read."""
    begin: int
    """Where it begins in the text."""
    end: int
    """Where it ends."""
    is_bare: bool = False
    """Whether it is only a JSON object, without markup that says what it is."""


def with_written_calls(
    message: AssistantMessage,
    tools: Sequence[LoopTool],
    validate: ToolValidator | None,
    new_id: Callable[[], str],
) -> AssistantMessage:
    """Return the message with the calls in its text that only read, if it has no other call."""
    if message.calls:
        return message
    blocks: dict[str, ToolCallBlock] = {}
    for name, arguments, *_ in calls_in_text(message, tools):
        block = ToolCallBlock(id=f"call_{new_id()}", name=name, arguments=arguments)
        call = prepare_call(block, tools, validate)
        if call.problem is None and not changes_something(call, ["read"]):
            blocks.setdefault(signature(name, arguments), block)
    if not blocks:
        return message
    chosen = list(blocks.values())[:MOST_CALLS]
    return replace(message, content=(*message.content, *chosen), stop_reason="toolUse")


def calls_in_text(message: AssistantMessage, tools: Sequence[LoopTool]) -> list[WrittenCall]:
    """Return the whole calls of `tools` in the thinking, and those in the text but quoted ones."""
    thoughts, text = thinking_and_text(message)
    if len((thoughts + text).encode(errors="replace")) > MOST_BYTES:
        return []
    names = tool_arguments(tools)
    return [*find_calls(thoughts, names), *find_calls(text, names, without_quotations(text))]


def thinking_and_text(message: AssistantMessage) -> tuple[str, str]:
    """Return all thinking of a message, and all its text."""
    thoughts = (block.text for block in message.content if isinstance(block, ThinkingBlock))
    texts = (block.text for block in message.content if isinstance(block, TextBlock))
    return "\n".join(thoughts), "\n".join(texts)


def tool_arguments(tools: Sequence[LoopTool]) -> ToolArguments:
    """Return the names of the arguments of each tool."""
    return {tool.name: tuple(tool.parameters.get("properties") or ()) for tool in tools}


def find_calls(text: str, tools: ToolArguments, shown: str | None = None) -> list[WrittenCall]:
    """Return the whole calls in `text`, in order; `shown` is as in `scan`."""
    return [call for call in scan(text, tools, shown) if call.arguments is not None]


def scan(text: str, tools: ToolArguments, shown: str | None = None) -> Iterator[WrittenCall]:
    """Yield the calls of `tools` in `text`, in order, also those that are cut off.

    A call begins only where `shown`, which is `text` with blanks in it, has its beginning, too.
    """
    at, false_starts = 0, 0
    shown = text if shown is None else shown
    while false_starts < _MOST_FALSE_STARTS and (opening := _OPENING.search(shown, at)):
        begin, kind = opening.start(), opening.lastgroup
        named = _known(opening.groupdict().get(f"{kind}_name") or "", tools)
        reading = _read(opening, text, named, tools)
        if reading is None:
            # Tags of other things are no false starts: there may be many, and they cost little.
            false_starts += kind != "tags" or bool(named)
            at = begin + 1
            continue
        name, arguments, end = reading
        at = max(end, opening.end())
        if name:
            yield WrittenCall(name, arguments, begin, end, is_bare=kind == "object")


def without_quotations(text: str) -> str:
    """Return `text` with blanks for code blocks, code spans, indented and quoted lines."""
    for quotation in (FENCE, _SET_APART, _CODE_SPAN):
        text = blank_out(text, (found.span() for found in quotation.finditer(text)))
    return text


def blank_out(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return `text` with blanks in these places, but the same lines."""
    pieces, at = [], 0
    for begin, end in sorted(spans):
        pieces += [text[at:begin], re.sub(r"[^\n]", " ", text[max(at, begin) : end])]
        at = max(at, end)
    return "".join([*pieces, text[at:]])


def _known(name: str, tools: ToolArguments) -> str:
    """Return the name of the tool that a model means by `name`; "" if there is none."""
    return _named(name, tuple(tools)) or ""


# A text may have thousands of tags, but few names.
_named = lru_cache(maxsize=1024)(known_tool_name)


def _read(
    opening: re.Match[str], text: str, name: str, tools: ToolArguments
) -> tuple[str, dict[str, Any] | None, int] | None:
    """Return the tool, its arguments and the end of the call that begins with `opening`.

    None: it begins none. Without a name the text is skipped; without arguments they are cut off.
    """
    kind, (begin, end) = opening.lastgroup, opening.span()
    if kind == "object":
        value, end = _object_at(text, begin)
        if value is None and end == len(text) and _balanced_end(text, begin) is None:
            return None
        is_quoted = bool(begin) and text[begin - 1] in _QUOTES
        made = None if is_quoted else _as_call(value or {}, tools)
        return (*(made or ("", {})), end)
    if kind == "wrapped":
        value, closed = _object_at(text, end)
        if value is None and (named := _NAME_IN_JSON.match(text, end)):
            return _known(named[1], tools), None, closed
        made = _as_call(value or {}, tools)
        return made and (*made, closed)
    if kind in ("token", "routed", "assigned"):
        if before := _BEFORE_OBJECT.match(text, end):
            return name, *_object_at(text, before.end())
        if kind != "assigned":
            return None
    return None if kind == "tags" and not name else _element(opening, text, name, tools)


def _element(
    opening: re.Match[str], text: str, name: str, tools: ToolArguments
) -> tuple[str, dict[str, Any] | None, int] | None:
    """Return the call whose arguments are all of the text up to a closing tag, in any form."""
    kind, begin = opening.lastgroup or "", opening.end()
    closing = f"</{opening[f'{kind}_tag'] if kind not in _CLOSED_BY else _CLOSED_BY[kind]}>"
    end = text.find(closing, begin)
    body = text[begin : end if end >= 0 else begin + _FEW].lstrip()
    if end < 0:
        # What follows an open element belongs to it.
        is_begun = body.startswith(("<", "{"))
        return (name if is_begun else "", None, len(text)) if name and kind != "tags" else None
    end += len(closing)
    if body.startswith("{"):
        return name, _object_at(body, 0)[0], end
    known = tools.get(name, ())
    arguments = _arguments(body, known)
    if kind == "tags":
        return (name, arguments, end) if arguments and arguments.keys() <= set(known) else None
    # Without arguments it is named like a tool, but holds something else.
    return (name if arguments is not None else ""), arguments, end


def _arguments(body: str, known: Collection[str]) -> dict[str, Any] | None:
    """Return the arguments in a text of elements that have an end; None if it holds other things.

    Elements `parameter` and `arg_key` are arguments; others only if all of them are named so.
    """
    parameters: dict[str, Any] = {}
    tags: dict[str, Any] = {}
    rest, at, has_parameter = "", 0, not body
    while opening := _ARGUMENT.search(body, at):
        parameter, named, assigned, is_text, key, key_value, tag = opening.groups()
        has_parameter |= tag is None
        if tag and tag not in known:
            # It is around arguments or beside them.
            rest, at = rest + body[at : opening.end()], opening.end()
            continue
        closing = f"</{parameter or key_value or tag}>"
        if (end := body.find(closing, opening.end())) < 0:
            break
        value: Any = body[opening.end() : end]
        if assigned:
            value = value.removeprefix("\n").removesuffix("\n")
        if is_text == "false":
            parsed = read_json(value)
            value = value if parsed is None and value.strip() != "null" else parsed
        (tags if tag else parameters)[(named or assigned or key or tag).strip()] = value
        rest += body[at : opening.start()]
        at = end + len(closing)
    if has_parameter:
        return parameters
    return tags if tags and not (rest + body[at:]).strip() else None


def _object_at(text: str, begin: int) -> tuple[dict[str, Any] | None, int]:
    """Return the JSON object that begins with the brace at `begin`, and its end.

    None if it cannot be read; then it ends with its last brace, or with the text.
    """
    end = _balanced_end(text, begin)
    value = read_json(text[begin:end]) if end is not None else None
    return (value if isinstance(value, dict) else None), end or len(text)


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


def _as_call(value: dict[str, Any], tools: ToolArguments) -> tuple[str, dict[str, Any]] | None:
    """Return the call that an object stands for; None if it is none, or of an unknown tool."""
    match value:
        case {"tool_calls": [dict(inner), *_]}:
            value = inner
    for key in ("function", "function_call", "tool_call"):
        if isinstance(value.get(key), dict):
            value = value[key]
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), "")
    arguments = next((value[key] for key in _ARGUMENTS_KEYS if key in value), None)
    arguments = read_json(arguments) if isinstance(arguments, str) else arguments
    known = _known(name, tools)
    if not known or not isinstance(arguments, dict):
        return None
    # The definition of a tool looks alike.
    if "description" in value or ("type" in arguments and "properties" in arguments):
        return None
    return known, arguments
