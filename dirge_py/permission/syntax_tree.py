"""The second opinion on a plain command line: tree-sitter must see the same words.

Import this module only when a decision hangs on it: it loads the parser. Never give it text that
has not passed `shell_lexer.lex`: some characters crash the parser, and the process with it.
"""

import tree_sitter
import tree_sitter_bash

from dirge_py.lib.shell_lexer import Part

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))

_STRUCTURE = frozenset(("program", "list", "pipeline", "redirected_statement", "command"))
_OPERATORS = frozenset(("&&", "||", "|", ";", "\n"))
_REDIRECT_PIECES = frozenset(
    (">", ">>", ">&", "&>", "&>>", "<", "file_descriptor", "word", "number")
)


class _Unknown(Exception):
    """The tree holds a kind of node that plain commands do not have."""


def sees_the_same(text: str, parts: tuple[Part, ...]) -> bool:
    """Whether tree-sitter finds exactly the commands and redirections the lexer found."""
    source = text.encode("ascii")
    root = _PARSER.parse(source).root_node
    if root.has_error:
        return False
    found: list[tuple[str, ...]] = []
    redirects: list[str] = []
    try:
        _walk(root, found, redirects)
    except _Unknown:
        return False
    lexed = [blankless for part in parts for blankless in map(_blankless, part.redirects)]
    return found == [part.argv for part in parts] and sorted(redirects) == sorted(lexed)


def _walk(root: tree_sitter.Node, found: list[tuple[str, ...]], redirects: list[str]) -> None:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_missing:
            raise _Unknown
        if node.type == "command":
            found.append(tuple(_argument(child) for child in node.children))
        elif node.type == "file_redirect":
            if any(child.type not in _REDIRECT_PIECES for child in node.children):
                raise _Unknown
            redirects.append(_blankless(_text(node)))
        elif node.type in _STRUCTURE:
            stack.extend(reversed(node.children))
        elif node.type not in _OPERATORS:
            raise _Unknown


def _argument(node: tree_sitter.Node) -> str:
    if node.type in ("command_name", "concatenation"):
        return "".join(_argument(child) for child in node.children)
    if node.type in ("word", "number"):
        return _text(node)
    if node.type in ("raw_string", "string"):
        # The text between the quotes, not the children: those lose blanks at the start.
        return _text(node)[1:-1]
    raise _Unknown


def _text(node: tree_sitter.Node) -> str:
    return (node.text or b"").decode("ascii")


def _blankless(text: str) -> str:
    return text.replace(" ", "").replace("\t", "")
