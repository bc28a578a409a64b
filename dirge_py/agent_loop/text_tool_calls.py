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

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from dirge_py.agent_loop.tool_calls import prepare_call, signature
from dirge_py.types.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock
from dirge_py.types.tools import LoopTool, ToolValidator, changes_something

MOST_CALLS = 4
MOST_BYTES = 100 * 1024

ToolArguments: TypeAlias = Mapping[str, Collection[str]]
"""The names of a tool's arguments, by the name of the tool."""

FENCE = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
"""A code block of Markdown."""

_MOST_FALSE_STARTS = 12
_FEW = 100
_BAR = "[|｜]"
_TOOL = r"[\w.-]{1,80}"
_OPENING = re.compile(
    # The first line only saves time.
    rf"""
      (?=[<{{]|to=|function=)(?:
      (?P<element><(?P<tag>(?:{_BAR}DSML{_BAR}|[\w-]{{1,20}}:)?(?:invoke|function|tool_call|tool))
          \s+name="(?P<element_name>[^"<>]{{1,200}})"\s*>)
    | (?P<assigned><?\bfunction=(?P<assigned_name>{_TOOL})[ \t]{{0,3}}>?(?=\s*[{{<]))
    | (?P<named><(?P<name_tag>tool_name|function_name|name)>\s*(?P<named_name>{_TOOL})\s*
          </(?P=name_tag)>\s*<(?P<input_tag>parameters|arguments|params|args|input)>)
    | (?P<keyed><tool_call>\s*(?P<keyed_name>{_TOOL})\s*(?=<arg_key>))
    | (?P<wrapped><(?P<wrap_tag>tool_call|tool_use|function_call)>\s*(?={{))
    | (?P<token><{_BAR}tool[_▁]call[_▁]begin{_BAR}>\s*(?:function\s*<{_BAR}tool[_▁]sep{_BAR}>)?\s*
          (?P<token_name>{_TOOL})(?::\d{{1,6}})?)
    | (?P<routed>\bto=(?P<routed_name>{_TOOL})
          (?:\s|<\|\w{{1,20}}\|>|commentary|analysis|json|code|assistant){{0,40}}(?={{))
    | (?P<tags><(?P<tags_name>[A-Za-z_][\w-]{{0,80}})>(?=\s*<[A-Za-z_]))
    | (?P<object>{{(?=\s*")))
    """,
    re.VERBOSE,
)
_PARAMETER = re.compile(
    rf"<((?:{_BAR}DSML{_BAR}|[\w-]{{1,20}}:)?parameter)"
    r'(?:\s+name="([^"<>]{1,200})"|=([^<>"\s]{1,200}))(?:\s+string="(true|false)")?\s*>'
)
_KEY_AND_VALUE = re.compile(r"<arg_key>([^<>]{1,200})</arg_key>\s*<arg_value>")
_TAG = re.compile(r"\s*<([A-Za-z_][\w-]{0,80})>")
_BEFORE_OBJECT = re.compile(rf"\s*(?:<{_BAR}[^<>]{{1,40}}{_BAR}>)?\s*(?:```\w{{0,10}}\s*)?(?={{)")
_NAME_IN_JSON = re.compile(rf"\{{[^{{}}]{{0,80}}['\"]name['\"]\s*:\s*['\"]({_TOOL})['\"]")
_NAMESPACE = re.compile(r"^(?:functions|default_api|tools)\.")
_JSON_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}"]', re.DOTALL)
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
# An indented line is code only after an empty one: elements are often indented.
_SET_APART = re.compile(
    r"^[ \t]*>.*$|(?:\A|(?<=\n)[ \t]*\n)(?:(?: {4}|\t).*(?:\n|\Z))+", re.MULTILINE
)
_QUOTES = "\"'“”„«»‘’`"
_NAME_KEYS = ("name", "tool_name", "tool", "function", "function_name", "action", "recipient_name")
_ARGUMENTS_KEYS = (
    "arguments",
    "tool_args",
    "parameters",
    "args",
    "input",
    "tool_input",
    "action_input",
)


class WrittenCall(NamedTuple):
    """A call that was written as text."""

    name: str
    """The name of the tool."""
    arguments: dict[str, Any]
    """The arguments, as far as they are complete."""
    begin: int
    """Where it begins in the text."""
    end: int
    """Where it ends."""
    is_whole: bool = True
    """Whether its end is there, and its arguments can be read."""
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
        if call.problem is None and not changes_something(call):
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


def find_calls(
    text: str, tools: ToolArguments, shown: str | None = None, *, most: int | None = None
) -> list[WrittenCall]:
    """Return the whole calls in `text`, in order; `shown` is as in `scan`."""
    return [call for call in scan(text, tools, shown) if call.is_whole][:most]


def scan(text: str, tools: ToolArguments, shown: str | None = None) -> Iterator[WrittenCall]:
    """Yield the calls of `tools` in `text`, in order, also those that are cut off.

    A call begins only where `shown`, which is `text` with blanks in it, has its beginning, too.
    """
    at, false_starts = 0, 0
    shown = text if shown is None else shown
    while false_starts < _MOST_FALSE_STARTS and (opening := _OPENING.search(shown, at)):
        kind = opening.lastgroup or ""
        name = _known(opening[f"{kind}_name"], tools) if f"{kind}_name" in _GROUPS else ""
        call = _READERS[kind](_Opening(text, opening, name, tools))
        if call is None:
            # Tags of other things are no false starts: there may be many, and they cost little.
            false_starts += kind != "tags" or bool(name)
            at = opening.start() + 1
            continue
        at = max(call.end, opening.end())
        if call.name:
            yield call


def without_quotations(text: str) -> str:
    """Return `text` with blanks for code blocks, code spans, indented and quoted lines."""
    for quotation in (FENCE, _SET_APART, _CODE_SPAN):
        text = quotation.sub(_blank, text)
    return text


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _known(name: str, tools: ToolArguments) -> str:
    """Return the name of the tool that a model means by `name`; "" if there is none."""
    name = _NAMESPACE.sub("", name.strip())
    if name in tools:
        return name
    return next((tool for tool in tools if tool.lower() == name.lower()), "")


class _Opening(NamedTuple):
    """The beginning of what may be a call."""

    text: str
    match: re.Match[str]
    name: str
    """The tool that it names; "" if it names none."""
    tools: ToolArguments

    def call(
        self,
        name: str,
        arguments: dict[str, Any] | None,
        end: int,
        *,
        is_bare: bool = False,
    ) -> WrittenCall:
        """Return the call up to `end`; without arguments it is not whole."""
        is_whole = arguments is not None
        return WrittenCall(name, arguments or {}, self.match.start(), end, is_whole, is_bare)


# Readers return None if the opening was none, and a call without a name for what is to be skipped.


def _read_element(opening: _Opening) -> WrittenCall | None:
    return _element(opening, f"</{opening.match['tag']}>")


def _read_assigned(opening: _Opening) -> WrittenCall | None:
    return _read_token(opening) or _element(opening, "</function>")


def _read_named(opening: _Opening) -> WrittenCall | None:
    return _element(opening, f"</{opening.match['input_tag']}>")


def _read_keyed(opening: _Opening) -> WrittenCall | None:
    return _element(opening, "</tool_call>")


def _read_wrapped(opening: _Opening) -> WrittenCall | None:
    begin = opening.match.end()
    value, end = _object_at(opening.text, begin)
    if value is not None:
        call = _as_call(value, opening.tools)
        return opening.call(*call, end) if call else None
    named = _NAME_IN_JSON.match(opening.text, begin)
    return opening.call(_known(named[1], opening.tools), None, end) if named else None


def _read_token(opening: _Opening) -> WrittenCall | None:
    """Return the call whose arguments are the JSON object after its opening."""
    before = _BEFORE_OBJECT.match(opening.text, opening.match.end())
    return opening.call(opening.name, *_object_at(opening.text, before.end())) if before else None


def _read_tags(opening: _Opening) -> WrittenCall | None:
    """Return the call of an element that is named like a tool, if its content can only be that."""
    if not opening.name:
        return None
    closing = f"</{opening.match['tags_name']}>"
    begin, end = opening.match.end(), opening.text.find(closing, opening.match.end())
    if end < 0:
        return None
    arguments = _tagged(opening.text[begin:end], opening)
    return opening.call(opening.name, arguments, end + len(closing)) if arguments else None


def _read_object(opening: _Opening) -> WrittenCall | None:
    text, begin = opening.text, opening.match.start()
    end = _balanced_end(text, begin)
    if end is None:
        return None
    is_quoted = bool(begin) and text[begin - 1] in _QUOTES
    value = None if is_quoted else _literal(text[begin:end])
    call = _as_call(value, opening.tools) if isinstance(value, dict) else None
    return opening.call(*(call or ("", {})), end, is_bare=True)


_READERS: Mapping[str, Callable[[_Opening], WrittenCall | None]] = {
    "element": _read_element,
    "assigned": _read_assigned,
    "named": _read_named,
    "keyed": _read_keyed,
    "wrapped": _read_wrapped,
    "token": _read_token,
    "routed": _read_token,
    "tags": _read_tags,
    "object": _read_object,
}
_GROUPS = frozenset(_OPENING.groupindex)


def _element(opening: _Opening, closing: str) -> WrittenCall | None:
    """Return the call whose arguments are all of the text up to `closing`, in any known form."""
    text, begin, name = opening.text, opening.match.end(), opening.name
    end = text.find(closing, begin)
    body = text[begin : end if end >= 0 else begin + _FEW].lstrip()
    if end < 0:
        # What follows an open element belongs to it.
        is_begun = body.startswith(("<", "{"))
        return opening.call(name if is_begun else "", None, len(text)) if name else None
    if body.startswith("{"):
        arguments, _ = _object_at(body, 0)
    else:
        arguments = _parameters(body) or _tagged(body, opening)
        if not arguments and body and not _PARAMETER.search(body):
            name = ""  # It is named like a tool, but holds something else.
    return opening.call(name, arguments, end + len(closing))


def _parameters(body: str) -> dict[str, Any]:
    """Return the arguments in elements `parameter` or `arg_key` that have an end."""
    arguments: dict[str, Any] = {}
    at = 0
    while (opening := _PARAMETER.search(body, at)) and (
        end := body.find(f"</{opening[1]}>", opening.end())
    ) >= 0:
        at, value = end, body[opening.end() : end]
        if opening[3]:
            value = value.removeprefix("\n").removesuffix("\n")
        arguments[opening[2] or opening[3]] = _literal(value) if opening[4] == "false" else value
    while (opening := _KEY_AND_VALUE.search(body, at)) and (
        end := body.find("</arg_value>", opening.end())
    ) >= 0:
        at = end
        arguments[opening[1].strip()] = body[opening.end() : end]
    return arguments


def _tagged(body: str, opening: _Opening) -> dict[str, Any]:
    """Return the arguments of a text that is only elements named like them; {} if it is not."""
    arguments: dict[str, Any] = {}
    at = 0
    while (tag := _TAG.match(body, at)) and (end := body.find(f"</{tag[1]}>", tag.end())) >= 0:
        at = end + len(tag[1]) + 3
        arguments[tag[1]] = body[tag.end() : end]
    is_all = not body[at:].strip() and set(arguments) <= set(opening.tools.get(opening.name, ()))
    return arguments if is_all else {}


def _literal(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _object_at(text: str, begin: int) -> tuple[dict[str, Any] | None, int]:
    """Return the JSON object that begins with the brace at `begin`, and its end.

    None if it is not JSON; then it ends with its last brace, or with the text.
    """
    end = _balanced_end(text, begin)
    value = _literal(text[begin:end]) if end is not None else None
    return (value if isinstance(value, dict) else None), len(text) if end is None else end


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
    arguments = _literal(arguments) if isinstance(arguments, str) else arguments
    known = _known(name, tools)
    if not known or not isinstance(arguments, dict):
        return None
    # The definition of a tool looks alike.
    if "description" in value or ("type" in arguments and "properties" in arguments):
        return None
    return known, arguments
