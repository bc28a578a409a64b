"""Colours source code with Pygments: in fenced blocks and in diffs."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.style import Style

from dirge_py.lib.lazy import late
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.lines import Line

if TYPE_CHECKING:
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
else:
    find_lexer_class_for_filename = late("pygments.lexers", "find_lexer_class_for_filename")
    get_lexer_by_name = late("pygments.lexers", "get_lexer_by_name")

_LARGEST = 100_000
"""Characters beyond which code isn't highlighted."""
_ROLES = {
    "Keyword": "keyword",
    "Comment": "comment",
    "Literal.String": "string",
    "Literal.Number": "number",
    **dict.fromkeys(("Name.Function", "Name.Class", "Name.Decorator", "Name.Builtin"), "function"),
}

CodeLine: TypeAlias = Sequence[tuple[str, str]]
"""The pieces of a line of code, each with its role in `SyntaxStyles`; "" for ordinary text."""


def highlight(code: str, language: str, styles: Styles) -> list[Line]:
    """Return the lines of `code`; in one colour if its language is unknown or it is too long."""
    lines = code_lines(code, language)
    if lines is None:
        return [[(line, styles.markdown.code)] for line in code.split("\n")]
    return [[(text, style_of(role, styles)) for text, role in line] for line in lines]


def style_of(role: str, styles: Styles) -> Style:
    """Return the style of a role of `CodeLine`."""
    style: Style = getattr(styles.syntax, role) if role else styles.text
    return style


@lru_cache(maxsize=64)
def code_lines(code: str, language: str) -> Sequence[CodeLine] | None:
    """Split code into lines with roles; None if its language is unknown or it is too long."""
    lexer = _lexer(language) if language and len(code) <= _LARGEST else None
    if lexer is None:
        return None
    lines: list[list[tuple[str, str]]] = [[]]
    for token, text in lexer.get_tokens(code):
        role = _role(str(token))
        for index, part in enumerate(text.split("\n")):
            if index:
                lines.append([])
            if part:
                lines[-1].append((part, role))
    # Lexers add a final newline.
    return lines[: code.count("\n") + 1]


@lru_cache(maxsize=128)
def language_of(path: str) -> str:
    """Return the name of a language for a file's name; "" if it has none."""
    name = path.rpartition("/")[2]
    lexer = find_lexer_class_for_filename(name) if name else None
    return str(lexer.aliases[0]) if lexer is not None and lexer.aliases else ""


def _role(token: str) -> str:
    for prefix, role in _ROLES.items():
        if token.startswith(prefix, len("Token.")):
            return role
    return ""


@lru_cache(maxsize=32)
def _lexer(language: str) -> Any:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=True)
    except ValueError:  # Pygments' ClassNotFound.
        return None
