"""The part of JSON Schema that OpenAI's strict mode can hold an answer to."""

from collections.abc import Mapping
from typing import Any

_KEYWORDS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "minItems"),
        *("maxItems", "enum", "const", "anyOf", "$ref", "$defs", "definitions", "title"),
        *("description", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "pattern", "format"),
    }
)


def fits_strict(schema: Mapping[str, Any]) -> bool:
    """Whether `strict` may be asked for: any other schema would be refused with an error.

    Every object must be closed and require all of its properties, and the top must be an object.
    """
    return schema.get("type") == "object" and "anyOf" not in schema and _fits(schema)


def _fits(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _KEYWORDS:
        return False
    if not ({"type", "anyOf", "$ref", "enum", "const"} & schema.keys()):
        return False
    properties = schema.get("properties", {})
    of_type = schema.get("type")
    if of_type == "object" or (isinstance(of_type, list) and "object" in of_type) or properties:
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != set(properties):
            return False
    named = [*properties.values()]
    for name in ("$defs", "definitions"):
        named += schema.get(name, {}).values()
    inner = [*named, *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return all(map(_fits, inner))
