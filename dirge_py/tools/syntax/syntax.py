"""Whether a change breaks a file's syntax."""

import ast
import json
import re
import threading
import time
import tomllib
import warnings
from collections.abc import Callable, Mapping

import tree_sitter

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.syntax.delimiters import Fault, faults_in, nodes
from dirge_py.tools.syntax.grammars import Grammar, grammar_of, load

MAX_BYTES = 1 << 20
MAX_SECONDS = 1.0
_PIECE = 1 << 16
_SHOWN_CHARS = 40

_TEMPLATE = re.compile(r"\{%.*%\}|<%.*%>|\{\{#|@flow\b")
_FILLED_IN = re.compile(r"(?<!\$)\{\{")
_MARKUP = frozenset(("css", "html", "json", "jsonc", "toml", "yaml"))
_ALTERNATIVES = re.compile(r"^[ \t]*#[ \t]*(else|elif)", re.MULTILINE)
_ENDED_BY_END = frozenset(("begin", "class", "def", "module"))
_CASES = re.compile(r"\bcase\b")


def check_syntax(path: str, before: str, after: str) -> str:
    """What a change breaks in a file's syntax, such as "line 12, column 5: `(` is never closed".

    "" if the text has no more errors than it had, so that a broken file can be mended step by step;
    and whenever that is not certain: an unknown language, a template, a file over 1 MiB, one that
    takes too long, a construct that the grammar may not know. Columns count characters from 1.
    """
    grammar = grammar_of(path)
    if grammar is None or before == after or max(len(before), len(after)) > MAX_BYTES:
        return ""
    try:
        if _is_doubtful(grammar, path, after):
            return ""
        deadline = time.monotonic() + MAX_SECONDS
        new = _parsed(grammar, after, deadline)
        if not new.root.has_error:
            return ""
        old = _parsed(grammar, before, deadline)
        return _growth(grammar, old, new, after)
    # Nobody is kept from writing a file because the check itself had trouble.
    except (ImportError, OSError, RecursionError, MemoryError, TypeError, ValueError):
        return ""


@dataclass(frozen=True, slots=True)
class _Parsed:
    root: tree_sitter.Node
    source: bytes


def _parsed(grammar: Grammar, text: str, deadline: float) -> _Parsed:
    """The tree of `text`.

    Raises:
        ValueError: it took too long, or the text is too large or no Unicode.
    """
    source = text.encode()
    if len(source) > MAX_BYTES:
        raise ValueError("too large")
    # Only a text that is fetched piece by piece can be given up on.
    tree = tree_sitter.Parser(load(grammar)).parse(
        lambda offset, point: source[offset : offset + _PIECE],
        progress_callback=lambda offset, has_error: time.monotonic() > deadline,
    )
    return _Parsed(tree.root_node, source)


def _is_doubtful(grammar: Grammar, path: str, text: str) -> bool:
    """Whether the text may be right though its tree has errors."""
    if "{{" in path or _TEMPLATE.search(text):
        return True
    match grammar.language:
        case "bash":
            # Such characters can end the process inside the grammar's own code; and the brackets
            # of a `case` have no partners.
            return max(text, default="") > "\uffff" or _CASES.search(text) is not None
        case "c" | "cpp":
            return _ALTERNATIVES.search(text) is not None
        case language:
            return language in _MARKUP and _FILLED_IN.search(text) is not None


def _growth(grammar: Grammar, old: _Parsed, new: _Parsed, text: str) -> str:
    wrong = [node for node in nodes(new.root, only_faulty=True) if _is_wrong(node)]
    if len(wrong) <= sum(_is_wrong(node) for node in nodes(old.root, only_faulty=True)):
        return ""
    opinion = _second_opinion(grammar.language, text)
    if opinion == "":
        return ""
    known = faults_in(old.root, old.source, grammar.language)
    faults = faults_in(new.root, new.source, grammar.language)
    if len(faults) > len(known):
        return _described(_first_new(faults, known, old, new), new.source)
    if not grammar.is_exact or (grammar.language == "json" and _has_comments(new.root)):
        return ""
    return opinion or _described(_fault_of(wrong[0], new.source), new.source)


def _is_wrong(node: tree_sitter.Node) -> bool:
    return node.is_error or node.is_missing


def _has_comments(root: tree_sitter.Node) -> bool:
    return any(node.type == "comment" for node in nodes(root))


_OTHERS: Mapping[str, Callable[[str], object]] = {
    "python": ast.parse,
    "json": json.loads,
    "toml": tomllib.loads,
}
_QUIET = threading.Lock()


def _second_opinion(language: str, text: str) -> str | None:
    """What somebody who knows the language better finds wrong: "" is nothing, None no opinion."""
    read = _OTHERS.get(language)
    if read is None:
        return None
    # Python tells the terminal about odd escapes in the text it reads.
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read(text)
        except SyntaxError as error:
            return f"line {error.lineno or 1}, column {error.offset or 1}: {error.msg}"
        except json.JSONDecodeError as error:
            return f"line {error.lineno}, column {error.colno}: {error.msg}"
        except ValueError:
            return None
    return ""


def _first_new(faults: list[Fault], known: list[Fault], old: _Parsed, new: _Parsed) -> Fault:
    """The first fault that was not there before, told by its words and its line."""
    seen = {(fault.words, _line(old.source, fault.row)) for fault in known}
    fresh = (each for each in faults if (each.words, _line(new.source, each.row)) not in seen)
    return next(fresh, faults[0])


def _fault_of(node: tree_sitter.Node, source: bytes) -> Fault:
    row, column = node.start_point
    if node.is_missing:
        what = "a name" if node.type == "identifier" else f"`{node.type}`"
        return Fault(row, column, f"{what} is missing")
    first = node.child(0) if node.child_count else None
    if first is not None and first.type in _ENDED_BY_END:
        return Fault(row, column, f"`{first.type}` has no `end`")
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    first_line = text.strip().split("\n")[0].rstrip()
    shown = first_line[:_SHOWN_CHARS] + ("…" if len(first_line) > _SHOWN_CHARS else "")
    return Fault(row, column, f"`{shown}` does not belong here" if shown else "the line ends early")


def _described(fault: Fault, source: bytes) -> str:
    before = _line(source, fault.row)[: fault.column].decode(errors="replace")
    return f"line {fault.row + 1}, column {len(before) + 1}: {fault.words}"


def _line(source: bytes, row: int) -> bytes:
    lines = source.split(b"\n")
    return lines[row] if row < len(lines) else b""
