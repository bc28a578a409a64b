"""The sentences in the program's source, for a reader: `python -m tests.house.strings [FOLDER]`."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house.source import PACKAGE, modules, name_of, tree_of

_WORDS = re.compile(r"[^\W\d_]{2,}\S* +\S|\S +[^\W\d_]{2,}")
_CODE = re.compile(
    r"\(\?[:P=!<]|\\[sdwb]|\x1b|\{ *(&|[a-z-]+:)|^\s*(SELECT|INSERT|CREATE|DELETE|UPDATE|PRAGMA)\b"
)


def sentences(module: Path) -> Iterator[tuple[int, str]]:
    """The line and text of each string with a space and a word, a value in it as `{…}`.

    Docstrings, annotations, regular expressions, SQL, styles and lists of words are left out.
    """
    yield from _inside(tree_of(module))


def _inside(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Attribute) and node.attr in ("split", "splitlines"):
        return  # a list of words
    if isinstance(node, ast.Constant | ast.JoinedStr):
        text = string_of(node)
        if _WORDS.search(text) and not _CODE.search(text):
            yield node.lineno, text
    if isinstance(node, ast.JoinedStr):
        values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        for value in values:
            yield from _inside(value)
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _inside(child)


def string_of(node: ast.AST) -> str:
    """The text of a string constant or f-string, values in it as `{…}`; "" for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case ast.JoinedStr(values=parts):
            return "".join(map(string_of, parts))
    return ""


def main(folder: str = "") -> None:
    """Print every sentence of a folder of the package, with its place."""
    for module in modules(PACKAGE / folder):
        for line, text in sentences(module):
            sys.stdout.write(f"{name_of(module)}:{line}: {text!r}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
