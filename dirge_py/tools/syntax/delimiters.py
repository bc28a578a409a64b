"""Brackets and quotes that have no partner, in the tree of a text."""

from collections.abc import Iterator, Sequence

import tree_sitter

from dirge_py.lib.lean_dataclass import dataclass

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
# Some languages have these as one sign, and take it for two in another place.
_DOUBLE = {"[[": "[[", "]]": "]]", "((": "((", "))": "))", "$((": "(("}
_CLOSING = frozenset(_CLOSERS.values())
_QUOTES = frozenset(('"', "'", "`", '"""', "'''", "string_start"))
_QUOTE_ENDS = frozenset(('"', "'", "`", '"""', "'''", "string_end"))
# What stands where a macro is used need not be a string.
_WITH_MACROS = frozenset(("c", "cpp"))
_KEYWORDS = frozenset(("end", "fi", "done", "esac"))


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at a place: `row` from 0, `column` in bytes from 0."""

    row: int
    column: int
    words: str


@dataclass(frozen=True, slots=True)
class _Bracket:
    token: str
    row: int
    column: int

    @property
    def fault(self) -> Fault:
        return Fault(self.row, self.column, f"`{self.token}` is never closed")


def nodes(root: tree_sitter.Node, *, only_faulty: bool = False) -> Iterator[tree_sitter.Node]:
    """Every node in the order of the text; `only_faulty` leaves out whole subtrees without error.

    Trees are deeper than Python calls.
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


def faults_in(root: tree_sitter.Node, source: bytes, language: str) -> list[Fault]:
    """Delimiters without a partner, in the order of the text.

    A quote that is open swallows the brackets behind it, so it comes before all that follow.
    """
    quotes = list(_quotes(root, source, language))
    found = _brackets(root, source.split(b"\n"))
    if quotes:
        first = min(quotes, key=_place)
        found = [fault for fault in found if _place(fault) < _place(first)] + quotes
    return sorted(found, key=_place)


def _place(fault: Fault) -> tuple[int, int]:
    return fault.row, fault.column


def _quotes(root: tree_sitter.Node, source: bytes, language: str) -> Iterator[Fault]:
    for node in nodes(root, only_faulty=True):
        row, column = node.start_point
        if node.is_missing and node.type in _QUOTE_ENDS and node.parent is not None:
            if language not in _WITH_MACROS:
                yield _open_string(node.parent.child(0) or node.parent, source)
        elif node.is_missing and node.type in _KEYWORDS:
            yield Fault(row, column, f"`{node.type}` is missing")
        elif node.is_error:
            if source.startswith(b"/*", node.start_byte):
                yield Fault(row, column, "the comment that begins with `/*` is never closed")
            lone = _lone_quote(node)
            if lone is not None and _counts(lone, language):
                yield _open_string(lone, source)


def _lone_quote(error: tree_sitter.Node) -> tree_sitter.Node | None:
    """The quote of an error that has no second one in it."""
    last: dict[str, tree_sitter.Node] = {}
    for child in error.children:
        token = child.type if child.type in _QUOTES else ""
        if child.type == "string_end":
            last.pop("string_start", None)
        elif token and last.pop(token, None) is None:
            last[token] = child
    return min(last.values(), key=lambda node: node.start_byte, default=None)


def _counts(quote: tree_sitter.Node, language: str) -> bool:
    """Whether it begins a string. In HTML only behind `=`: any other is an apostrophe."""
    if language == "html":
        return quote.prev_sibling is not None and quote.prev_sibling.type == "="
    return language not in _WITH_MACROS


def _open_string(quote: tree_sitter.Node, source: bytes) -> Fault:
    opening = source[quote.start_byte : quote.end_byte].decode(errors="replace")
    beginning = "here" if opening == "`" else f"with `{opening}`"
    row, column = quote.start_point
    return Fault(row, column, f"the string that begins {beginning} is never closed")


def _brackets(root: tree_sitter.Node, lines: Sequence[bytes]) -> list[Fault]:
    open_ones: list[_Bracket] = []
    faults: list[Fault] = []
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
            faults.append(Fault(token.row, token.column, f"`{token.token}` closes nothing"))
    return faults + [_likelier(each, suspects).fault for each in open_ones]


def _tokens(root: tree_sitter.Node) -> Iterator[_Bracket]:
    for node in nodes(root):
        if node.child_count or node.is_missing:
            continue
        if node.type in _CLOSERS or node.type in _CLOSING:
            yield _Bracket(node.type, *node.start_point)
        for token in _DOUBLE.get(node.type, ""):
            yield _Bracket(token, *node.start_point)


def _stands_further_left(closing: _Bracket, opening: _Bracket, lines: Sequence[bytes]) -> bool:
    """Whether a closing bracket opens its line further left than the line it would close began."""
    begins_line = not lines[closing.row][: closing.column].strip()
    return begins_line and closing.column < _indent(lines[opening.row])


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def _likelier(outer: _Bracket, suspects: Sequence[_Bracket]) -> _Bracket:
    """The bracket that people forgot to close: what follows it took the closing one of `outer`."""
    within = [
        each
        for each in suspects
        if each.token == outer.token and (each.row, each.column) > (outer.row, outer.column)
    ]
    return within[0] if within else outer
