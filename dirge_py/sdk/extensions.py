"""The list of the capabilities that ship with dirge; their order is policy.

A new one is a folder below `extensions/` whose module `extension` has `make(host)`, and a line in
`EXTENSIONS`.
"""

from collections.abc import Callable, Iterable
from importlib import import_module

from dirge_py.config.schema import Config
from dirge_py.conversation.extensions import ExtensionSet
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.extensions import Extension, ExtensionHost


@dataclass(frozen=True, slots=True)
class ExtensionEntry:
    """One capability of the list."""

    name: str
    """As people call it."""
    module: str
    """The module with `make(host) -> Extension | None`; imported only where it is enabled."""
    is_enabled: Callable[[Config | None], bool]
    """Whether the settings enable it; they are None in a program that uses dirge as a library."""


def _with_settings(config: Config | None) -> bool:
    return config is not None


EXTENSIONS: list[ExtensionEntry] = [
    ExtensionEntry("snapshots", "dirge_py.extensions.snapshots.extension", _with_settings),
    ExtensionEntry("todo", "dirge_py.extensions.todo.extension", _with_settings),
    ExtensionEntry("memory", "dirge_py.extensions.memory.extension", _with_settings),
    ExtensionEntry("web", "dirge_py.extensions.web.extension", _with_settings),
    ExtensionEntry("plan", "dirge_py.plan.extension", lambda config: True),
    ExtensionEntry("plugins", "dirge_py.extensions.plugins.extension", _with_settings),
    ExtensionEntry(
        "after_edit",
        "dirge_py.extensions.after_edit.extension",
        lambda config: config is not None and bool(config.after_edit),
    ),
    ExtensionEntry("guardrails", "dirge_py.extensions.guardrails.extension", _with_settings),
]
"""Hooks are called in this order within their stage; of two extensions with the same tool or
command, the first one keeps it."""


def load_extensions(host: ExtensionHost, given: Iterable[Extension] = ()) -> ExtensionSet:
    """Make the enabled extensions; a `given` one replaces the listed one of its name."""
    own = list(given)
    loaded: list[Extension] = []
    for entry in EXTENSIONS:
        replaced = [each for each in own if each.name == entry.name]
        if replaced:
            loaded += replaced
            own = [each for each in own if each.name != entry.name]
        elif entry.is_enabled(host.settings):
            made = import_module(entry.module).make(host)
            loaded += [made] if made is not None else []
    return ExtensionSet([*loaded, *own], host)
