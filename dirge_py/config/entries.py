"""The providers there are: those of the file, and the built-in ones that need no entry."""

from dirge_py.config.provider_table import ProviderEntry
from dirge_py.config.schema import Config
from dirge_py.config.services import SERVICES
from dirge_py.errors import ConfigError


def all_entries(config: Config) -> dict[str, ProviderEntry]:
    """Alias → entry, the file's first."""
    entries = dict(config.providers)
    for service in SERVICES:
        entries.setdefault(service.type, ProviderEntry.model_validate({"type": service.type}))
    return entries


def entry_of(config: Config, alias: str) -> ProviderEntry:
    """The entry of `alias`.

    Raises:
        ConfigError: there is none.
    """
    try:
        return all_entries(config)[alias]
    except KeyError:
        raise ConfigError(f"There is no provider `{alias}`.") from None
