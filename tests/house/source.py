"""The program's source, parsed for the house tests."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dirge_py"
TESTS = ROOT / "tests"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules(folder: Path = PACKAGE) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def mentioning(words: str, folder: Path = PACKAGE) -> Iterator[Path]:
    """The modules whose text matches `words`, to avoid parsing the others."""
    pattern = re.compile(words)
    return (module for module in modules(folder) if pattern.search(text_of(module)))


def name_of(module: Path, folder: Path = PACKAGE) -> str:
    return module.relative_to(folder).as_posix()


@cache
def text_of(module: Path) -> str:
    return module.read_text(encoding="utf-8")


@cache
def tree_of(module: Path) -> ast.Module:
    return ast.parse(text_of(module))


@cache
def walked(tree: ast.AST) -> list[ast.AST]:
    """`ast.walk` of a tree, cached."""
    return list(ast.walk(tree))


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its qualified name: `Class.method`, `function.inner`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, Function):
            yield inside + node.name, node
        if isinstance(node, Function | ast.ClassDef):
            yield from functions(node, f"{inside}{node.name}.")
        else:
            yield from functions(node, inside)


def called(node: ast.Call) -> str:
    """The last name of a called function: `open` of `path.open(…)`."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return getattr(node.func, "id", "")
