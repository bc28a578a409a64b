"""Argument models as a model sees them: a small JSON Schema, and words for a mistake."""

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from dirge_py.lib.schemas import Path, Schema, child, parts, properties_of, types_at
from dirge_py.types.tools import ArgumentProblem, InvalidArguments

_KINDS: Mapping[str, Literal["missing", "enum", "extra"]] = {
    "missing": "missing",
    "extra_forbidden": "extra",
    "literal_error": "enum",
    "enum": "enum",
}

_OPENING = ("additionalProperties", "patternProperties")


@lru_cache(maxsize=256)
def parameters_of(args: type[BaseModel]) -> Mapping[str, Any]:
    """The JSON Schema of `args`: no titles, no nulls, keys in declaration order.

    It is sent with every request and is part of what providers cache, so it must be short and the
    same bytes every time.
    """
    schema: dict[str, Any] = _slim(args.model_json_schema())
    schema.pop("description", None)
    return schema


def invalid(error: ValidationError, tool: str, schema: Schema, arguments: Any) -> InvalidArguments:
    """The error as the loop wants it: words for the model, and where each problem is."""
    problems = [
        ArgumentProblem(
            path=_place(each["loc"], arguments),
            kind=_kind(each["type"]),
            message=each["msg"],
        )
        for each in error.errors(include_url=False, include_context=False)
    ]
    return InvalidArguments(words_for(error, tool, schema), problems)


def booleans_for_numbers(arguments: Any, schema: Schema) -> list[ArgumentProblem]:
    """Every `true` or `false` where a number belongs: pydantic would take it for 1 or 0."""
    return list(_misplaced(arguments, schema, schema, ()))


def undeclared(arguments: Any, schema: Schema) -> list[ArgumentProblem]:
    """Every property beside those that an object is declared with.

    An embedder's models let unknown ones pass unless told otherwise, and lose them.
    """
    return list(_undeclared(arguments, schema, schema, ()))


def words_for(error: ValidationError, tool: str, schema: Mapping[str, Any]) -> str:
    """What is wrong with the arguments, one line per mistake, and what was expected."""
    known = list(schema.get("properties", {}))
    lines = [f"- {_mistake(each, known)}" for each in error.errors(include_url=False)]
    expected = ", ".join(_signature(schema))
    return "\n".join([f"The arguments of `{tool}` do not fit:", *lines, f"Expected: {expected}."])


def _kind(name: str) -> Literal["missing", "type", "enum", "extra", "other"]:
    if name in _KINDS:
        return _KINDS[name]
    return "type" if name.endswith(("_type", "_parsing")) else "other"


def _place(steps: tuple[str | int, ...], arguments: Any) -> Path:
    """The path in the arguments. pydantic also names the branch of a union: such steps go."""
    path: list[str | int] = []
    for number, step in enumerate(steps, start=1):
        if _is_there(arguments, step):
            arguments = arguments[step]
            path.append(step)
        elif number == len(steps) and isinstance(arguments, Mapping):
            path.append(step)
    return tuple(path)


def _is_there(arguments: Any, step: str | int) -> bool:
    if isinstance(arguments, list):
        return isinstance(step, int) and step < len(arguments)
    return isinstance(arguments, Mapping) and step in arguments


def _misplaced(value: Any, schema: Any, root: Schema, path: Path) -> Iterator[ArgumentProblem]:
    if isinstance(value, bool):
        types = types_at(schema, root)
        if "boolean" not in types and "integer" in types:
            yield ArgumentProblem(path=path, kind="type", message="a number, not a boolean")
    elif isinstance(value, Mapping):
        for name, each in value.items():
            if isinstance(each, bool | Mapping | list):
                yield from _misplaced(each, child(schema, name, root), root, (*path, name))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            if isinstance(each, bool | Mapping | list):
                yield from _misplaced(each, child(schema, place, root), root, (*path, place))


def _undeclared(value: Any, schema: Any, root: Schema, path: Path) -> Iterator[ArgumentProblem]:
    if isinstance(value, list):
        for place, each in enumerate(value):
            yield from _undeclared(each, child(schema, place, root), root, (*path, place))
        return
    known = properties_of(schema, root)
    if not isinstance(value, Mapping) or not known:
        return
    is_open = any(
        word in part for part in parts(schema, root) for word in _OPENING if part.get(word)
    )
    for name, each in value.items():
        if name in known:
            yield from _undeclared(each, child(schema, name, root), root, (*path, name))
        elif not is_open:
            yield ArgumentProblem(path=(*path, name), kind="extra", message="no such property")


def _slim(node: Any) -> Any:
    """`node` without what only people or validators need: titles, and `null` beside a real type."""
    if isinstance(node, list):
        return [_slim(each) for each in node]
    if not isinstance(node, dict):
        return node
    slim: dict[str, Any] = {
        key: _slim_properties(value) if key == "properties" else _slim(value)
        for key, value in node.items()
        if key != "title" and not (key == "default" and value is None)
    }
    choices = [each for each in slim.get("anyOf", []) if each != {"type": "null"}]
    if len(choices) == 1:
        del slim["anyOf"]
        slim = {**choices[0], **slim}
    return slim


def _slim_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    # A property may be called `title`: its name is not ours to drop.
    return {name: _slim(value) for name, value in properties.items()}


def _mistake(error: Any, known: list[str]) -> str:
    place = ".".join(str(step) for step in error["loc"]) or "arguments"
    if error["type"] == "missing":
        return f"`{place}` is required."
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(place, known, 1)
        return f"`{place}` is unknown." + (f" Did you mean `{near[0]}`?" if near else "")
    message = error["msg"]
    return f"`{place}`: {message[:1].lower()}{message[1:]} (got {_short(error['input'])})."


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _signature(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required", [])
    return [
        name if name in required else f"{name} (optional)" for name in schema.get("properties", {})
    ]
