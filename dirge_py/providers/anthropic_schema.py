"""A JSON Schema as Anthropic's structured outputs take it: closed objects, few constraints."""

from collections.abc import Mapping
from typing import Any

_KEPT = frozenset({"type", "enum", "const", "$ref", "title", "description", "required"})
_NAMED = ("properties", "$defs", "definitions")
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` without what would be refused. What is left out, the caller has to look at itself.

    Objects are closed: the service fills in no member that is not described.
    """
    kept: dict[str, Any] = {name: schema[name] for name in schema if name in _KEPT}
    for name in _NAMED:
        if isinstance(schema.get(name), Mapping):
            kept[name] = {key: _closed(each) for key, each in schema[name].items()}
    for name, written in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if isinstance(schema.get(name), list) and written not in kept:
            kept[written] = [_closed(each) for each in schema[name]]
    if "items" in schema:
        kept["items"] = _closed(schema["items"])
    if schema.get("format") in _FORMATS:
        kept["format"] = schema["format"]
    if schema.get("minItems") in {0, 1}:
        kept["minItems"] = schema["minItems"]
    if schema.get("type") == "object" or "properties" in kept:
        kept["additionalProperties"] = False
    return kept


def _closed(schema: Any) -> Any:
    return closed(schema) if isinstance(schema, Mapping) else schema
