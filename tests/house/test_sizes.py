"""The rooms stay small. An exception is written down with its size, and may only shrink."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dirge_py"
MODULE_LINES = 400
FUNCTION_LINES = 60
LOOP_LINES = 150

EXCEPTIONS: dict[str, int] = {}
"""`path` or `path:function` → its size today. Empty is the aim."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def functions(module: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def oversized() -> dict[str, int]:
    found = {}
    for module in modules():
        name = str(module.relative_to(PACKAGE))
        lines = len(module.read_text(encoding="utf-8").splitlines())
        if lines > MODULE_LINES:
            found[name] = lines
        found |= {
            f"{name}:{function}": size
            for function, size in functions(module)
            if size > FUNCTION_LINES
        }
    return found


def test_modules_and_functions_are_no_larger_than_written_down() -> None:
    assert oversized() == EXCEPTIONS


def test_the_loop_reads_on_two_screens() -> None:
    lines = (PACKAGE / "agent_loop" / "run.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LOOP_LINES
