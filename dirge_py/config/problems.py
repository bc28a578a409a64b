"""Error messages about settings: the place, the problem, and the nearest known setting."""

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from dirge_py.config.schema import SEED_NAMES, Config
from dirge_py.config.services import PROVIDER_TYPES
from dirge_py.config.table import InvalidSettings, Path, Problem, Table
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ConfigError

_MOST_SHOWN = 10

ANY = "*"
"""Stands for a name that the user chooses (an alias, an action) in the path of a setting."""

KeyPath = tuple[str, ...]
_LISTS = ("permission.rule", "guardrail", "reminder")


def config_error(
    error: InvalidSettings, *, file: str, lines: Mapping[Path, int], sources: Mapping[str, str]
) -> ConfigError:
    """All problems in `error`, one line each, with the place of the setting."""
    problems = []
    lines = {own_path(path): line for path, line in lines.items()}
    for problem in sorted(error.problems, key=lambda each: line_of(each.path, lines) or 0):
        text, hint = _words(problem)
        problems.append((f"{_place(problem.path, file, lines, sources)}: {text}.", hint))
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


def _words(problem: Problem) -> tuple[str, str]:
    path = problem.path
    if problem.kind == "unknown":
        return _unknown_key(path)
    if problem.kind == "missing":
        types = f"There are: {', '.join(PROVIDER_TYPES)}."
        hint = types if path[-1] == "type" else f"Add `{path[-1]} = …`."
        return f"`{dotted(path[:-1])}` needs `{path[-1]}`", hint
    text = f"`{dotted(path)}`{problem.text}" if path else problem.text.removeprefix(": ")
    return text, problem.hint


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
    return tuple(_leaves(Config, ()))


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


def _leaves(kind: Any, path: KeyPath) -> Iterator[KeyPath]:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    values = get_args(kind)[-1] if get_origin(kind) in (dict, list) else None
    if isinstance(kind, type) and issubclass(kind, Table):
        for name, setting in kind.settings_of_class.items():
            yield from _leaves(setting.type, (*path, name))
    elif isinstance(values, type) and get_origin(kind) is list and issubclass(values, Table):
        yield from _leaves(values, path)
    # Headers and options are one setting each; the keys of other open tables are settings.
    elif get_origin(kind) is dict and path[-1] not in ("headers", "options"):
        yield from _leaves(values, (*path, ANY))
    else:
        yield path


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
