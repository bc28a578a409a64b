"""What is changed even in arguments that fit: links in the place of paths, and halves of pairs.

`x-together` in a schema names properties that only make sense with each other:
`[{"requires": ["offset", "limit"], "defaults": {"limit": 2000}}]`. It is never sent to a model.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.per_object import PerObject
from dirge_py.lib.schemas import Path, Schema, child, properties_of, resolved, types_at

TOGETHER = "x-together"

_PATH_NAMES = frozenset(("path", "file_path", "filename", "paths", "dir"))
_PATH_FORMATS = frozenset(("path", "absolute_path", "relative_path"))
_LINK = re.compile(r"\[([^\[\]]+)\]\(https?://([^()\s]+)\)")
_ANY_ITEM = -1
_DEEPEST = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedUp:
    arguments: Mapping[str, Any]
    kinds: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where the paths are that a schema asks for, and which properties belong together."""

    paths: tuple[Path, ...]
    together: tuple[Mapping[str, Any], ...]


def touched_up(tool: str, schema: Schema, arguments: Mapping[str, Any]) -> TouchedUp | None:
    """The arguments with what is said above put right; None if there is nothing to do.

    Only a degenerate link is unwrapped, `[a/b.py](http://a/b.py)`: one that says its own target.
    """
    plan = _plans(schema)
    changed: Any = arguments
    for path in plan.paths:
        changed = _unlinked(changed, path)
    kinds = () if changed is arguments else ("md_link_unwrapped",)
    notes = []
    for entry in plan.together:
        missing = _missing_half(entry, changed)
        if missing:
            notes.append(_defaulted(tool, entry["requires"], missing))
            changed = {**changed, **missing}
    if changed is arguments:
        return None
    return TouchedUp(arguments=changed, kinds=kinds, notes=tuple(notes))


def _plan_of(schema: Any) -> _Plan:
    root = resolved(schema, schema if isinstance(schema, Mapping) else {})
    together = root.get(TOGETHER)
    entries = together if isinstance(together, list) else []
    return _Plan(
        tuple(_paths_in(root, root, ())),
        tuple(each for each in entries if _is_entry(each)),
    )


_plans = PerObject(_plan_of)


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping)
        and isinstance(entry.get("requires"), list)
        and all(isinstance(name, str) for name in entry["requires"])
        and isinstance(entry.get("defaults"), Mapping)
    )


def _paths_in(schema: Any, root: Schema, at: Path, name: str = "") -> Iterator[Path]:
    if len(at) > _DEEPEST:
        return
    schema = resolved(schema, root)
    types = types_at(schema, root)
    if "string" in types and (name in _PATH_NAMES or str(schema.get("format")) in _PATH_FORMATS):
        yield at
    if "array" in types and "items" in schema:
        yield from _paths_in(child(schema, 0, root), root, (*at, _ANY_ITEM), name)
    for each, inner in properties_of(schema, root).items():
        yield from _paths_in(inner, root, (*at, each), each)


def _unlinked(value: Any, path: Path) -> Any:
    """`value` with the link at `path` unwrapped; the very same value if there is none."""
    if not path:
        return _link_text(value) if isinstance(value, str) else value
    step, rest = path[0], path[1:]
    if step == _ANY_ITEM:
        if not isinstance(value, list):
            return value
        items = [_unlinked(each, rest) for each in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if not isinstance(value, Mapping) or step not in value:
        return value
    inner = _unlinked(value[step], rest)
    return value if inner is value[step] else {**value, step: inner}


def _link_text(text: str) -> str:
    link = _LINK.fullmatch(text) if text.startswith("[") else None
    if link is None:
        return text
    shown, target = link.groups()
    return shown if target == shown or target.endswith(f"/{shown}") else text


def _missing_half(entry: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of what is missing, if some of the properties are given but not all."""
    names, defaults = entry["requires"], entry["defaults"]
    given = [name for name in names if arguments.get(name) is not None]
    if not given:
        return {}
    return {
        name: defaults[name]
        for name in names
        if name not in given and defaults.get(name) is not None
    }


def _defaulted(tool: str, together: list[str], missing: Mapping[str, Any]) -> str:
    given = ", ".join(f"`{name}`" for name in together if name not in missing)
    taken = " and ".join(f"`{name}` as {value}" for name, value in missing.items())
    names = " and ".join(f"`{name}`" for name in missing)
    return f"`{tool}`: only {given} was given, so it took {taken}. Give {names} to choose another."
