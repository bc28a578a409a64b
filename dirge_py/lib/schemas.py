"""Reads JSON Schemas: what a schema says about a place, and which types it allows there.

It does not validate: it answers the questions of repairs and error texts. `root` is the whole
schema; only references into it are followed. Unsupported syntax counts as "anything".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
Path: TypeAlias = tuple[str | int, ...]

ANYTHING = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})

_DEEPEST = 8
_MOST_REFS = 16
_COMBINING = ("allOf", "anyOf", "oneOf")


def type_of(value: Any) -> str:
    """Return the JSON type of a value; a float without a fraction is an integer."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def resolved(schema: Any, root: Schema) -> Schema:
    """Return `schema` itself, or the target of its `$ref`; `{}` if it is missing or circular."""
    for _ in range(_MOST_REFS):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if reference is None:
            return schema
        schema = _referred(reference, root)
    return {}


def types_at(schema: Any, root: Schema, *, depth: int = 0) -> frozenset[str]:
    """Return the JSON types that `schema` allows."""
    schema = resolved(schema, root)
    if depth > _DEEPEST:
        return ANYTHING
    listed = schema.get("type")
    if isinstance(listed, str):
        listed = [listed]
    types = ANYTHING
    if isinstance(listed, list):
        types = frozenset(each for each in listed if isinstance(each, str))
        types |= {"integer"} if "number" in types else set()
    if isinstance(schema.get("enum"), list):
        types &= {type_of(choice) for choice in schema["enum"]}
    if "const" in schema:
        types &= {type_of(schema["const"])}
    for branch in branches(schema, "allOf"):
        types &= types_at(branch, root, depth=depth + 1)
    for word in ("anyOf", "oneOf"):
        choices = branches(schema, word)
        if choices:
            types &= frozenset().union(*(types_at(each, root, depth=depth + 1) for each in choices))
    return types


def branches(schema: Schema, word: str) -> Sequence[Any]:
    """Return the schemas listed under `allOf`, `anyOf` or `oneOf`."""
    listed = schema.get(word)
    return listed if isinstance(listed, list) else ()


def parts(schema: Any, root: Schema, *, depth: int = 0) -> Iterator[Schema]:
    """Yield `schema` and the schemas it combines, resolved, outermost first."""
    schema = resolved(schema, root)
    yield schema
    if depth < _DEEPEST:
        for word in _COMBINING:
            for branch in branches(schema, word):
                yield from parts(branch, root, depth=depth + 1)


def properties_of(schema: Any, root: Schema) -> dict[str, Any]:
    """Return the named properties, in declaration order."""
    properties: dict[str, Any] = {}
    for part in parts(schema, root):
        named = part.get("properties")
        if isinstance(named, Mapping):
            properties = {**named, **properties}
    return properties


def required_in(schema: Any, root: Schema, *, depth: int = 0) -> frozenset[str]:
    """Return the properties that every matching object must have."""
    schema = resolved(schema, root)
    listed = schema.get("required")
    names = frozenset(
        each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str)
    )
    if depth < _DEEPEST:
        for branch in branches(schema, "allOf"):
            names |= required_in(branch, root, depth=depth + 1)
    return names


def is_closed(schema: Any, root: Schema) -> bool:
    """Whether unnamed properties are rejected."""
    return any(
        part.get("additionalProperties") is False and not part.get("patternProperties")
        for part in parts(schema, root)
    )


def child(schema: Any, step: str | int, root: Schema) -> Any:
    """Return the schema of one property or item; `{}` if there is none."""
    for part in parts(schema, root):
        if isinstance(step, int):
            before = part.get("prefixItems")
            found = part.get("items")
            if isinstance(before, list) and step < len(before):
                found = before[step]
        else:
            named, others = part.get("properties"), part.get("additionalProperties")
            found = others if isinstance(others, Mapping) else None
            if isinstance(named, Mapping) and step in named:
                found = named[step]
        if found is not None:
            return found
    return {}


def schema_at(schema: Schema, path: Path) -> Schema:
    """Return the schema of the place that `path` leads to, resolved."""
    place: Any = schema
    for step in path:
        place = child(place, step, schema)
    return resolved(place, schema)


def choices_at(schema: Any, root: Schema) -> list[Any]:
    """Return the values that the `enum` of any branch allows."""
    choices: list[Any] = []
    for part in parts(schema, root):
        listed = part.get("enum")
        choices += listed if isinstance(listed, list) else []
        choices += [part["const"]] if "const" in part else []
    return choices


def _referred(reference: Any, root: Schema) -> Any:
    """Return the target of a JSON pointer like `#/$defs/Edit`; None if there is none."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    place: Any = root
    for step in reference[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(place, Mapping) or step not in place:
            return None
        place = place[step]
    return place
