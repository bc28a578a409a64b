"""Rules for tests: they wait for conditions, never for a time."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.house.source import (
    TESTS,
    called,
    functions,
    mentioning,
    modules,
    name_of,
    text_of,
    tree_of,
    walked,
)


def sleeps(tree: ast.AST) -> Iterator[int]:
    """Lines that sleep. `sleep(0)` is fine, and a clock's sleep takes a name."""
    for node in walked(tree):
        if not isinstance(node, ast.Call) or called(node) != "sleep":
            continue
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id not in ("time", "asyncio"):
            continue
        if not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0):
            yield node.lineno


def test_no_test_sleeps() -> None:
    sleepers = [
        f"{name_of(module, TESTS)}:{line}"
        for module in mentioning("sleep", TESTS)
        for line in sleeps(tree_of(module))
    ]
    assert sleepers == []


def test_no_test_is_hidden_by_another_of_its_name() -> None:
    hidden = []
    for module in modules(TESTS):
        defined = re.findall(r"^ *(?:async )?def (test_\w+)", text_of(module), re.MULTILINE)
        if len(defined) == len(set(defined)):
            continue
        names = Counter(name for name, _ in functions(tree_of(module)) if _is_test(name))
        hidden += [
            f"{name_of(module, TESTS)}: {name}" for name, times in names.items() if times > 1
        ]
    assert hidden == []


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {module.parent for module in modules(TESTS)}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def _is_test(name: str) -> bool:
    return name.rpartition(".")[2].startswith("test_")
