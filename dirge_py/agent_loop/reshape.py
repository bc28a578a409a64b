"""One value put into the shape that a schema asks for, where there is only one way to do it."""

import json
import re
from collections.abc import Mapping
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.schemas import Schema, child, properties_of, type_of, types_at

_WRAPPERS = frozenset(
    ("arguments", "args", "parameters", "params", "input", "tool_input", "tool_args", "kwargs")
)
_NAMES = frozenset(("name", "tool", "tool_name", "type"))
_INTEGER = re.compile(r"[+-]?\d{1,300}")
_NUMBER = re.compile(r"[+-]?\d{1,300}(\.\d+)?([eE][+-]?\d{1,3})?")


@dataclass(frozen=True, slots=True)
class Converted:
    """A value in another shape; `kind` is what the repair is counted as."""

    kind: str
    value: Any


def converted(value: Any, schema: Any, root: Schema) -> Converted | None:
    """The value in the shape `schema` asks for; None if it has it, or there is no plain way."""
    wanted = types_at(schema, root)
    if type_of(value) in wanted:
        return None
    if isinstance(value, str):
        return _from_text(value, wanted)
    if isinstance(value, Mapping) and "array" in wanted:
        if not value:
            return Converted("object_to_array", [])
        if "object" in types_at(child(schema, 0, root), root):
            return Converted("bare_object_to_array", [value])
    return None


def unwrapped(tool: str, schema: Schema, arguments: Any) -> Any:
    """What stands inside of arguments that were wrapped once more; None if they were not.

    As `{"arguments": {…}}`, with the tool's name beside it, or as JSON in a string.
    """
    if isinstance(arguments, str):
        return _parsed(arguments, "{", dict)
    if not isinstance(arguments, Mapping):
        return None
    known = properties_of(schema, schema)
    inner = [name for name in arguments if name in _WRAPPERS and name not in known]
    if len(inner) != 1:
        return None
    beside = [name for name in arguments if name != inner[0]]
    if any(name not in _NAMES or arguments[name] not in (tool, "function") for name in beside):
        return None
    content = arguments[inner[0]]
    if isinstance(content, str):
        return _parsed(content, "{", dict)
    return content if isinstance(content, Mapping) else None


def _from_text(text: str, wanted: frozenset[str]) -> Converted | None:
    if "array" in wanted:
        items = _parsed(text, "[", list)
        if items is not None:
            return Converted("json_string_to_array", items)
    if "object" in wanted:
        members = _parsed(text, "{", dict)
        if members is not None:
            return Converted("json_string_to_object", members)
    scalar = _scalar(text.strip(), wanted)
    if scalar is not None:
        return Converted("stringified_scalar", scalar)
    # Last: a list that was written as text is a list, not a list of one text.
    return Converted("bare_string_to_array", [text]) if "array" in wanted else None


def _parsed(text: str, first: str, kind: type) -> Any:
    if not text.lstrip().startswith(first):
        return None
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) else None


def _scalar(text: str, wanted: frozenset[str]) -> bool | int | float | None:
    if "boolean" in wanted and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "integer" in wanted and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in wanted and _NUMBER.fullmatch(text):
        return float(text)
    return None
