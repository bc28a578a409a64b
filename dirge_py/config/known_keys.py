"""Every setting's name, read from the schema, and the one somebody probably meant."""

import difflib
import functools
from typing import Any

from dirge_py.config.schema import Config

ANY = "*"
"""Stands for a name that users choose (an alias, an action), in a key's path."""

KeyPath = tuple[str, ...]

_LISTS = ("permission.rule", "guardrail", "reminder")


@functools.cache
def known_keys() -> tuple[KeyPath, ...]:
    """All settings but no tables: `("loop", "max_turns")`, `("providers", "*", "type")`."""
    schema = Config.model_json_schema()
    return tuple(_leaves(schema, schema.get("$defs", {}), ()))


def nearest_key(table: KeyPath, key: str) -> str | None:
    """What `key` in `table` was probably meant to be, in words to put after "did you mean"."""
    here = {path[len(table)] for path in known_keys() if matches(table, path)} - {ANY}
    if close := difflib.get_close_matches(key, here, 1):
        return f"`{close[0]}`"
    tables = {path[-1]: path[:-1] for path in reversed(known_keys())}
    tables.pop(ANY, None)
    if close := difflib.get_close_matches(key, tables, 1):
        where = tables[close[0]]
        return f"`{close[0]}` in {table_name(where)}" if where else f"`{close[0]}` at the top"
    return None


def matches(table: KeyPath, path: KeyPath) -> bool:
    """Whether the setting `path` lies somewhere in `table`."""
    return len(path) > len(table) and all(
        part in (ANY, name) for part, name in zip(path, table, strict=False)
    )


def table_name(table: KeyPath) -> str:
    """`[providers.<name>]`, `[[permission.rule]]`, as written in the file."""
    name = ".".join("<name>" if part == ANY else part for part in table)
    return f"[[{name}]]" if name in _LISTS else f"[{name}]"


def _leaves(node: dict[str, Any], types: dict[str, Any], path: KeyPath) -> list[KeyPath]:
    if "$ref" in node:
        node = types[node["$ref"].rpartition("/")[2]]
    if "properties" in node:
        return [
            leaf
            for name, child in node["properties"].items()
            for leaf in _leaves(child, types, (*path, name))
        ]
    if "$ref" in node.get("items", {}):
        return _leaves(node["items"], types, path)
    values = node.get("additionalProperties") or next(
        iter(node.get("patternProperties", {}).values()), None
    )
    # Headers are one setting whose names are the service's; the other open tables are ours.
    if values and path[-1] != "headers":
        return _leaves(values, types, (*path, ANY))
    return [path]
