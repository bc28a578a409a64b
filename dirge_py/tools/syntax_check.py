"""Checks whether a change breaks a file's syntax.

JSON, TOML and YAML are read by the parsers that are there anyway; any other language, and a file
that was broken before, by its tree-sitter grammar, which is imported when the first such file is
checked. The grammars of Bash and Python always come with dirge, the others with the extra `syntax`:
what needs a grammar that is missing is not checked. A fault is named by the bracket or quote that
has no partner, if there is one.
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

import tree_sitter
import yaml

from dirge_py.lib.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Grammar:
    """A language, and where its tree-sitter grammar comes from."""

    language: str
    """The name of the language."""
    module: str
    """The module that holds the grammar."""
    function: str = "language"
    """The function of that module that returns the grammar."""
    is_exact: bool = False
    """Whether the grammar covers the whole language, so that an error in its tree is a real one."""


_GRAMMARS = {
    "bash": Grammar("bash", "tree_sitter_bash"),
    "c": Grammar("c", "tree_sitter_c"),
    "cpp": Grammar("cpp", "tree_sitter_cpp"),
    "css": Grammar("css", "tree_sitter_css"),
    "go": Grammar("go", "tree_sitter_go", is_exact=True),
    "html": Grammar("html", "tree_sitter_html"),
    "java": Grammar("java", "tree_sitter_java"),
    "javascript": Grammar("javascript", "tree_sitter_javascript", is_exact=True),
    "json": Grammar("json", "tree_sitter_json", is_exact=True),
    # JSON variants with comments and trailing commas.
    "jsonc": Grammar("jsonc", "tree_sitter_json"),
    "python": Grammar("python", "tree_sitter_python", is_exact=True),
    "ruby": Grammar("ruby", "tree_sitter_ruby", is_exact=True),
    "rust": Grammar("rust", "tree_sitter_rust"),
    "toml": Grammar("toml", "tree_sitter_toml", is_exact=True),
    "tsx": Grammar("tsx", "tree_sitter_typescript", "language_tsx"),
    "typescript": Grammar("typescript", "tree_sitter_typescript", "language_typescript"),
    "yaml": Grammar("yaml", "tree_sitter_yaml", is_exact=True),
}
_PARSED = frozenset(("json", "toml", "yaml"))
"""Languages with a parser; their grammars only count the faults of a file that had some before."""
_ENDINGS: Mapping[str, str] = {
    ".bash": "bash",
    ".c": "c",
    ".cc": "cpp",
    ".cjs": "javascript",
    ".cpp": "cpp",
    ".css": "css",
    ".cts": "typescript",
    ".cxx": "cpp",
    ".geojson": "json",
    ".go": "go",
    ".h": "cpp",
    ".hh": "cpp",
    ".hpp": "cpp",
    ".htm": "html",
    ".html": "html",
    ".hxx": "cpp",
    ".java": "java",
    ".js": "javascript",
    ".json": "json",
    ".jsonc": "jsonc",
    ".jsx": "javascript",
    ".mjs": "javascript",
    ".mts": "typescript",
    ".py": "python",
    ".pyi": "python",
    ".rake": "ruby",
    ".rb": "ruby",
    ".rs": "rust",
    ".sh": "bash",
    ".toml": "toml",
    ".ts": "typescript",
    ".tsx": "tsx",
    ".webmanifest": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}
_NAMES: Mapping[str, str] = {
    ".babelrc": "jsonc",
    ".bash_profile": "bash",
    ".bashrc": "bash",
    ".eslintrc": "jsonc",
    ".jshintrc": "jsonc",
    ".profile": "bash",
    "BUILD.bazel": "python",
    "Cargo.lock": "toml",
    "Gemfile": "ruby",
    "Pipfile": "toml",
    "Rakefile": "ruby",
    "poetry.lock": "toml",
    "uv.lock": "toml",
}
_COMMENTED_JSON = re.compile(
    r"(ts|js|app)?config(\..*)?\.json|\.?eslintrc\.json|\.?devcontainer\.json|\.?swcrc|settings\.json"
    r"|(launch|tasks|keybindings|extensions)\.json|\.?jshintrc|.*\.code-workspace|deno\.json"
    r"|(turbo|nx|biome|api-extractor|angular|language-configuration|tslint|typedoc)\.json",
)


def language_of(path: str) -> str | None:
    """Return the language of the file with this name; None if it cannot be checked."""
    name = os.path.basename(path)
    ending = os.path.splitext(name)[1].lower()
    language = _NAMES.get(name) or _ENDINGS.get(ending)
    if language == "json" and (_COMMENTED_JSON.fullmatch(name) or "/.vscode/" in path):
        language = "jsonc"
    if ending == ".code-workspace":
        language = "jsonc"
    return language


@functools.cache
def load_grammar(grammar: Grammar) -> tree_sitter.Language:
    """Return the grammar, ready for a parser.

    Raises:
        ImportError: it is not installed.
    """
    return tree_sitter.Language(getattr(import_module(grammar.module), grammar.function)())


_CLOSERS = {
    "(": ")",
    "[": "]",
    "{": "}",
    "${": "}",
    "#{": "}",
    "$(": ")",
    "<(": ")",
    ">(": ")",
}
# Some languages have these as one token, and as two tokens elsewhere.
_DOUBLE = {"[[": "[[", "]]": "]]", "((": "((", "))": "))", "$((": "(("}
_CLOSING = frozenset(_CLOSERS.values())
_QUOTES = frozenset(('"', "'", "`", '"""', "'''", "string_start"))
_QUOTE_ENDS = frozenset(('"', "'", "`", '"""', "'''", "string_end"))
# The operand of a macro need not be a string.
_WITH_MACROS = frozenset(("c", "cpp"))
_KEYWORDS = frozenset(("end", "fi", "done", "esac"))


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """A syntax error at a place: `row` from 0, `column` in bytes from 0."""

    row: int
    column: int
    words: str


@dataclass(frozen=True, slots=True)
class _Bracket:
    token: str
    row: int
    column: int

    @property
    def fault(self) -> SyntaxFault:
        return SyntaxFault(self.row, self.column, f"`{self.token}` is never closed")


def walk_nodes(root: tree_sitter.Node, *, only_faulty: bool = False) -> Iterator[tree_sitter.Node]:
    """Yield every node in the order of the text; `only_faulty` skips subtrees without errors.

    Iterative, because trees are deeper than Python's recursion limit.
    """
    cursor = root.walk()
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
    """Return delimiters without a partner, in the order of the text.

    An open quote includes the brackets after it, so it comes before all that follow.
    """
    quotes = list(_quotes(root, source, language))
    found = _brackets(root, source.split(b"\n"))
    if quotes:
        first = min(quotes, key=_fault_position)
        found = [
            fault for fault in found if _fault_position(fault) < _fault_position(first)
        ] + quotes
    return sorted(found, key=_fault_position)


def _fault_position(fault: SyntaxFault) -> tuple[int, int]:
    return fault.row, fault.column


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
            lone = _lone_quote(node)
            if lone is not None and _counts_as_quote(lone, language):
                yield _open_string(lone, source)


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


def _counts_as_quote(quote: tree_sitter.Node, language: str) -> bool:
    """Whether the quote begins a string. In HTML only after `=`: any other is an apostrophe."""
    if language == "html":
        return quote.prev_sibling is not None and quote.prev_sibling.type == "="
    return language not in _WITH_MACROS


def _open_string(quote: tree_sitter.Node, source: bytes) -> SyntaxFault:
    opening = source[quote.start_byte : quote.end_byte].decode(errors="replace")
    beginning = "here" if opening == "`" else f"with `{opening}`"
    row, column = quote.start_point
    return SyntaxFault(row, column, f"the string that begins {beginning} is never closed")


def _brackets(root: tree_sitter.Node, lines: Sequence[bytes]) -> list[SyntaxFault]:
    open_ones: list[_Bracket] = []
    faults: list[SyntaxFault] = []
    suspects: list[_Bracket] = []
    for token in _tokens(root):
        if token.token in _CLOSERS:
            open_ones.append(token)
        elif open_ones and _CLOSERS[open_ones[-1].token] == token.token:
            opening = open_ones.pop()
            if _stands_further_left(token, opening, lines):
                suspects.append(opening)
        elif any(_CLOSERS[each.token] == token.token for each in open_ones):
            while _CLOSERS[open_ones[-1].token] != token.token:
                faults.append(open_ones.pop().fault)
            open_ones.pop()
        else:
            faults.append(SyntaxFault(token.row, token.column, f"`{token.token}` closes nothing"))
    return faults + [_likelier_culprit(each, suspects).fault for each in open_ones]


def _tokens(root: tree_sitter.Node) -> Iterator[_Bracket]:
    for node in walk_nodes(root):
        if node.child_count or node.is_missing:
            continue
        if node.type in _CLOSERS or node.type in _CLOSING:
            yield _Bracket(node.type, *node.start_point)
        for token in _DOUBLE.get(node.type, ""):
            yield _Bracket(token, *node.start_point)


def _stands_further_left(closing: _Bracket, opening: _Bracket, lines: Sequence[bytes]) -> bool:
    """Whether a closing bracket's line is indented less than the line it would close."""
    begins_line = not lines[closing.row][: closing.column].strip()
    return begins_line and closing.column < _indent(lines[opening.row])


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def _likelier_culprit(outer: _Bracket, suspects: Sequence[_Bracket]) -> _Bracket:
    """Return the bracket that was probably not closed, so that later closers are off by one."""
    within = [
        each
        for each in suspects
        if each.token == outer.token and (each.row, each.column) > (outer.row, outer.column)
    ]
    return within[0] if within else outer


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
_JSON_STRING = re.compile(r'"(?:\\.|[^"\\\n])*(?:"|$)', re.MULTILINE)
_JSON_COMMENT = re.compile(r"(?<![\w:/*.])/[/*]")
_CONTROLS = {code: " " for code in range(32) if code != ord("\n")}
_JSON_BLANKS = re.compile(r"[ \t\r\n]*")


def check_syntax(path: str, before: str, after: str) -> str:
    """Return the syntax error that a change adds, such as "line 12, column 5: `(` is never closed".

    "" if the text has no more errors than before, so that a broken file can be repaired step by
    step; and whenever that is uncertain: an unknown language, a template, a file over 1 MiB, a
    check that takes too long, syntax that the grammar may not know. Columns count characters from
    1.
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
        return _new_fault(_GRAMMARS[language], before, after, deadline, fault)
    # A bug in the check must not keep anyone from writing a file.
    except (ImportError, OSError, RecursionError, MemoryError, TypeError, ValueError):
        return ""


def _parser_fault(language: str, text: str, deadline: float) -> str:
    """Return the parser's error for JSON, TOML or YAML, with its place; "" if there is none.

    Raises:
        ValueError: it took too long, or the text is not Unicode.
    """
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

    Tabs and the like in strings are let pass, as many readers do; a line end is a lost quote.
    """
    readable = text.translate(_CONTROLS)
    decoder, end = json.JSONDecoder(), _after_blanks(readable, 0)
    try:
        while end < len(readable):
            _, end = decoder.raw_decode(readable, end)
            end = _after_blanks(readable, end)
    except json.JSONDecodeError as error:
        is_comment = text.startswith(("//", "/*"), error.pos)
        # A string that is not closed ends with its line, and makes no comment of `https://`.
        if not is_comment and not _JSON_COMMENT.search(_JSON_STRING.sub('""', text)):
            raise


def _after_blanks(text: str, start: int) -> int:
    blanks = _JSON_BLANKS.match(text, start)
    return blanks.end() if blanks else start


@dataclass(frozen=True, slots=True)
class _Parsed:
    root: tree_sitter.Node
    source: bytes


def _parse(grammar: Grammar, text: str, deadline: float) -> _Parsed:
    """Return the tree of `text`.

    Raises:
        ValueError: it took too long, or the text is too large or not Unicode.
    """
    source = text.encode()
    if len(source) > MAX_BYTES:
        raise ValueError("too large")
    # Only a text that is read piece by piece can be abandoned.
    tree = tree_sitter.Parser(load_grammar(grammar)).parse(
        lambda offset, point: source[offset : offset + _PIECE],
        progress_callback=lambda offset, has_error: time.monotonic() > deadline,
    )
    return _Parsed(tree.root_node, source)


def _is_doubtful(language: str, path: str, text: str) -> bool:
    """Whether the text may be valid although its tree has errors."""
    if "{{" in path or _TEMPLATE.search(text):
        return True
    match language:
        case "bash":
            # Such characters can crash the grammar's native code, and the brackets of a `case` have
            # no partners.
            return max(text, default="") > "\uffff" or _CASES.search(text) is not None
        case "c" | "cpp":
            return _ALTERNATIVES.search(text) is not None
        case _:
            return language in _MARKUP and _FILLED_IN.search(text) is not None


def _new_fault(grammar: Grammar, before: str, after: str, deadline: float, fault: str) -> str:
    """What the tree of the text has more errors in than the tree before; "" if nothing.

    `fault` is what a parser of the language finds wrong in the text, if it has one.
    """
    new = _parse(grammar, after, deadline)
    if not new.root.has_error:
        return ""
    old = _parse(grammar, before, deadline)
    wrong = [node for node in walk_nodes(new.root, only_faulty=True) if _is_wrong(node)]
    if len(wrong) <= sum(_is_wrong(node) for node in walk_nodes(old.root, only_faulty=True)):
        return ""
    opinion = _python_fault(after) if grammar.language == "python" else fault or None
    if opinion == "":
        return ""
    known = find_faults(old.root, old.source, grammar.language)
    faults = find_faults(new.root, new.source, grammar.language)
    if len(faults) > len(known):
        # The first error that is new, compared by its text and line.
        seen = {(fault.words, _line_at(old.source, fault.row)) for fault in known}
        fresh = (
            each for each in faults if (each.words, _line_at(new.source, each.row)) not in seen
        )
        return _describe_fault(next(fresh, faults[0]), new.source)
    if not grammar.is_exact:
        return ""
    return opinion or _describe_fault(_fault_of(wrong[0], new.source), new.source)


def _is_wrong(node: tree_sitter.Node) -> bool:
    return node.is_error or node.is_missing


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
        what = "a name" if node.type == "identifier" else f"`{node.type}`"
        return SyntaxFault(row, column, f"{what} is missing")
    first = node.child(0) if node.child_count else None
    if first is not None and first.type in _ENDED_BY_END:
        return SyntaxFault(row, column, f"`{first.type}` has no `end`")
    text = source[node.start_byte : node.end_byte].decode(errors="replace")
    first_line = text.strip().split("\n")[0].rstrip()
    shown = first_line[:_SHOWN_CHARS] + ("…" if len(first_line) > _SHOWN_CHARS else "")
    return SyntaxFault(
        row, column, f"`{shown}` does not belong here" if shown else "the line ends early"
    )


def _describe_fault(fault: SyntaxFault, source: bytes) -> str:
    before = _line_at(source, fault.row)[: fault.column].decode(errors="replace")
    return f"line {fault.row + 1}, column {len(before) + 1}: {fault.words}"


def _line_at(source: bytes, row: int) -> bytes:
    lines = source.split(b"\n")
    return lines[row] if row < len(lines) else b""
