"""In which line of a TOML text each key is set; `tomllib` does not tell."""

import re
import tomllib
from collections.abc import Iterator, Mapping

Path = tuple[str | int, ...]
"""Where a value is: table and key names; a number for an entry of an array of tables."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_PARTS = re.compile(_PART)
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_HEADER = re.compile(rf"(?P<open>\[\[?)[ \t]*(?P<key>{_KEY})[ \t]*\]\]?")
_ASSIGNMENT = re.compile(rf"(?P<key>{_KEY})[ \t]*=")
_VALUE_PIECE = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}'''
    r"""|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[\[{]|[\]}]|\n|[^"'#\[\]{}\n]+""",
    re.DOTALL,
)


def key_lines(text: str, *, with_tables: bool = True) -> Mapping[Path, int]:
    """Line (from 1) of every key, and table header, of a TOML text that parses.

    Keys inside inline tables are not listed: ask `line_of`, which falls back to the key around it.
    """
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for offset, is_header, is_array, key in _statements(text):
        line = text.count("\n", 0, offset) + 1
        path = _path(key)
        if is_array:
            counts[path] = counts.get(path, -1) + 1
            path = (*path, counts[path])
        table, path = (path, path) if is_header else (table, table + path)
        if with_tables or not is_header:
            lines.setdefault(path, line)
    return lines


def line_of(path: Path, lines: Mapping[Path, int]) -> int | None:
    """The line of `path`, or of the nearest thing around it that has one."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def dotted(path: Path) -> str:
    """`permission.rule[0].op`"""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _statements(text: str) -> Iterator[tuple[int, bool, bool, str]]:
    """(offset, is a header, is an array's header, key) of each statement; stops at nonsense."""
    at = _end(_GAP.match(text))
    while at < len(text):
        if header := _HEADER.match(text, at):
            yield at, True, header["open"] == "[[", header["key"]
            at = header.end()
        elif assignment := _ASSIGNMENT.match(text, at):
            yield at, False, False, assignment["key"]
            at = _after_value(text, assignment.end())
        else:
            return
        at = _end(_GAP.match(text, at))


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


def _path(key: str) -> Path:
    return tuple(_unquoted(part) for part in _PARTS.findall(key))


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        return str(tomllib.loads(f"key = {part}")["key"])
    except tomllib.TOMLDecodeError:
        return part  # reading the file will say what is wrong with it


def _end(match: re.Match[str] | None) -> int:
    assert match is not None  # the gap may be empty, so it always matches
    return match.end()
