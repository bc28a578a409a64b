"""Providers by name, imported on first use.

Each `<name>.py` here that exports `PROVIDER` is one, and each entry point of an installed package
in the group `dirge.providers`: a `Provider`, a function like `Provider.make`, or a module that
exports `PROVIDER`.
"""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.config.services import GROUP, installed_providers, package_of
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.providers.client import HttpClient
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.errors import ConfigError, DirgeError
from dirge_py.types.llm import StreamFn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_FOLDER = Path(__file__).parent
_REPAIR = f"Update or remove the package; its entry point is in the group `{GROUP}`."
_EXPORT = late_pattern(r"^PROVIDER\b.*=", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A service and its wire format."""

    name: str
    """As in the settings: `openai-responses`."""
    make: Callable[[ProviderSettings, HttpClient], StreamFn]
    """The stream function of one configured service. Raises ConfigError."""


def provider_names() -> tuple[str, ...]:
    """Every provider type there is, sorted; imports none of them."""
    files = (f for f in sorted(_FOLDER.glob("*.py")) if _EXPORT.search(f.read_text("utf-8")))
    return tuple(file.stem.replace("_", "-") for file in files)


def find_provider(name: str) -> Provider:
    """The provider of that name. Raises ConfigError: there is none, or its package is broken."""
    module = name.replace("-", "_")
    if name.isascii() and module.isidentifier() and (_FOLDER / f"{module}.py").exists():
        imported = importlib.import_module(f"dirge_py.providers.{module}")
        exported = getattr(imported, "PROVIDER", None)
        if isinstance(exported, Provider):
            return exported
    installed = installed_providers()
    if name in installed:
        return _load(installed[name])
    names = (*provider_names(), *installed)
    near = nearest(name, names)
    hint = f"Did you mean `{near}`?" if near else f"There are: {', '.join(names)}."
    raise ConfigError(f"no provider type `{name}`.", hint=hint)


def _load(entry: "EntryPoint") -> Provider:
    """The provider of an installed package, whose errors become a ConfigError."""
    where = f"The provider type `{entry.name}` of {package_of(entry)}"
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{where} cannot be loaded: {error!r}.", hint=_REPAIR) from error
    exported = getattr(loaded, "PROVIDER", loaded)
    make = exported.make if isinstance(exported, Provider) else exported
    if not callable(make):
        found = f"it is {type(exported).__name__}, not a `Provider` or a function"
        raise ConfigError(f"{where} cannot be used: {found}.", hint=_REPAIR)

    def checked(settings: ProviderSettings, http: HttpClient) -> StreamFn:
        try:
            made: StreamFn = make(settings, http)
        except DirgeError:
            raise
        except (Exception, SystemExit) as error:
            raise ConfigError(f"{where} cannot be used: {error!r}.", hint=_REPAIR) from error
        return made

    return Provider(name=entry.name, make=checked)
