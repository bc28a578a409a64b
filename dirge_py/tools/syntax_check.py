"""Checks whether a change breaks a file's syntax.

JSON, TOML and YAML are checked by the parsers that dirge has anyway. Other languages, and files
that were broken before, are checked by tree-sitter grammars, imported when first needed. Those of
Bash and Python come with dirge, the others with the extra `syntax`; without its grammar, a language
is not checked. If a bracket or quote has no partner, the error names it.
"""

import ast
import functools
import json
import os
import re
import threading
import time
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from operator import attrgetter

import tree_sitter
import yaml

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass

_EXACT = frozenset(("go", "javascript", "json", "python", "ruby", "toml", "yaml"))
"""Languages whose grammar covers everything, so that an error in the tree is a real one."""
_PARSED = frozenset(("json", "toml", "yaml"))
"""Languages with a parser; their grammars only count the errors of a file that had some before."""
_GRAMMARS: Mapping[str, tuple[str, str]] = {
    "jsonc": ("tree_sitter_json", "language"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
"""Module and function of a language's grammar, unless it is `tree_sitter_LANGUAGE.language`."""
_FILES: Mapping[str, str] = {
    "bash": "*.bash *.sh .bash_profile .bashrc .profile",
    "c": "*.c",
    "cpp": "*.cc *.cpp *.cxx *.h *.hh *.hpp *.hxx",
    "css": "*.css",
    "go": "*.go",
    "html": "*.htm *.html",
    "java": "*.java",
    "javascript": "*.cjs *.js *.jsx *.mjs",
    "json": "*.geojson *.json *.webmanifest",
    # JSON with comments and trailing commas.
    "jsonc": "*.code-workspace *.jsonc .babelrc .eslintrc .jshintrc",
    "python": "*.py *.pyi BUILD.bazel",
    "ruby": "*.rake *.rb Gemfile Rakefile",
    "rust": "*.rs",
    "toml": "*.toml Cargo.lock Pipfile poetry.lock uv.lock",
    "tsx": "*.tsx",
    "typescript": "*.cts *.mts *.ts",
    "yaml": "*.yaml *.yml",
}
"""The endings and names of each language's files."""
_LANGUAGES = {file: language for language, files in _FILES.items() for file in files.split()}
_COMMENTED_JSON = late_pattern(
    r"(ts|js|app)?config(\..*)?\.json|\.?eslintrc\.json|\.?devcontainer\.json|\.?swcrc|settings\.json"
    r"|(launch|tasks|keybindings|extensions)\.json|\.?jshintrc|deno\.json"
    r"|(turbo|nx|biome|api-extractor|angular|language-configuration|tslint|typedoc)\.json"
)


def language_of(path: str) -> str | None:
    """Return the language of the file with this name; None if it cannot be checked."""
    name = os.path.basename(path)
    ending = os.path.splitext(name)[1].lower()
    language = _LANGUAGES.get(name) or _LANGUAGES.get(f"*{ending}")
    if language == "json" and (_COMMENTED_JSON.fullmatch(name) or "/.vscode/" in path):
        return "jsonc"
    return language


@functools.cache
def load_grammar(language: str) -> tree_sitter.Language:
    """Return the grammar of a language. Raises ImportError if it is not installed."""
    module, function = _GRAMMARS.get(language, (f"tree_sitter_{language}", "language"))
    return tree_sitter.Language(getattr(import_module(module), function)())


_CLOSERS = dict.fromkeys(("(", "$(", "<(", ">("), ")")
_CLOSERS |= {"[": "]"} | dict.fromkeys(("{", "${", "#{"), "}")
# Some languages have these as one token, and as two tokens elsewhere.
_DOUBLE = {"[[": "[[", "]]": "]]", "((": "((", "))": "))", "$((": "(("}
_CLOSING = frozenset(_CLOSERS.values())
_QUOTES = frozenset(('"', "'", "`", '"""', "'''", "string_start"))
_QUOTE_ENDS = frozenset(('"', "'", "`", '"""', "'''", "string_end"))
# The operand of a macro need not be a string.
_WITH_MACROS = frozenset(("c", "cpp"))
_place = attrgetter("row", "column")
_KEYWORDS = frozenset(("end", "fi", "done", "esac"))


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """A syntax error at a place: `row` from 0, `column` in bytes from 0.

    While brackets are paired, `words` is only the bracket.
    """

    row: int
    column: int
    words: str

    def with_problem(self, problem: str = "is never closed") -> "SyntaxFault":
        return SyntaxFault(self.row, self.column, f"`{self.words}` {problem}")


def walk_nodes(root: tree_sitter.Node, *, only_faulty: bool = False) -> Iterator[tree_sitter.Node]:
    """Yield the nodes in the order of the text; `only_faulty` skips subtrees without errors."""
    cursor = root.walk()  # Trees can be deeper than Python's recursion limit.
    while True:
        node = cursor.node
        assert node is not None
        yield node
        if not (only_faulty and not node.has_error) and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def find_faults(root: tree_sitter.Node, source: bytes, language: str) -> list[SyntaxFault]:
    """Return delimiters without a partner, in order; brackets after an open quote don't count."""

    faults = _brackets(root, source.split(b"\n"))
    if quotes := list(_quotes(root, source, language)):
        first = min(map(_place, quotes))
        faults = [fault for fault in faults if _place(fault) < first] + quotes
    return sorted(faults, key=_place)


def _quotes(root: tree_sitter.Node, source: bytes, language: str) -> Iterator[SyntaxFault]:
    for node in walk_nodes(root, only_faulty=True):
        row, column = node.start_point
        if node.is_missing and node.type in _QUOTE_ENDS and node.parent is not None:
            if language not in _WITH_MACROS:
                yield _open_string(node.parent.child(0) or node.parent, source)
        elif node.is_missing and node.type in _KEYWORDS:
            yield SyntaxFault(row, column, f"`{node.type}` is missing")
        elif node.is_error:
            if source.startswith(b"/*", node.start_byte):
                yield SyntaxFault(row, column, "the comment that begins with `/*` is never closed")
            quote = _lone_quote(node)
            is_string = language not in _WITH_MACROS
            if quote is not None and language == "html":
                # Only one after `=` begins a string, others are text.
                is_string = quote.prev_sibling is not None and quote.prev_sibling.type == "="
            if quote is not None and is_string:
                yield _open_string(quote, source)


def _lone_quote(error: tree_sitter.Node) -> tree_sitter.Node | None:
    """Return the quote in an error node that has no second one in it."""
    last: dict[str, tree_sitter.Node] = {}
    for child in error.children:
        token = child.type if child.type in _QUOTES else ""
        if child.type == "string_end":
            last.pop("string_start", None)
        elif token and last.pop(token, None) is None:
            last[token] = child
    return min(last.values(), key=lambda node: node.start_byte, default=None)


def _open_string(quote: tree_sitter.Node, source: bytes) -> SyntaxFault:
    opening = source[quote.start_byte : quote.end_byte].decode(errors="replace")
    beginning = "here" if opening == "`" else f"with `{opening}`"
    row, column = quote.start_point
    return SyntaxFault(row, column, f"the string that begins {beginning} is never closed")


def _brackets(root: tree_sitter.Node, lines: Sequence[bytes]) -> list[SyntaxFault]:
    open_ones: list[SyntaxFault] = []
    faults: list[SyntaxFault] = []
    suspects: list[SyntaxFault] = []
    for token in _tokens(root):
        if token.words in _CLOSERS:
            open_ones.append(token)
        elif open_ones and _CLOSERS[open_ones[-1].words] == token.words:
            opening = open_ones.pop()
            if _is_further_left(token, opening, lines):
                suspects.append(opening)
        elif any(_CLOSERS[each.words] == token.words for each in open_ones):
            while _CLOSERS[open_ones[-1].words] != token.words:
                faults.append(open_ones.pop().with_problem())
            open_ones.pop()
        else:
            faults.append(token.with_problem("closes nothing"))
    return faults + [_likely_unclosed(each, suspects).with_problem() for each in open_ones]


def _tokens(root: tree_sitter.Node) -> Iterator[SyntaxFault]:
    for node in walk_nodes(root):
        if node.child_count or node.is_missing:
            continue
        if node.type in _CLOSERS or node.type in _CLOSING:
            yield SyntaxFault(*node.start_point, node.type)
        for token in _DOUBLE.get(node.type, ""):
            yield SyntaxFault(*node.start_point, token)


def _is_further_left(closing: SyntaxFault, opening: SyntaxFault, lines: Sequence[bytes]) -> bool:
    """Whether a closing bracket begins its line, left of the line with the opening one."""
    begins_line = not lines[closing.row][: closing.column].strip()
    line = lines[opening.row]
    return begins_line and closing.column < len(line) - len(line.lstrip())


def _likely_unclosed(outer: SyntaxFault, suspects: Sequence[SyntaxFault]) -> SyntaxFault:
    """Return the bracket that was probably not closed: an inner suspect, else `outer` itself."""
    alike = (each for each in suspects if each.words == outer.words)
    return next((each for each in alike if _place(each) > _place(outer)), outer)


MAX_BYTES = 1 << 20
MAX_SECONDS = 1.0
_PIECE = 1 << 16
_SHOWN_CHARS = 40
_TEMPLATE = late_pattern(r"\{%.*%\}|<%.*%>|\{\{#|@flow\b")
_FILLED_IN = late_pattern(r"(?<!\$)\{\{")
_MARKUP = frozenset(("css", "html", "json", "jsonc", "toml", "yaml"))
_ALTERNATIVES = late_pattern(r"^[ \t]*#[ \t]*(else|elif)", re.MULTILINE)
_ENDED_BY_END = frozenset(("begin", "class", "def", "module"))
_CASES = late_pattern(r"\bcase\b")
_JSON_STRING = late_pattern(r'"(?:\\.|[^"\\\n])*(?:"|$)', re.MULTILINE)
_JSON_COMMENT = late_pattern(r"(?<![\w:/*.])/[/*]")
_CONTROLS = {code: " " for code in range(32) if code != ord("\n")}
_NOT_BLANK = late_pattern(r"[^ \n]")


def check_syntax(path: str, before: str, after: str) -> str:
    """Return the syntax error that a change adds, such as "line 12, column 5: `(` is never closed".

    Returns "" if the text has no more errors than before, so that a broken file can be repaired
    step by step. Also if that is uncertain: an unknown language, a template, a file over 1 MiB, a
    check that takes too long, syntax that the grammar may not know.
    """
    language = language_of(path)
    if language is None or before == after or max(len(before), len(after)) > MAX_BYTES:
        return ""
    deadline = time.monotonic() + MAX_SECONDS
    try:
        if _is_doubtful(language, path, after):
            return ""
        fault = ""
        if language in _PARSED:
            fault = _parser_fault(language, after, deadline)
            if not (fault and before and _parser_fault(language, before, deadline)):
                return fault
        # A parser stops at the first fault; only the trees tell whether there are more than before.
        return _new_fault(language, before, after, deadline, fault)
    # A bug in the check must not prevent a file from being written.
    except (ImportError, OSError, RecursionError, MemoryError, TypeError, ValueError):
        return ""


def _parser_fault(language: str, text: str, deadline: float) -> str:
    """Return the parser's error with its place, or "". Raises ValueError if it takes too long."""
    text.encode()
    text = text.removeprefix("\ufeff")
    try:
        if language == "json":
            _parse_json(text)
        elif language == "toml":
            tomllib.loads(text)
        else:
            for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                if time.monotonic() > deadline:
                    raise ValueError("it took too long")
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except tomllib.TOMLDecodeError as error:
        words, _, place = str(error).removesuffix(")").rpartition(" (at ")
        return f"{place}: {words}"
    except yaml.MarkedYAMLError as error:
        mark, start = error.problem_mark, error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        around = f" {error.context} from line {start.line + 1}" if start else ""
        return f"{place}{error.problem}{around}"
    except yaml.YAMLError as error:
        return str(error).split("\n")[0]
    return ""


def _parse_json(text: str) -> None:
    """Raise JSONDecodeError unless the text is JSON: one value, several, or any with comments.

    Control characters in strings are accepted, as by many parsers, except for a line end.
    """
    readable = text.translate(_CONTROLS)
    decoder, end = json.JSONDecoder(), 0
    try:
        while value := _NOT_BLANK.search(readable, end):
            _, end = decoder.raw_decode(readable, value.start())
    except json.JSONDecodeError as error:
        is_comment = text.startswith(("//", "/*"), error.pos)
        # An open string ends with its line, and the `//` of `https://` in it is no comment.
        if not is_comment and not _JSON_COMMENT.search(_JSON_STRING.sub('""', text)):
            raise


def _parse(language: str, text: str, deadline: float) -> tuple[tree_sitter.Node, bytes]:
    """Return the tree's root, and the text as bytes. Raises ValueError if it takes too long."""
    source = text.encode()
    if len(source) > MAX_BYTES:
        raise ValueError("too large")
    # Only a text that is read piece by piece can be abandoned.
    tree = tree_sitter.Parser(load_grammar(language)).parse(
        lambda offset, point: source[offset : offset + _PIECE],
        progress_callback=lambda offset, has_error: time.monotonic() > deadline,
    )
    return tree.root_node, source


def _is_doubtful(language: str, path: str, text: str) -> bool:
    """Whether the text may be valid although its tree has errors."""
    if "{{" in path or _TEMPLATE.search(text):
        return True
    if language == "bash":
        # Characters beyond U+FFFF can crash the grammar's native code; the brackets in a `case`
        # have no partners.
        return max(text, default="") > "\uffff" or _CASES.search(text) is not None
    if language in _WITH_MACROS:
        return _ALTERNATIVES.search(text) is not None
    return language in _MARKUP and _FILLED_IN.search(text) is not None


def _new_fault(language: str, before: str, after: str, deadline: float, fault: str) -> str:
    """Return the first error that the tree of `after` adds to that of `before`; "" if none.

    `fault` is the error that a parser of the language found in `after`, "" without a parser.
    """
    new, source = _parse(language, after, deadline)
    if not new.has_error:
        return ""
    old, old_source = _parse(language, before, deadline)
    wrong = _wrong_nodes(new)
    if len(wrong) <= len(_wrong_nodes(old)):
        return ""
    parser_fault = _python_fault(after) if language == "python" else fault or None
    if parser_fault == "":
        return ""
    known = find_faults(old, old_source, language)
    faults = find_faults(new, source, language)
    if len(faults) > len(known):
        # Errors are compared by their text and line.
        seen = {(each.words, _line_at(old_source, each.row)) for each in known}
        added = (each for each in faults if (each.words, _line_at(source, each.row)) not in seen)
        return _describe_fault(next(added, faults[0]), source)
    if language not in _EXACT:
        return ""
    return parser_fault or _describe_fault(_fault_of(wrong[0], source), source)


def _wrong_nodes(root: tree_sitter.Node) -> list[tree_sitter.Node]:
    nodes = walk_nodes(root, only_faulty=True)
    return [node for node in nodes if node.is_error or node.is_missing]


_WARNINGS = threading.Lock()


def _python_fault(text: str) -> str | None:
    """Return Python's own syntax error: "" if there is none, None if it can't tell."""
    # Python prints a warning about invalid escapes in the text.
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except SyntaxError as error:
            return f"line {error.lineno or 1}, column {error.offset or 1}: {error.msg}"
        except ValueError:
            return None
    return ""


def _fault_of(node: tree_sitter.Node, source: bytes) -> SyntaxFault:
    row, column = node.start_point
    if node.is_missing:
        token = "a name" if node.type == "identifier" else f"`{node.type}`"
        return SyntaxFault(row, column, f"{token} is missing")
    first = node.child(0) if node.child_count else None
    if first is not None and first.type in _ENDED_BY_END:
        return SyntaxFault(row, column, f"`{first.type}` has no `end`")
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    first_line = text.strip().split("\n")[0].rstrip()
    shown = first_line[:_SHOWN_CHARS] + ("…" if len(first_line) > _SHOWN_CHARS else "")
    words = f"`{shown}` does not belong here" if shown else "the line ends early"
    return SyntaxFault(row, column, words)


def _describe_fault(fault: SyntaxFault, source: bytes) -> str:
    before = _line_at(source, fault.row)[: fault.column].decode(errors="replace")
    return f"line {fault.row + 1}, column {len(before) + 1}: {fault.words}"


def _line_at(source: bytes, row: int) -> bytes:
    lines = source.split(b"\n")
    return lines[row] if row < len(lines) else b""
