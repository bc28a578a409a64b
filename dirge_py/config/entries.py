"""The providers there are: those of the file, and the built-in ones that need no entry."""

from collections.abc import Mapping
from functools import cache

from dirge_py.config.provider_table import ProviderEntry
from dirge_py.config.schema import Config
from dirge_py.config.services import SERVICES
from dirge_py.types.errors import ConfigError


def all_entries(config: Config) -> dict[str, ProviderEntry]:
    """Alias → entry, the file's first."""
    return {**config.providers, **_built_in(), **config.providers}


def entry_of(config: Config, alias: str) -> ProviderEntry:
    """The entry of `alias`.

    Raises:
        ConfigError: there is none.
    """
    entry = config.providers.get(alias) or _built_in().get(alias)
    if entry is None:
        raise ConfigError(f"There is no provider `{alias}`.")
    return entry


@cache
def _built_in() -> Mapping[str, ProviderEntry]:
    return {
        service.type: ProviderEntry.model_validate({"type": service.type}) for service in SERVICES
    }
