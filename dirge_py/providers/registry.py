"""Providers by name: `<name>.py` here that exports `PROVIDER`, imported only when it is used."""

import importlib
import re
from difflib import get_close_matches
from pathlib import Path

from dirge_py.providers.settings import Provider
from dirge_py.types.errors import ConfigError

_FOLDER = Path(__file__).parent
_EXPORT = re.compile(r"^PROVIDER\b.*=", re.MULTILINE)


def provider_names() -> tuple[str, ...]:
    """Every provider type there is, sorted; imports none of them."""
    files = sorted(_FOLDER.glob("*.py"))
    return tuple(
        file.stem.replace("_", "-") for file in files if _EXPORT.search(file.read_text("utf-8"))
    )


def find_provider(name: str) -> Provider:
    """The provider of that name.

    Raises:
        ConfigError: there is none.
    """
    module = name.replace("-", "_")
    if name.isascii() and module.isidentifier() and (_FOLDER / f"{module}.py").exists():
        found = getattr(importlib.import_module(f"dirge_py.providers.{module}"), "PROVIDER", None)
        if isinstance(found, Provider):
            return found
    near = get_close_matches(name, provider_names(), 1)
    hint = f"Did you mean `{near[0]}`?" if near else f"There are: {', '.join(provider_names())}."
    raise ConfigError(f"no provider type `{name}`.", hint=hint)
