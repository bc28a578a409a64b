"""How to reach a provider: its address and its key, read when they are needed and kept nowhere.

A model id without a provider belongs to the service whose ids begin like it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dirge_py.config.keys import read_key, resolve_key
from dirge_py.config.provider_schema import ProviderEntry
from dirge_py.config.schema import Config, all_entries, entry_of
from dirge_py.config.services import (
    OFFLINE,
    SERVICE_OF,
    SERVICES,
    Service,
    base_url_problem,
    is_loopback,
    ollama_url,
)
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.paths import from_home
from dirge_py.types.errors import ConfigError, NoProvider

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAccess:
    """A provider entry made ready for use."""

    alias: str
    """The name that models are chosen by."""
    type: str
    """The provider type."""
    base_url: str | None = None
    """Its address; None: the type's usual one."""
    api_key: str | None = field(default=None, repr=False)
    """The key to send; None: none is needed."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request."""
    allow_insecure: bool = False
    """Whether http to another machine is allowed."""
    max_output_tokens: int | None = None
    """The longest answer to ask for."""
    chunk_s: float | None = None
    """Seconds to wait for the next piece of an answer; None: as in `[timeouts]`."""
    keep_alive: str | None = None
    """How long Ollama keeps a model loaded."""
    cache_ttl: str | None = None
    """How long Anthropic keeps the cached beginning."""
    dialect: Mapping[str, Any] = field(default_factory=dict)
    """Differences from the wire format."""
    script: str | None = None
    """The script or recording of an offline provider, an absolute path."""


def provider_access(config: Config, alias: str, *, is_main: bool = False) -> ProviderAccess:
    """What is needed to talk to `alias`. `is_main`: flags about address and key mean it.

    Raises:
        NoProvider: its key is missing; the message names where it was looked for.
        ConfigError: its address is not acceptable, or a file or variable it names is not there.
    """
    entry = entry_of(config, alias)
    url = _base_url(config, entry, alias, is_main=is_main)
    key = _chosen_key(config) if is_main else None
    key = key or _key(config, entry)
    if key is None and _needs_key(entry, url):
        place = key_place(config, alias)
        fix = f"`export {place}=…`" if place.isidentifier() else "Put it there"
        raise NoProvider(
            f"Provider `{alias}` has no key: there is none in {place}.",
            hint=f"{fix}, or run `dirge config init`.",
        )
    return ProviderAccess(
        alias=alias,
        type=entry.type,
        base_url=url,
        api_key=key,
        headers={
            name: _filled_in(value, config.origin.environment, f"providers.{alias}.headers")
            for name, value in entry.headers.items()
        },
        allow_insecure=entry.allow_insecure,
        max_output_tokens=entry.max_output_tokens,
        chunk_s=entry.chunk_s,
        keep_alive=entry.keep_alive,
        cache_ttl=entry.cache_ttl,
        dialect=_dialect(entry),
        script=_beside_config(config, entry.script),
    )


def _dialect(entry: ProviderEntry) -> Mapping[str, Any]:
    """How the service departs from its wire format, as far as that is known or was written down."""
    service = SERVICE_OF.get(entry.type)
    known = service.dialect if service else {}
    return {**known, "system_role": entry.system_role} if entry.system_role else known


def has_access(config: Config, alias: str) -> bool:
    """Whether `alias` has the key it needs; nothing is asked over the network.

    What else is wrong with it is told when it is used: to pass over it would choose another service
    than the person set up.
    """
    if alias not in config.providers and not _is_at_hand(config, SERVICE_OF[alias]):
        return False
    try:
        provider_access(config, alias)
    except NoProvider:
        return False
    except ConfigError:
        return True
    return True


def _is_at_hand(config: Config, service: Service) -> bool:
    """Whether a service that nobody configured may be used: it was named, found, or has a key."""
    named = bool(service.named_url(config.origin.environment)[0])
    if service.local:
        return named or service.type in (config.origin.found or {})
    is_elsewhere = named or bool(config.origin.chosen.base_url)
    return not (is_elsewhere and service.only_at_home)


def is_custom(config: Config, alias: str) -> bool:
    """Whether `alias` answers somewhere else than its type usually does, so with ids of its own."""
    entry = entry_of(config, alias)
    service = SERVICE_OF.get(entry.type)
    if service is None or entry.base_url is not None:
        return True
    chosen = config.origin.chosen.base_url
    return bool(chosen or service.named_url(config.origin.environment)[0])


def takes_any_id(config: Config, alias: str) -> bool:
    """Whether no id is foreign to `alias`: it serves models of others, or names them itself."""
    service = SERVICE_OF.get(entry_of(config, alias).type)
    return is_custom(config, alias) or service is None or not service.families


def key_place(config: Config, alias: str) -> str:
    """Where the key of `alias` is looked for: a variable's name, a file, or the setting to add."""
    entry = entry_of(config, alias)
    if entry.api_key_env:
        return entry.api_key_env
    if entry.api_key and (variable := _VARIABLE.match(entry.api_key)):
        return variable[1]
    if entry.api_key_file:
        return entry.api_key_file
    if entry.base_url is not None or entry.type not in SERVICE_OF:
        return f"`api_key_env` in [providers.{alias}]"
    key_env = SERVICE_OF[entry.type].key_env
    is_set = (name for name in key_env if config.origin.environment.get(name))
    return next(is_set, key_env[0] if key_env else f"`api_key_env` in [providers.{alias}]")


def naming_variable(config: Config, service: Service) -> str:
    """The variable by which the environment offers a service: its key's, else its address's."""
    environment = config.origin.environment
    key = next((name for name in service.key_env if environment.get(name)), None)
    return key or service.named_url(environment)[1]


def _base_url(config: Config, entry: ProviderEntry, alias: str, *, is_main: bool) -> str | None:
    """The flag's, the file's, else the usual variable's address, checked."""
    chosen = config.origin.chosen.base_url if is_main else None
    if chosen:
        return _accepted(chosen, "--base-url", entry.allow_insecure)
    if entry.base_url is not None or entry.type not in SERVICE_OF:
        return entry.base_url
    service = SERVICE_OF[entry.type]
    named, variable = service.named_url(config.origin.environment)
    if not named:
        found = (config.origin.found or {}).get(entry.type)
        return found.base_url if found else service.base_url
    if variable == "OLLAMA_HOST":
        named = ollama_url(named)
    return _accepted(named, variable, entry.allow_insecure)


def _accepted(url: str, source: str, allow_insecure: bool) -> str:
    problem = base_url_problem(url, allow_insecure)
    if problem:
        raise ConfigError(f"{source}: {problem}.", hint="Use https, or an address of this machine.")
    return url


def _chosen_key(config: Config) -> str | None:
    chosen = config.origin.chosen
    if chosen.api_key_file:
        return read_key(from_home(chosen.api_key_file))
    return chosen.api_key


def _key(config: Config, entry: ProviderEntry) -> str | None:
    """The key from where the entry says, else from the usual variable."""
    environment = config.origin.environment
    file = _beside_config(config, entry.api_key_file)
    if entry.api_key_env or entry.api_key or file:
        return resolve_key(
            entry.api_key_env, entry.api_key, Path(file) if file else None, environment
        )
    if entry.type not in SERVICE_OF or _leaves_home(entry.base_url):
        return None
    names = SERVICE_OF[entry.type].key_env
    keys = (resolve_key(name, None, None, environment) for name in names)
    return next((key for key in keys if key is not None), None)


def _leaves_home(base_url: str | None) -> bool:
    """Whether the usual key would go to a service that it was not made for."""
    return base_url is not None and not is_loopback(urlsplit(base_url).hostname or "")


def _needs_key(entry: ProviderEntry, url: str | None) -> bool:
    """Local servers mostly want none; where a key was named it is meant."""
    if entry.type in OFFLINE:
        return False
    if entry.api_key or entry.api_key_env or entry.api_key_file:
        return True
    service = SERVICE_OF.get(entry.type)
    if service is not None and service.local:
        return False  # also on another machine of one's own
    return url is None or not is_loopback(urlsplit(url).hostname or "")


def _filled_in(value: str, environment: Mapping[str, str], source: str) -> str:
    def look_up(match: re.Match[str]) -> str:
        found = environment.get(match[1])
        if found is None:
            raise ConfigError(f"{source}: {match[1]} is not set.")
        return found

    return _VARIABLE.sub(look_up, value)


def _beside_config(config: Config, path: str | None) -> str | None:
    """A relative path in the settings is seen from the folder they lie in."""
    if path is None:
        return None
    base = os.path.dirname(config.origin.path or "")
    return os.path.join(base, os.path.expanduser(path))


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
