"""Providers by name: each `<name>.py` here that exports `PROVIDER`, imported on first use."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.providers.client import HttpClient
from dirge_py.providers.settings import ProviderSettings
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import StreamFn

_FOLDER = Path(__file__).parent
_EXPORT = re.compile(r"^PROVIDER\b.*=", re.MULTILINE)


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
    """The provider of that name. Raises ConfigError: there is none."""
    module = name.replace("-", "_")
    if name.isascii() and module.isidentifier() and (_FOLDER / f"{module}.py").exists():
        imported = importlib.import_module(f"dirge_py.providers.{module}")
        exported = getattr(imported, "PROVIDER", None)
        if isinstance(exported, Provider):
            return exported
    near = nearest(name, provider_names())
    hint = f"Did you mean `{near}`?" if near else f"There are: {', '.join(provider_names())}."
    raise ConfigError(f"no provider type `{name}`.", hint=hint)
