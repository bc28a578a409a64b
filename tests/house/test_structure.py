"""Structure rules, with lists of exceptions that may only shrink."""

import tomllib
from functools import cache
from pathlib import Path

from tests.house import structure
from tests.house.source import PACKAGE, Function, functions, modules, name_of, text_of, tree_of

ENTRIES = 24
MODULE_LINES = 700
FUNCTION_LINES = 60
LOOP_LINES = 150
FIELDS = 15

LISTS = Path(__file__).with_name("structure_exceptions.toml")


def listed(rule: str) -> list[str]:
    """The exceptions of a rule in `structure_exceptions.toml`."""
    return sorted(tomllib.loads(LISTS.read_text(encoding="utf-8"))[rule])


@cache
def graph() -> dict[str, set[str]]:
    return structure.import_graph()


def test_top_level_has_at_most_24_entries() -> None:
    assert len(structure.top_level()) <= ENTRIES


def test_there_are_no_import_circles() -> None:
    assert structure.in_circles(graph()) == listed("circles")


def test_modules_with_one_importer_are_listed_with_a_reason() -> None:
    assert structure.fragments(graph()) == listed("fragments")


def test_public_class_names_are_unique() -> None:
    assert structure.repeated_class_names() == listed("class_names")


def test_records_have_at_most_15_fields() -> None:
    assert structure.wide_records(FIELDS) == listed("records")


def test_modules_have_at_most_700_lines() -> None:
    too_long = [
        name_of(module) for module in modules() if len(text_of(module).splitlines()) > MODULE_LINES
    ]
    assert too_long == []


def length(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def test_functions_have_at_most_60_lines() -> None:
    too_long = [
        f"{name_of(module)}:{function}"
        for module in modules()
        if len(text_of(module).splitlines()) > FUNCTION_LINES
        for function, node in functions(tree_of(module))
        if length(node) > FUNCTION_LINES
    ]
    assert too_long == []


def test_run_module_has_at_most_150_lines() -> None:
    lines = (PACKAGE / "agent_loop" / "run.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LOOP_LINES


def write_lists() -> None:
    """Rewrite `structure_exceptions.toml`, keeping reasons.

    Run it with `python -m tests.house.test_structure`.
    """
    reasons = {}
    if LISTS.exists():
        reasons = tomllib.loads(LISTS.read_text(encoding="utf-8")).get("fragments", {})
    lines = ["# Exceptions to the rules of `test_structure.py`. These lists may only shrink.", ""]
    for rule, found in (
        ("circles", structure.in_circles(graph())),
        ("class_names", structure.repeated_class_names()),
        ("records", structure.wide_records(FIELDS)),
    ):
        lines += [f"{rule} = [", *(f'    "{name}",' for name in found), "]", ""]
    lines += ["[fragments]"]
    lines += [
        f'"{name}" = "{reasons.get(name, "to be merged")}"' for name in structure.fragments(graph())
    ]
    LISTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_lists()
