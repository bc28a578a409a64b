"""The sources of plugins: the user's files, those of a trusted project, and installed packages."""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import decode_source
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from dirge_py.extensions.plugins.registration import PluginError
from dirge_py.files.safe_read import read_regular
from dirge_py.lib.entry_points import entry_points_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.own_file import UnsafeFile

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "dirge.plugins"
_MAX_BYTES = 1024 * 1024
_MODULES = "dirge_plugins"

Register: TypeAlias = Callable[[Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSource:
    """A plugin that could be loaded."""

    name: str
    """The name of the plugin."""
    where: str
    """Its file, or the package it is part of."""
    load: Callable[[], Register]
    """Runs its code and returns its `register`; it may do and raise anything."""


def find_files(folder: Path) -> list[PluginSource]:
    """Return the plugins in a folder: every `<name>.py` whose name begins with a letter.

    A file that another user could have written fails to load.
    """

    def load(path: Path) -> Register:
        try:
            content = read_regular(path, _MAX_BYTES, is_own=True)
        except UnsafeFile as error:
            raise PluginError(f"it {error.strerror}. Run `{error.fix}`.") from error
        return _load_register(path, content)

    return [
        PluginSource(name=path.stem, where=str(path), load=partial(load, path))
        for path in sorted(folder.glob("*.py"))
        if path.stem[:1].isalpha()
    ]


def find_in_bytes(files: Mapping[str, bytes]) -> list[PluginSource]:
    """Return the plugins among files that were read before, by path, as in `find_files`."""
    return [
        PluginSource(name=path.stem, where=name, load=partial(_load_register, path, files[name]))
        for name in sorted(files)
        if (path := Path(name)).suffix == ".py" and path.stem[:1].isalpha()
    ]


def find_installed() -> list[PluginSource]:
    """Return the plugins that installed packages declare as entry points."""
    return [_source_from_entry_point(entry) for entry in entry_points_of(GROUP)]


def unique_by_name(sources: Iterable[PluginSource]) -> tuple[list[PluginSource], list[str]]:
    """Return the first plugin of each name, sorted by name, and notices about the others."""
    chosen: dict[str, PluginSource] = {}
    notices = []
    for each in sources:
        first = chosen.setdefault(each.name, each)
        if first is not each:
            notices.append(
                f"plugin `{each.name}` of {each.where} is not loaded: {first.where} has that name."
            )
    return [chosen[name] for name in sorted(chosen)], notices


def unload_module(name: str) -> None:
    """Remove the module of a loaded file."""
    sys.modules.pop(f"{_MODULES}.{name}", None)


def _load_register(path: Path, content: bytes) -> Register:
    source = decode_source(content)
    module = ModuleType(f"{_MODULES}.{path.stem}")
    module.__file__ = str(path)
    # Not through an import: that would write byte code beside the file.
    sys.modules[module.__name__] = module
    exec(compile(source, str(path), "exec"), module.__dict__)
    return _register_of(module)


def _source_from_entry_point(entry: "EntryPoint") -> PluginSource:
    where = f"package {entry.dist.name}" if entry.dist is not None else entry.value
    return PluginSource(name=entry.name, where=where, load=lambda: _register_of(entry.load()))


def _register_of(loaded: Any) -> Register:
    """Return the `register` of a module, or what an entry point names directly."""
    is_module = isinstance(loaded, ModuleType)
    register = getattr(loaded, "register", None) if is_module else loaded
    if not callable(register):
        raise PluginError("it has no `def register(dirge)`.")
    checked: Register = register
    return checked
