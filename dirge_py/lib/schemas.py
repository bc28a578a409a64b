"""Reading JSON Schema: what is said about a place, and which types fit there.

No validator: it answers what a repair or an error text has to know. `root` is the whole schema;
only references into it are followed. Whatever it does not understand counts as "anything".
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
    """The JSON type of a value; a float without a fraction is an integer."""
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
    """`schema` itself, or what its `$ref` leads to; `{}` where that is nothing or a circle."""
    for _ in range(_MOST_REFS):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if reference is None:
            return schema
        schema = _referred(reference, root)
    return {}


def types_at(schema: Any, root: Schema, *, depth: int = 0) -> frozenset[str]:
    """The JSON types that `schema` lets through."""
    schema = resolved(schema, root)
    if depth > _DEEPEST:
        return ANYTHING
    types = _told_types(schema)
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
    """The schemas listed under `allOf`, `anyOf` or `oneOf`."""
    listed = schema.get(word)
    return listed if isinstance(listed, list) else ()


def parts(schema: Any, root: Schema, *, depth: int = 0) -> Iterator[Schema]:
    """`schema` and everything it is combined of, resolved, outermost first."""
    schema = resolved(schema, root)
    yield schema
    if depth < _DEEPEST:
        for word in _COMBINING:
            for branch in branches(schema, word):
                yield from parts(branch, root, depth=depth + 1)


def properties_of(schema: Any, root: Schema) -> dict[str, Any]:
    """The named properties, in declaration order."""
    found: dict[str, Any] = {}
    for part in parts(schema, root):
        named = part.get("properties")
        if isinstance(named, Mapping):
            found = {**named, **found}
    return found


def required_in(schema: Any, root: Schema, *, depth: int = 0) -> frozenset[str]:
    """The properties that every object that fits must have."""
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
    """Whether properties that are not named are refused."""
    return any(
        part.get("additionalProperties") is False and not part.get("patternProperties")
        for part in parts(schema, root)
    )


def child(schema: Any, step: str | int, root: Schema) -> Any:
    """What is said about one property or item; `{}` when nothing is."""
    for part in parts(schema, root):
        found = _item(part, step) if isinstance(step, int) else _property(part, step)
        if found is not None:
            return found
    return {}


def schema_at(schema: Schema, path: Path) -> Schema:
    """What is said about the place that `path` leads to, resolved."""
    place: Any = schema
    for step in path:
        place = child(place, step, schema)
    return resolved(place, schema)


def choices_at(schema: Any, root: Schema) -> list[Any]:
    """The values that an `enum` allows there, of all its branches."""
    found: list[Any] = []
    for part in parts(schema, root):
        listed = part.get("enum")
        found += listed if isinstance(listed, list) else []
        found += [part["const"]] if "const" in part else []
    return found


def _told_types(schema: Schema) -> frozenset[str]:
    told = schema.get("type")
    if isinstance(told, str):
        told = [told]
    if not isinstance(told, list):
        return ANYTHING
    types = frozenset(each for each in told if isinstance(each, str))
    return types | {"integer"} if "number" in types else types


def _item(part: Schema, index: int) -> Any:
    before = part.get("prefixItems")
    if isinstance(before, list) and index < len(before):
        return before[index]
    return part.get("items")


def _property(part: Schema, name: str) -> Any:
    named = part.get("properties")
    if isinstance(named, Mapping) and name in named:
        return named[name]
    others = part.get("additionalProperties")
    return others if isinstance(others, Mapping) else None


def _referred(reference: Any, root: Schema) -> Any:
    """Where a JSON pointer like `#/$defs/Edit` leads; None if it leads nowhere."""
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
