"""The list of private Textual parts is true, and a missing one gives a clear message."""

import ast
import importlib
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import textual

import dirge_py.ui
from dirge_py.ui.terminal.textual_parts import PRIVATE_PARTS, TESTED_VERSION, missing_parts
from tests.support.terminal import ROOT, Terminal

UI = Path(dirge_py.ui.__path__[0])
TREES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in UI.rglob("*.py")}
LISTED = {name for names in PRIVATE_PARTS.values() for name in names}
LISTED_MEMBERS = {name.rpartition(".")[2] for name in LISTED}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_imports() -> Iterator[tuple[str, str]]:
    """Imports of private modules or names from Textual, as (module, name)."""
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual"):
                module = node.module or ""
                is_inside = any(map(is_private, module.split(".")))
                yield from (
                    (module, alias.name)
                    for alias in node.names
                    if is_inside or is_private(alias.name)
                )
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
                assert not any(name.startswith("textual.") for name in names), names


def names_made(tree: ast.AST) -> Iterator[str]:
    """The names that a piece of source defines or assigns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def is_made_by(owner: type, name: str) -> bool:
    starts = [vars(one).get("__init__") for one in owner.__mro__]
    return hasattr(owner, name) or any(
        name in start.__code__.co_names for start in starts if inspect.isfunction(start)
    )


def private_overrides() -> Iterator[tuple[str, str]]:
    """Private members of Textual's classes that UI classes override, as (class, name)."""
    for file, tree in TREES.items():
        parts = file.relative_to(UI.parent.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts))
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            made = vars(module).get(node.name)
            for base in made.__mro__[1:] if isinstance(made, type) else ():
                if base.__module__.startswith("textual"):
                    names = filter(is_private, set(names_made(node)))
                    yield from ((node.name, name) for name in names if is_made_by(base, name))


def private_reads() -> Iterator[tuple[Path, str]]:
    """The private attributes that the UI reads and does not define."""
    own = {name for tree in TREES.values() for name in names_made(tree)}
    known = {"_exit", "_replace"}  # Public in spite of their names: of `os`, of named tuples.
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            name = node.attr if isinstance(node, ast.Attribute) else ""
            if is_private(name) and name not in own | known:
                yield file, name


def test_every_private_import_from_textual_is_listed():
    found = sorted(set(private_imports()))
    assert found
    for module, name in found:
        listed = PRIVATE_PARTS.get(module, ())
        assert any(part.partition(".")[0] == name for part in listed), (module, name)


def test_every_private_override_of_textual_is_listed():
    found = set(private_overrides())
    assert ("Composer", "_on_key") in found
    assert {(owner, name) for owner, name in found if name not in LISTED_MEMBERS} == set()


def test_every_private_attribute_of_textual_that_is_read_is_listed():
    found = set(private_reads())
    assert "_writer_thread" in {name for _, name in found}
    assert {(file, name) for file, name in found if name not in LISTED_MEMBERS} == set()


def test_every_listed_private_part_is_used():
    source = "\n".join(
        file.read_text(encoding="utf-8") for file in TREES if file.name != "textual_parts.py"
    )
    assert {name for name in LISTED_MEMBERS if name not in source} == set()


def test_installed_textual_has_every_private_part():
    assert list(missing_parts()) == []


def test_version_in_hint_equals_pinned_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [pin] = [one for one in project["dependencies"] if one.startswith("textual")]
    major, minor, _ = map(int, TESTED_VERSION.split("."))
    assert pin == f"textual>={TESTED_VERSION},<{major}.{minor + 1}"


START = """
import sys
from dirge_py.cli.entry import main
sys.argv = ["dirge"]
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("removed", "missing"),
    [
        (
            "import textual.drivers.linux_driver as d; del d.LinuxDriver._enable_mouse_support",
            "`textual.drivers.linux_driver.LinuxDriver._enable_mouse_support`",
        ),
        (
            "import sys\nsys.modules['textual._keyboard_protocol'] = None",
            "`textual._keyboard_protocol`",
        ),
        (
            "from textual.app import App\nApp.__init__ = lambda self: None",
            "`textual.app.App._driver`",
        ),
    ],
)
def test_missing_textual_part_is_reported_before_start(tmp_path: Path, removed: str, missing: str):
    start = (
        "import sys\nfrom dirge_py.cli.entry import main\nsys.argv = ['dirge']\nsys.exit(main())"
    )
    terminal = Terminal(("-c", f"{removed}\n{start}"), cwd=tmp_path, is_fresh=True)
    assert terminal.finish() == 1
    text = " ".join(terminal.output.decode().split())
    assert f"does not work with Textual {textual.__version__}, which is installed here" in text
    assert missing in text
    assert f'pip install "textual~={TESTED_VERSION}"' in text
    assert "Traceback" not in text
    assert "\x1b[?1049h" not in text
