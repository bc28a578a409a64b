"""Deep schemas told flat: the model sees `a.b.c`, the tool gets objects inside objects.

Models fill in many nested objects badly. A schema with more than ten leaves or more than two levels
is told as one object of dotted names; what comes back is nested again before anybody looks at it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.per_object import PerObject
from dirge_py.lib.schemas import Schema, resolved

_MOST_LEAVES = 10
_MOST_LEVELS = 2
_LONGEST_NAME = 64
"""Services refuse longer property names, so a schema that would need one stays nested."""

_DOT = "-dot-"
_PRIVATE = "x-"
_OPEN_WORDS = ("patternProperties", "allOf", "anyOf", "oneOf", "if", "not")
_NESTED = 12


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: tuple[str, ...]
    schema: Schema
    is_required: bool


@dataclass(frozen=True, slots=True)
class _Told:
    """A schema as models see it; `names` leads back from flat names, None if it is not flat."""

    schema: Mapping[str, Any]
    names: Mapping[str, tuple[str, ...]] | None


def told_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema to send: flat if it is deep or wide, without our own `x-` words; always the same
    object for the same schema.
    """
    return _told(schema).schema


def nested(schema: Mapping[str, Any], arguments: Any) -> Any:
    """Arguments with dotted names put into objects again; as they are if `schema` was not flat.

    Where a name holds both a value and an object, the object wins.
    """
    names = _told(schema).names
    if names is None or not isinstance(arguments, Mapping):
        return arguments
    whole: dict[str, Any] = {}
    for name, value in arguments.items():
        path = names.get(name) or tuple(step for step in str(name).split(".") if step)
        _put(whole, path, value)
    return whole


def _tell(schema: Any) -> _Told:
    public = _without_private(schema)
    leaves = list(_leaves(public, public)) if _is_open(public) else []
    depth = max((len(leaf.path) for leaf in leaves), default=0)
    if depth < 2 or (len(leaves) <= _MOST_LEAVES and depth <= _MOST_LEVELS):
        return _Told(public, None)
    names = {_flat_name(leaf.path): leaf for leaf in leaves}
    if len(names) < len(leaves) or max(map(len, names)) > _LONGEST_NAME:
        return _Told(public, None)
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
    return _Told(flat, {**own, **{name: leaf.path for name, leaf in names.items()}})


_told = PerObject(_tell)


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


def _flat_name(path: tuple[str, ...]) -> str:
    return ".".join(step.replace(".", _DOT) for step in path)


def _put(whole: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if not path:
        return
    *around, name = path
    for step in around:
        if not isinstance(whole.get(step), dict):
            whole[step] = {}
        whole = whole[step]
    if isinstance(value, Mapping):
        # Copied on the way: what the model wrote is history and stays as it is.
        _put_all(whole, name, value)
    elif not isinstance(whole.get(name), dict):
        whole[name] = value


def _put_all(whole: dict[str, Any], name: str, members: Mapping[str, Any]) -> None:
    if not isinstance(whole.get(name), dict):
        whole[name] = {}
    for each, value in members.items():
        _put(whole[name], (each,), value)


def _without_private(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or not any(
        isinstance(word, str) and word.startswith(_PRIVATE) for word in schema
    ):
        return schema
    return {word: each for word, each in schema.items() if not word.startswith(_PRIVATE)}
