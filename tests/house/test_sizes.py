"""Modules and functions stay readable. An exception is written down, and may only shrink."""

from tests.house.source import PACKAGE, Function, functions, modules, name_of, text_of, tree_of

MODULE_LINES = 700
FUNCTION_LINES = 60
LOOP_LINES = 150

EXCEPTIONS: dict[str, int] = {}
"""`path` or `path:Class.function` → its size today. Empty is the aim."""


def length(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def oversized() -> dict[str, int]:
    found = {}
    for module in modules():
        name = name_of(module)
        lines = len(text_of(module).splitlines())
        if lines > MODULE_LINES:
            found[name] = lines
        if lines <= FUNCTION_LINES:
            continue
        found |= {
            f"{name}:{function}": length(node)
            for function, node in functions(tree_of(module))
            if length(node) > FUNCTION_LINES
        }
    return found


def test_modules_and_functions_are_no_larger_than_written_down() -> None:
    assert oversized() == EXCEPTIONS


def test_the_loop_reads_on_two_screens() -> None:
    lines = (PACKAGE / "agent_loop" / "run.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LOOP_LINES
