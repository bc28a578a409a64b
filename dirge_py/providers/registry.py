"""Providers by name. A provider is a module here that exports `PROVIDER`, imported when used."""

import importlib

from dirge_py.errors import ConfigError
from dirge_py.providers.base import Provider

_MODULES = {
    "openai": "openai_chat",
    "anthropic": "anthropic",
    "scripted": "scripted",
}


def names() -> tuple[str, ...]:
    """Every provider type there is."""
    return tuple(_MODULES)


def provider(name: str) -> Provider:
    """The provider of that name.

    Raises:
        ConfigError: there is none.
    """
    module = _MODULES.get(name)
    if module is None:
        raise ConfigError(
            f"no provider type `{name}`.", hint=f"There are: {', '.join(sorted(_MODULES))}."
        )
    found = importlib.import_module(f"dirge_py.providers.{module}").PROVIDER
    assert isinstance(found, Provider)
    return found
