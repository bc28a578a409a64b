"""A tool's arguments as a model reads them: the schema it is sent, and why a call does not fit it.

Models fill in many nested objects badly. A schema with more than ten leaves or more than two levels
is sent as one object of dotted names (`a.b.c`); what comes back is nested again before it
is validated. A call that does not fit is explained in four parts: rejected, expected, got, try.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dirge_py.lib.identity_cache import IdentityCache
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.lib.schemas import (
    Path,
    Schema,
    choices_at,
    properties_of,
    required_in,
    resolved,
    schema_at,
    types_at,
)
from dirge_py.types.tools import ArgumentProblem

_MOST_LEAVES = 10
_MOST_LEVELS = 2
_LONGEST_NAME = 64
"""Services refuse longer property names, so a schema that would need one stays nested."""

_DOT = "-dot-"
_PRIVATE = "x-"
_OPEN_WORDS = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "not")
_NESTED = 12
_GOT_BYTES = 200
_EXPECTED_BYTES = 600
_MOST_PROBLEMS = 8


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: tuple[str, ...]
    schema: Schema
    is_required: bool


@dataclass(frozen=True, slots=True)
class _FlatSchema:
    """A schema as models see it; `names` leads back from flat names, None if it is not flat."""

    schema: Mapping[str, Any]
    names: Mapping[str, tuple[str, ...]] | None


def schema_for_model(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema to send: flat if it is deep or wide, without our own `x-` words; always the same
    object for the same schema.
    """
    return _flat_schemas(schema).schema


def nest_arguments(schema: Mapping[str, Any], arguments: Any) -> Any:
    """Arguments with dotted names put into objects again; as they are if `schema` was not flat.

    Where a name holds both a value and an object, the object wins.
    """
    names = _flat_schemas(schema).names
    if names is None or not isinstance(arguments, Mapping):
        return arguments
    whole: dict[str, Any] = {}
    for name, value in arguments.items():
        path = names.get(name) or tuple(step for step in str(name).split(".") if step)
        _put(whole, path, value)
    return whole


def _flatten(schema: Any) -> _FlatSchema:
    public = _without_private(schema)
    leaves = list(_leaves(public, public)) if _is_open(public) else []
    depth = max((len(leaf.path) for leaf in leaves), default=0)
    if depth < 2 or (len(leaves) <= _MOST_LEAVES and depth <= _MOST_LEVELS):
        return _FlatSchema(public, None)
    names = {".".join(step.replace(".", _DOT) for step in leaf.path): leaf for leaf in leaves}
    if len(names) < len(leaves) or max(map(len, names)) > _LONGEST_NAME:
        return _FlatSchema(public, None)
    flat = {
        **public,
        "properties": {name: leaf.schema for name, leaf in names.items()},
        "required": [name for name, leaf in names.items() if leaf.is_required],
    }
    if '"$ref"' not in json.dumps(flat["properties"]):
        flat.pop("$defs", None)
        flat.pop("definitions", None)
    # A model may also write it nested: then a dot in a name of the top level is only a dot.
    own = {name: (name,) for name in public["properties"]}
    return _FlatSchema(flat, {**own, **{name: leaf.path for name, leaf in names.items()}})


_flat_schemas = IdentityCache(_flatten)


def _leaves(
    schema: Schema,
    root: Schema,
    path: tuple[str, ...] = (),
    *,
    is_required: bool = True,
) -> Iterator[_Leaf]:
    """What is no object of named properties, with its path; lists are leaves, too."""
    listed = schema.get("required")
    required = listed if isinstance(listed, list | tuple) else ()
    for name, each in schema["properties"].items():
        inner, here = resolved(each, root), (*path, name)
        needed = is_required and name in required
        if _is_open(inner) and len(here) < _NESTED:
            yield from _leaves(inner, root, here, is_required=needed)
        else:
            yield _Leaf(here, each, needed)


def _is_open(schema: Any) -> bool:
    """Whether it is an object that consists of its named properties, whatever else it may hold."""
    return (
        isinstance(schema, Mapping)
        and isinstance(schema.get("properties"), Mapping)
        and bool(schema["properties"])
        and schema.get("type", "object") == "object"
        and not isinstance(schema.get("additionalProperties"), Mapping)
        and not any(word in schema for word in _OPEN_WORDS)
    )


def _put(whole: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if not path:
        return
    # Copied on the way: what the model wrote is history and stays as it is.
    *around, name = (*path, "") if isinstance(value, Mapping) else path
    for step in around:
        if not isinstance(whole.get(step), dict):
            whole[step] = {}
        whole = whole[step]
    if isinstance(value, Mapping):
        for member, inner in value.items():
            _put(whole, (member,), inner)
    elif not isinstance(whole.get(name), dict):
        whole[name] = value


def _without_private(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    public = {word: each for word, each in schema.items() if not str(word).startswith(_PRIVATE)}
    return schema if len(public) == len(schema) else public


def explain_invalid_arguments(
    tool: str,
    schema: Schema,
    arguments: Any,
    *,
    message: str,
    problems: Sequence[ArgumentProblem] = (),
) -> str:
    """Four labelled parts; the schema shown is that of the place which the advice is about."""
    # The problem to give advice about: an unknown word is the easiest to put right.
    unknown_words = (
        problem
        for problem in problems
        if problem.kind == "enum" and choices_at(schema_at(schema, problem.path), schema)
    )
    chosen = next(unknown_words, problems[0] if problems else None)
    expected: Any = schema
    if chosen is not None:
        path = chosen.path[:-1] if chosen.kind == "extra" else chosen.path
        expected = schema_at(schema, path) or schema
    if expected is schema:
        expected = schema_for_model(schema)
    rejected = [f"at {json_pointer(each.path)}: {each.message}" for each in problems]
    if len(rejected) > _MOST_PROBLEMS:
        rejected[_MOST_PROBLEMS:] = [f"and {len(rejected) - _MOST_PROBLEMS} more"]
    return "\n".join(
        (
            f"Rejected: `{tool}` did not run: {'; '.join(rejected) or message}",
            f"Expected: {cut_json(expected, _EXPECTED_BYTES)}",
            f"Got: {cut_json(arguments, _GOT_BYTES)}",
            f"Try: {_advice(schema, chosen, value_at(arguments, chosen.path if chosen else ()))}",
        )
    )


def json_pointer(path: Path) -> str:
    """A place in arguments as a JSON pointer; the top is `/`."""
    return "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path)


def readable_path(path: Path) -> str:
    """The same place as people write it: `edits[0].count`."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(steps).removeprefix(".")


def cut_json(value: Any, most_bytes: int) -> str:
    """Compact JSON of `value`, at most so many bytes; what is cut ends with an ellipsis."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, TypeError, RecursionError):
        text = type(value).__name__
    raw = text.encode(errors="replace")
    if len(raw) <= most_bytes:
        return raw.decode()
    return raw[: most_bytes - len("…".encode())].decode(errors="ignore") + "…"


def value_at(arguments: Any, path: Path) -> Any:
    """What stands at `path`; None where nothing does."""
    for step in path:
        if isinstance(step, int):
            is_there = isinstance(arguments, list) and -1 < step < len(arguments)
        else:
            is_there = isinstance(arguments, Mapping) and step in arguments
        if not is_there:
            return None
        arguments = arguments[step]
    return arguments


def _advice(schema: Schema, problem: ArgumentProblem | None, given: Any) -> str:
    if problem is None or not problem.path:
        return "call it again with one JSON object that fits what is expected."
    name, where = problem.path[-1], json_pointer(problem.path)
    here = schema_at(schema, problem.path)
    around = schema_at(schema, problem.path[:-1])
    if problem.kind == "missing":
        return f"add `{name}`{_as_type(here, schema)}."
    if problem.kind == "extra":
        known = list(properties_of(around, schema))
        near = nearest(str(name), known)
        return f"leave out `{name}`." if near is None else f"write `{near}` instead of `{name}`."
    choices = choices_at(here, schema)
    if problem.kind == "enum" and choices:
        words = [each for each in choices if isinstance(each, str)]
        near = nearest(given, words) if isinstance(given, str) else None
        meant = f" You probably meant {json.dumps(near, ensure_ascii=False)}." if near else ""
        return f"give {where} one of {cut_json(list(choices), _GOT_BYTES)}.{meant}"
    if given is None and problem.kind == "type":
        if name in required_in(around, schema):
            return f"give {where} a value{_as_type(here, schema)}: it is required."
        return f"leave out {where}, or give it a value{_as_type(here, schema)}."
    if types_at(here, schema) == {"array"}:
        return f'write {where} as a JSON array, as in ["…"].'
    return f"give {where} a value{_as_type(here, schema)} that fits what is expected."


def _as_type(here: Schema, schema: Schema) -> str:
    named = here.get("type")
    types = [named] if isinstance(named, str) else sorted(types_at(here, schema))
    return f" ({' or '.join(types)})" if len(types) < 4 else ""
