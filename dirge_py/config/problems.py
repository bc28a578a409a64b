"""Error messages about settings: the place, the problem, and the nearest known setting."""

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from dirge_py.config.schema import SEED_NAMES, Config
from dirge_py.config.services import PROVIDER_TYPES
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ConfigError

Path = tuple[str | int, ...]
"""The place of a value: names of tables and keys, and indexes in arrays of tables."""
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
"""Stands for a name that the user chooses (an alias, an action) in the path of a setting."""

KeyPath = tuple[str, ...]
_LISTS = ("permission.rule", "guardrail", "reminder")


def config_error(
    error: ValidationError, *, file: str, lines: Mapping[Path, int], sources: Mapping[str, str]
) -> ConfigError:
    """All problems in `error`, one line each, with the place of the setting."""
    problems = []
    lines = {own_path(path): line for path, line in lines.items()}
    entries = error.errors(include_url=False)
    for entry in sorted(entries, key=lambda entry: line_of(_location(entry), lines) or 0):
        text, hint = _words(entry)
        problems.append((f"{_place(_location(entry), file, lines, sources)}: {text}.", hint))
    again = "`dirge config check` checks the file again."
    if len(problems) == 1:
        text, hint = problems[0]
        return ConfigError(text, hint=hint or (again if text.startswith(file) else ""))
    shown = [f"{text} {hint}".rstrip() for text, hint in problems[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        shown.append(f"… and {len(problems) - _MOST_SHOWN} more.")
    return ConfigError("\n".join(shown), hint=again)


def _place(path: Path, file: str, lines: Mapping[Path, int], sources: Mapping[str, str]) -> str:
    source = sources.get(dotted(path), "")
    if source and not source.startswith(f"{file}:"):
        return source
    line = line_of(path, lines)
    return f"{file}:{line}" if line else file


def _location(entry: Any) -> Path:
    """pydantic's path to the value, without the mark it adds for an invalid key."""
    location: Path = entry["loc"]
    return location[:-1] if location[-1:] == ("[key]",) else location


def _words(entry: Any) -> tuple[str, str]:
    path = _location(entry)
    name, kind = dotted(path), entry["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        types = f"There are: {', '.join(PROVIDER_TYPES)}."
        hint = types if path[-1] == "type" else f"Add `{path[-1]} = …`."
        return f"`{dotted(path[:-1])}` needs `{path[-1]}`", hint
    if kind == "string_pattern_mismatch" and path[-1] == "api_key":
        hint = "Don't write keys into this file: name a variable, or use `api_key_file`."
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


@functools.cache
def known_keys() -> tuple[KeyPath, ...]:
    """The paths of all settings: `("loop", "max_turns")`, `("providers", "*", "type")`."""
    schema = Config.model_json_schema()
    return tuple(_leaves(schema, schema.get("$defs", {}), ()))


def nearest_key(table: KeyPath, key: str) -> str | None:
    """The setting that `key` in `table` was probably meant to be, with its table."""
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
    """Whether the setting `path` is in `table` or in one of its subtables."""
    return len(path) > len(table) and all(
        part in (ANY, name) for part, name in zip(path, table, strict=False)
    )


def table_name(table: KeyPath) -> str:
    """The table as the file writes it: `[providers.<name>]`, `[[permission.rule]]`."""
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
    # Headers and options are one setting each; the keys of other open tables are settings.
    if values and path[-1] not in ("headers", "options"):
        return _leaves(values, types, (*path, ANY))
    return [path]


def own_path(path: Path) -> Path:
    """The setting's path for a `path` in a file, which may use one of `SEED_NAMES`."""
    is_seed_name = path[:-1] in ((), ("plan",)) and path[-1:] and path[-1] in SEED_NAMES
    return ("plan", SEED_NAMES[str(path[-1])]) if is_seed_name else path


_PART = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_PARTS = late_pattern(_PART)
_GAP = late_pattern(r"(?:[ \t\r\n]|#[^\n]*)*")
_HEADER = late_pattern(rf"(?P<open>\[\[?)[ \t]*(?P<key>{_KEY})[ \t]*\]\]?")
_ASSIGNMENT = late_pattern(rf"(?P<key>{_KEY})[ \t]*=")
_VALUE_PIECE = late_pattern(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}'''
    r"""|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[\[{]|[\]}]|\n|[^"'#\[\]{}\n]+""",
    re.DOTALL,
)


def key_lines(text: str, *, with_tables: bool = True) -> Mapping[Path, int]:
    """The line (from 1) of every key and table header of a valid TOML text.

    Keys inside inline tables are not listed; `line_of` falls back to the key around them.
    """
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for offset, is_header, is_array, key in _statements(text):
        line = text.count("\n", 0, offset) + 1
        path: Path = tuple(_unquoted(part) for part in _PARTS.findall(key))
        if is_array:
            counts[path] = counts.get(path, -1) + 1
            path = (*path, counts[path])
        table, path = (path, path) if is_header else (table, table + path)
        if with_tables or not is_header:
            lines.setdefault(path, line)
    return lines


def line_of(path: Path, lines: Mapping[Path, int]) -> int | None:
    """The line of `path`, or of the nearest table or key around it that has one."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def dotted(path: Path) -> str:
    """The path as text: `permission.rule[0].op`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _statements(text: str) -> Iterator[tuple[int, bool, bool, str]]:
    """The (offset, is a header, is an array's header, key) of each statement that can be parsed."""
    at = 0
    while (at := _GAP.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        if header := _HEADER.match(text, at):
            yield at, True, header["open"] == "[[", header["key"]
            at = header.end()
        elif assignment := _ASSIGNMENT.match(text, at):
            yield at, False, False, assignment["key"]
            at = _after_value(text, assignment.end())
        else:
            return


def _after_value(text: str, at: int) -> int:
    depth = 0
    while piece := _VALUE_PIECE.match(text, at):
        at = piece.end()
        if piece[0] in "[{":
            depth += 1
        elif piece[0] in "]}":
            depth -= 1
        elif piece[0] == "\n" and depth == 0:
            break
    return at


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        return str(tomllib.loads(f"key = {part}")["key"])
    except tomllib.TOMLDecodeError:
        return part  # parsing the file reports the error
