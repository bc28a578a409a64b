"""The structure of the package: imports, sizes, names."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.house.source import PACKAGE, called, modules, name_of, text_of, tree_of, walked

LAZY = frozenset(("late", "lazy", "import_module"))
"""Functions that import the module which a string names."""


def dotted(name: str) -> str:
    """`dirge_py.a.b` for `a/b.py`, `dirge_py.a` for `a/__init__.py`."""
    parts = ["dirge_py", *name.removesuffix(".py").split("/")]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def own_modules() -> dict[str, ast.Module]:
    """Every module of the package by dotted name, without the demo's sample project."""
    return {
        dotted(name_of(path)): tree_of(path)
        for path in modules()
        if "sample" not in path.parent.parts and "/sample/" not in path.as_posix()
    }


def _targets(tree: ast.Module, known: Mapping[str, ast.Module]) -> Iterator[str]:
    for node in walked(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                target = full if full in known else node.module
                if target in known:
                    yield target
        elif isinstance(node, ast.Call) and called(node) in LAZY and node.args:
            named = node.args[0]
            if isinstance(named, ast.Constant) and named.value in known:
                yield str(named.value)


def import_graph() -> dict[str, set[str]]:
    """The imports of each module, also those in functions, for type checkers, and by string."""
    known = own_modules()
    return {name: set(_targets(tree, known)) - {name} for name, tree in known.items()}


def in_circles(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules that import themselves through others."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(graph[name])
        reached[start] = seen
    return sorted(name for name, seen in reached.items() if name in seen)


FRAGMENT_LINES = 120


def fragments(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules of less than 120 lines with one importer, which is beside them."""
    importers: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph.items():
        for target in targets:
            importers[target].add(name)
    found = []
    for path in modules():
        name = dotted(name_of(path))
        if name not in graph or path.name == "__init__.py" or len(importers[name]) != 1:
            continue
        folder = next(iter(importers[name])).rpartition(".")[0]
        if folder == name.rpartition(".")[0] and len(text_of(path).splitlines()) < FRAGMENT_LINES:
            found.append(name)
    return sorted(found)


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Every class with the dotted name of its module."""
    for name, tree in own_modules().items():
        yield from ((name, node) for node in walked(tree) if isinstance(node, ast.ClassDef))


def repeated_class_names() -> list[str]:
    """Public class names that two modules define."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, node in classes():
        if not node.name.startswith("_"):
            places[node.name].append(name)
    return sorted(name for name, where in places.items() if len(where) > 1)


def _is_record(node: ast.ClassDef) -> bool:
    marks = [*(called(d) if isinstance(d, ast.Call) else _last(d) for d in node.decorator_list)]
    return "dataclass" in marks or bool(
        {"NamedTuple", "TypedDict"} & {_last(b) for b in node.bases}
    )


def _last(node: ast.expr) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def wide_records(most: int) -> list[str]:
    """`module.Class` of records with more than `most` fields, except tables of settings."""
    return sorted(
        f"{name}.{node.name}"
        for name, node in classes()
        if _is_record(node)
        and not name.startswith("dirge_py.config.")
        and sum(isinstance(item, ast.AnnAssign) for item in node.body) > most
    )


def top_level() -> list[str]:
    """The entries at the top level of the package."""
    return sorted(path.stem for path in PACKAGE.iterdir() if not path.name.startswith("__"))
