"""What is wrong with the settings, in words with a place, and the setting somebody probably meant.

Imported only when something is wrong.
"""

import functools
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from dirge_py.config.key_lines import Path, dotted, line_of
from dirge_py.config.schema import Config, own_path
from dirge_py.config.services import PROVIDER_TYPES
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ConfigError

_MOST_SHOWN = 10

_WORDS = {
    "model_type": "must be a table",
    "dict_type": "must be a table",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_too_short": "must not be empty",
}

ANY = "*"
"""Stands for a name that users choose (an alias, an action), in a key's path."""

KeyPath = tuple[str, ...]
_LISTS = ("permission.rule", "guardrail", "reminder")


def config_error(
    error: ValidationError, *, file: str, lines: Mapping[Path, int], sources: Mapping[str, str]
) -> ConfigError:
    """Everything `error` complains about, one line each, with the place it was set."""
    problems = []
    lines = {own_path(path): line for path, line in lines.items()}
    for entry in sorted(error.errors(include_url=False), key=lambda e: _line(e, lines)):
        text, hint = _words(entry)
        problems.append((f"{_place(_location(entry), file, lines, sources)}: {text}.", hint))
    if len(problems) == 1:
        return ConfigError(problems[0][0], hint=problems[0][1])
    shown = [f"{text} {hint}".rstrip() for text, hint in problems[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        shown.append(f"… and {len(problems) - _MOST_SHOWN} more.")
    return ConfigError("\n".join(shown), hint="`dirge config check` looks again.")


def _line(entry: Any, lines: Mapping[Path, int]) -> int:
    return line_of(_location(entry), lines) or 0


def _place(path: Path, file: str, lines: Mapping[Path, int], sources: Mapping[str, str]) -> str:
    source = sources.get(dotted(path), "")
    if source and not source.startswith(f"{file}:"):
        return source
    line = line_of(path, lines)
    return f"{file}:{line}" if line else file


def _location(entry: Any) -> Path:
    """pydantic's path to the value, without the mark it adds when a table's key is faulty."""
    location: Path = entry["loc"]
    return location[:-1] if location[-1:] == ("[key]",) else location


def _words(entry: Any) -> tuple[str, str]:
    path = _location(entry)
    name, kind = dotted(path), entry["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        return f"`{dotted(path[:-1])}` needs `{path[-1]}`", _accepted(entry, path)
    if kind == "string_pattern_mismatch" and path[-1] == "api_key":
        hint = "A key does not belong in this file: name its variable, or use `api_key_file`."
        return f'`{name}` must be written as "${{VARIABLE}}"', hint
    if kind == "string_pattern_mismatch":
        return f"`{name}` must be a slash and one word, as in `/name`", ""
    if kind == "value_error":
        reason = str(entry["ctx"]["error"])
        return f"`{name}`: {reason}" if name else reason, ""
    words = _WORDS.get(kind) or entry["msg"].replace("Input should be", "must be")
    return f"`{name}` {words}", ""


def _unknown_key(path: Path) -> tuple[str, str]:
    table = tuple(part for part in path[:-1] if isinstance(part, str))
    key = str(path[-1])
    nearest = nearest_key(table, key)
    where = f" in {table_name(table)}" if table else ""
    hint = f"Did you mean {nearest}?" if nearest else "config.example.toml lists every setting."
    return f"no setting `{key}`{where}", hint


def _accepted(entry: Any, path: Path) -> str:
    if path[-1] == "type":
        return f"There are: {', '.join(PROVIDER_TYPES)}."
    return f"Add `{path[-1]} = …`."


@functools.cache
def known_keys() -> tuple[KeyPath, ...]:
    """All settings but no tables: `("loop", "max_turns")`, `("providers", "*", "type")`."""
    schema = Config.model_json_schema()
    return tuple(_leaves(schema, schema.get("$defs", {}), ()))


def nearest_key(table: KeyPath, key: str) -> str | None:
    """What `key` in `table` was probably meant to be, in words to put after "did you mean"."""
    here = {path[len(table)] for path in known_keys() if matches(table, path)} - {ANY}
    if close := nearest(key, here):
        return f"`{close}`"
    tables = {path[-1]: path[:-1] for path in reversed(known_keys())}
    tables.pop(ANY, None)
    if close := nearest(key, tables):
        where = tables[close]
        return f"`{close}` in {table_name(where)}" if where else f"`{close}` at the top"
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
