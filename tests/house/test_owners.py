"""Processes, sockets and writing to disk have one owner each; nobody else does it on the side."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "dirge_py"

MODULE_OWNERS = {
    "subprocess": ("processes/",),
    "socket": ("providers/",),
    "httpx": ("providers/",),
    "httpx_sse": ("providers/",),
    "requests": (),
    "urllib.request": (),
    "http.client": (),
}

WRITERS = (
    "files/",
    "secrets/",
    "session/",
    "telemetry/",
    "processes/outputs.py",
    "config/",
    "context/attachments.py",
    "demo/",
    "headless/print_mode.py",
)
"""Who may create or change files: the owners, and those that write what a person named."""

BANNED_WORDS = {
    "manager",
    "helper",
    "helpers",
    "util",
    "utils",
    "misc",
    "common",
    "data",
    "info",
    "core",
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(module: Path) -> str:
    return str(module.relative_to(PACKAGE))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def writes(tree: ast.AST) -> Iterator[int]:
    """Lines that open something for writing, or write a file whole."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in ("write_text", "write_bytes", "mkstemp", "NamedTemporaryFile"):
            yield node.lineno
        if name == "open":
            modes = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "mode")]
            if any(
                isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+")
                for mode in modes
            ):
                yield node.lineno


@pytest.mark.parametrize("foreign", MODULE_OWNERS)
def test_only_its_owner_imports(foreign: str) -> None:
    strangers = [
        name_of(module)
        for module in modules()
        if foreign in set(imported(ast.parse(module.read_text(encoding="utf-8"))))
        and not name_of(module).startswith(MODULE_OWNERS[foreign])
    ]
    assert strangers == []


def test_only_owners_write_files() -> None:
    strangers = [
        f"{name_of(module)}:{line}"
        for module in modules()
        if not name_of(module).startswith(WRITERS)
        for line in writes(ast.parse(module.read_text(encoding="utf-8")))
    ]
    assert strangers == []


def test_no_module_or_class_has_an_empty_name() -> None:
    found = []
    for module in modules():
        names = [module.stem]
        names += [
            node.name
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
            if isinstance(node, ast.ClassDef)
        ]
        for name in names:
            words = {word.lower() for part in name.split("_") for word in _humps(part)}
            if words & BANNED_WORDS and name not in ("TurnInfo", "info"):
                found.append(f"{name_of(module)}: {name}")
    assert found == []


def _humps(name: str) -> list[str]:
    words, word = [], ""
    for char in name:
        if char.isupper() and word and not word[-1].isupper():
            words.append(word)
            word = ""
        word += char
    return [*words, word]
