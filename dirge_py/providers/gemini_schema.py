"""Converts JSON Schema to Gemini's `Schema`, which has few keywords and refuses all others.

Other keywords are left out or put into the description, as tools check their arguments themselves.
Gemini's member for plain JSON Schema (`parametersJsonSchema`) isn't used: some proxies drop it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})
_FORMATS = {"STRING": {"date-time"}, "NUMBER": {"float", "double"}, "INTEGER": {"int32", "int64"}}
_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_ANY_TYPES = ("STRING", "NUMBER", "BOOLEAN", "OBJECT")
_MAX_DEPTH = 24
_MAX_NODES = 4000
_MAX_STEPS = 8
_MAX_SHOWN = 300

Schema = dict[str, Any]


def parameters_schema(schema: Mapping[str, Any]) -> Schema | None:
    """A tool's parameters; None if it has none."""
    converted = _Converter(schema).object(schema)
    return converted if converted.get("properties") else None


def response_schema(schema: Mapping[str, Any]) -> Schema:
    """The schema of an answer."""
    return _Converter(schema).any(schema)


class _Converter:
    """Converts one schema. References are resolved; a recursive one becomes an open object."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._open: list[str] = []
        self._nodes = 0

    def object(self, raw: Mapping[str, Any]) -> Schema:
        """`raw` as an object, whatever its type: only objects can be parameters."""
        return self._typed({**self._flat(raw), "type": "object"}, "object", 0)

    def any(self, raw: Any, depth: int = 0) -> Schema:
        """`raw` converted. `True`, `{}` and invalid schemas allow any value."""
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES or not isinstance(raw, Mapping):
            return _anything()
        reference = raw.get("$ref")
        if not isinstance(reference, str):
            return self._node(self._flat(raw), depth)
        if reference in self._open:
            return _described({"type": "OBJECT"}, raw.get("description"))
        self._open.append(reference)
        try:
            return self.any(self._resolved(raw), depth + 1)
        finally:
            self._open.pop()

    def _flat(self, raw: Mapping[str, Any], steps: int = 0) -> Mapping[str, Any]:
        """`raw` merged with its reference and all of its `allOf`."""
        self._nodes += 1
        raw = self._resolved(raw)
        own = {name: value for name, value in raw.items() if name not in ("$ref", "allOf")}
        if steps > _MAX_STEPS or self._nodes > _MAX_NODES:
            return own
        if "$ref" in raw:
            return self._flat(raw, steps + 1)
        parts = (part for part in _listed(raw.get("allOf")) if isinstance(part, Mapping))
        return _merged([*(self._flat(part, steps + 1) for part in parts), own])

    def _resolved(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """`raw` merged with its reference; its own members win."""
        reference = raw.get("$ref")
        own = {name: value for name, value in raw.items() if name != "$ref"}
        target: Any = self._root
        if not isinstance(reference, str):
            return own
        for name in reference.removeprefix("#").split("/")[1:]:
            plain = name.replace("~1", "/").replace("~0", "~")
            target = target.get(plain) if isinstance(target, Mapping) else None
        return {**target, **own} if isinstance(target, Mapping) else own

    def _node(self, raw: Mapping[str, Any], depth: int) -> Schema:
        """`raw` of one type, or a choice: `anyOf` must stand alone, so its options get the rest."""
        types, is_nullable = _types(raw)
        options = _options(raw) if types[:1] != ["object"] else []
        if len(types) == 1 and not options:
            converted = self._typed(raw, types[0], depth)
            return {**converted, "nullable": True} if is_nullable else converted
        if not types and not options:
            return _anything(raw.get("description"), is_nullable=is_nullable)
        if not options:
            plain = {name: value for name, value in raw.items() if name != "description"}
            options = [{**plain, "type": name} for name in types]
        return self._choice(raw.get("description"), options, depth, is_nullable=is_nullable)

    def _choice(
        self, words: Any, options: Sequence[Any], depth: int, *, is_nullable: bool
    ) -> Schema:
        others = [option for option in options if not _is_null(option)]
        is_nullable = is_nullable or len(others) < len(options)
        converted: list[Schema] = []
        for option in others:
            schema = self.any(option, depth + 1)
            for single in schema.get("anyOf", [schema]):
                if single not in converted:
                    converted.append(single)
        if not converted:
            converted, is_nullable = [{"type": "STRING"}], True
        if is_nullable:
            converted = [{**schema, "nullable": True} for schema in converted]
        converted[0] = _described(converted[0], words)
        return converted[0] if len(converted) == 1 else {"anyOf": converted}

    def _typed(self, raw: Mapping[str, Any], name: str, depth: int) -> Schema:
        converted: Schema = {"type": name.upper()}
        description = raw.get("description")
        if isinstance(description, str) and description.strip():
            converted["description"] = description
        if raw.get("format") in _FORMATS.get(converted["type"], ()):
            converted["format"] = raw["format"]
        if name == "object":
            converted |= self._members(raw, depth)
        elif name == "array":
            converted |= self._elements(raw, depth)
        elif name in ("number", "integer"):
            converted |= _limits(raw)
        return _with_values(converted, raw)

    def _members(self, raw: Mapping[str, Any], depth: int) -> Schema:
        """The properties, with those of all alternatives; required is what every one requires."""
        properties = dict(_mapping(raw.get("properties")))
        required = _names(raw.get("required"))
        alternatives = [self._flat(o) for o in _options(raw) if isinstance(o, Mapping)]
        for option in alternatives:
            properties = {**_mapping(option.get("properties")), **properties}
        in_each = [_names(option.get("required")) for option in alternatives]
        for first in in_each[:1]:
            required += [name for name in first if all(name in names for names in in_each)]
        possible = ((name, value) for name, value in properties.items() if value is not False)
        members = {str(name): self.any(value, depth + 1) for name, value in possible}
        if not members:
            return {}
        due = [name for name in dict.fromkeys(required) if name in members]
        return {"properties": members, **({"required": due} if due else {})}

    def _elements(self, raw: Mapping[str, Any], depth: int) -> Schema:
        items = raw.get("items")
        if listed := _listed(items) or _listed(raw.get("prefixItems")):
            items = {"anyOf": listed}
        counts = ((name, raw.get(name)) for name in ("minItems", "maxItems"))
        known = {name: n for name, n in counts if _is_number(n) and isinstance(n, int) and n >= 0}
        return {"items": self.any(items, depth + 1), **known}


def _anything(words: Any = None, *, is_nullable: bool = False) -> Schema:
    """The schema for any value: a choice of types, because no type stands for all of them."""
    more = {"nullable": True} if is_nullable else {}
    first, *others = ({"type": name, **more} for name in _ANY_TYPES)
    return {"anyOf": [_described(first, words), *others]}


def _merged(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """All of `parts` in one schema; the last one wins."""
    whole: dict[str, Any] = {}
    for part in parts:
        properties = {**_mapping(whole.get("properties")), **_mapping(part.get("properties"))}
        required = [*_names(whole.get("required")), *_names(part.get("required"))]
        whole |= part
        if properties:
            whole["properties"] = properties
        if required:
            whole["required"] = required
    return whole


def _types(raw: Mapping[str, Any]) -> tuple[list[str], bool]:
    """The types that `raw` allows, and whether null is one of them."""
    given_type = raw.get("type")
    names = given_type if isinstance(given_type, list) else [given_type]
    is_nullable = "null" in names or raw.get("nullable") is True
    known = [name for name in names if isinstance(name, str) and name in _TYPES]
    if known or given_type is not None:
        return known, is_nullable
    values = _values(raw)
    if values:
        types = dict.fromkeys(_TYPE_NAMES.get(type(v), "string") for v in values if v is not None)
        return list(types), is_nullable or None in values
    if "properties" in raw or "additionalProperties" in raw:
        return ["object"], is_nullable
    return (["array"] if "items" in raw or "prefixItems" in raw else []), is_nullable


def _options(raw: Mapping[str, Any]) -> list[Any]:
    return _listed(raw.get("anyOf") or raw.get("oneOf"))


def _values(raw: Mapping[str, Any]) -> list[Any]:
    return [raw["const"]] if "const" in raw else _listed(raw.get("enum"))


def _with_values(converted: Schema, raw: Mapping[str, Any]) -> Schema:
    """Add the allowed values: strings as an `enum`, others in the description."""
    values = _values(raw)
    if None in values:
        converted = {**converted, "nullable": True}
    if converted["type"] == "STRING":
        texts = [value for value in values if isinstance(value, str) and value]
        return {**converted, "enum": list(dict.fromkeys(texts))} if texts else converted
    fitting = [value for value in values if isinstance(value, bool | int | float)]
    if not fitting:
        return converted
    literals = (str(v).lower() if isinstance(v, bool) else str(v) for v in fitting)
    shown = ", ".join(literals)[:_MAX_SHOWN]
    words = f"One of: {shown}." if len(fitting) > 1 else f"Always {shown}."
    return _described(converted, words)


def _limits(raw: Mapping[str, Any]) -> Schema:
    """The bounds. Exclusive ones don't exist; for an integer, the next integer is used."""
    limits = {name: raw[name] for name in ("minimum", "maximum") if _is_number(raw.get(name))}
    if raw.get("type") == "integer":
        for name, step in (("minimum", 1), ("maximum", -1)):
            exclusive = raw.get(f"exclusive{name.capitalize()}")
            if isinstance(exclusive, int) and _is_number(exclusive):
                limits.setdefault(name, exclusive + step)
    return limits


def _described(converted: Schema, words: Any) -> Schema:
    if not isinstance(words, str) or not words.strip():
        return converted
    old = converted.get("description")
    return {**converted, "description": f"{words.strip()} {old}" if old else words}


def _is_null(raw: Any) -> bool:
    return isinstance(raw, Mapping) and (raw.get("type") == "null" or _values(raw) == [None])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(value: Any) -> list[str]:
    return [name for name in _listed(value) if isinstance(name, str)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
