"""Whose model an id without a provider is, by how it begins."""

from collections.abc import Sequence

from dirge_py.config.access import has_access, key_place, takes_any_id
from dirge_py.config.entries import all_entries, entry_of
from dirge_py.config.schema import Config
from dirge_py.config.services import SERVICES, Service
from dirge_py.types.errors import NoProvider


def owners_of(model: str) -> Sequence[Service]:
    """The services whose own models are called like this; empty for a name that is nobody's."""
    return [service for service in SERVICES if model.lower().startswith(service.families)]


def serving_alias(config: Config, model: str, default: str) -> str:
    """The provider for `model`, which no entry lists: `default`, or one of the model's family.

    Raises:
        NoProvider: it is another service's model, and that one cannot be used.
    """
    owners = owners_of(model)
    if not owners or entry_of(config, default).type in [owner.type for owner in owners]:
        return default
    found = (config.origin.found or {}).get(default)
    if takes_any_id(config, default) and (found is None or _lists(found.models, model)):
        return default
    for alias in all_entries(config):
        if _serves(config, alias, owners) and has_access(config, alias):
            return alias
    raise _foreign(config, model, owners)


def foreign(config: Config, model: str) -> NoProvider | None:
    """That `model` is of a service which cannot be used; None if it is nobody's."""
    return _foreign(config, model, owners) if (owners := owners_of(model)) else None


def _foreign(config: Config, model: str, owners: Sequence[Service]) -> NoProvider:
    name = owners[0].label.partition(",")[0]
    place = key_place(config, owners[0].type)
    return NoProvider(
        f"`{model}` is a model of {name}, which cannot be used: {place} is not set.",
        hint=f"Set {place}, or name a provider that serves it: `<provider>/{model}`.",
    )


def _serves(config: Config, alias: str, owners: Sequence[Service]) -> bool:
    """Whether `alias` is a service of that family, or lists another model of it."""
    entry = entry_of(config, alias)
    if entry.base_url is None and entry.type in [owner.type for owner in owners]:
        return True
    families = tuple(family for owner in owners for family in owner.families)
    own = [entry.model or "", *entry.models]
    return any(each.lower().startswith(families) for each in own)


def _lists(models: Sequence[str], model: str) -> bool:
    return model in models or f"{model}:latest" in models
