"""Source code as styled lines. Pygments is imported when the first code is really shown."""

import importlib
from functools import lru_cache
from typing import Any

from rich.style import Style

from dirge_py.ui.ink import Ink
from dirge_py.ui.transcript.lines import Line

_LARGEST = 100_000
"""Characters beyond which code stays plain: highlighting is a comfort, not worth a pause."""


def highlight(code: str, language: str, ink: Ink) -> list[Line]:
    """The lines of `code`; in one plain colour if its language is unknown or it is too long."""
    lexer = _lexer(language) if language and len(code) <= _LARGEST else None
    if lexer is None:
        return [[(line, ink.code)] for line in code.split("\n")]
    lines: list[Line] = [[]]
    for token, text in lexer.get_tokens(code):
        style = _style(str(token), ink)
        for index, part in enumerate(text.split("\n")):
            if index:
                lines.append([])
            if part:
                lines[-1].append((part, style))
    # Lexers add a final newline of their own.
    return lines[: code.count("\n") + 1]


def _style(token: str, ink: Ink) -> Style:
    kind = token.removeprefix("Token.")
    if kind.startswith("Keyword"):
        return ink.keyword
    if kind.startswith("Comment"):
        return ink.comment
    if kind.startswith("Literal.String"):
        return ink.string
    if kind.startswith("Literal.Number"):
        return ink.number
    if kind.startswith(("Name.Function", "Name.Class", "Name.Decorator", "Name.Builtin")):
        return ink.function
    return ink.text


@lru_cache(maxsize=32)
def _lexer(language: str) -> Any:
    pygments = importlib.import_module("pygments.lexers")
    unknown = importlib.import_module("pygments.util").ClassNotFound

    try:
        return pygments.get_lexer_by_name(language, stripnl=False, ensurenl=True)
    except unknown:
        return None
