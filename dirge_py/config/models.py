"""Finds the model for a name (`[alias/]id[:level]`) or a role among the configured providers."""

import difflib
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import get_args

from dirge_py.config.access import (
    foreign,
    has_access,
    is_custom,
    key_place,
    naming_variable,
    provider_access,
    serving_alias,
    takes_any_id,
)
from dirge_py.config.schema import Config, ProviderEntry, all_entries, entry_of
from dirge_py.config.services import OFFLINE, SERVICE_OF, SERVICES, is_local, service_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ConfigError, NoProvider
from dirge_py.types.llm import ThinkingLevel

THINKING_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)
_MOST_NAMED = 3
_PULL = {"ollama": " (`ollama pull qwen3`)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The parts of a model name."""

    alias: str | None = None
    """The provider's alias; None means the default provider."""
    id: str | None = None
    """The model's id; None means the provider's default model."""
    level: ThinkingLevel | None = None
    """The thinking level; None means the provider's default."""


def parse_model(spec: str, aliases: Collection[str]) -> ModelSpec:
    """The parts of `spec`.

    Ids may hold `/` and `:` (`qwen/qwen3`, `qwen2.5:7b`), so only a known alias before the first
    slash is an alias, and only a known level after the last colon is a level.
    """
    name, colon, last = spec.strip().rpartition(":")
    level = last if colon and last in THINKING_LEVELS else None
    if level is None:
        name = spec.strip()
    alias, slash, rest = name.partition("/")
    if alias in aliases:
        return ModelSpec(alias=alias, id=rest if slash and rest else None, level=level)
    return ModelSpec(id=name or None, level=level)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """One model of one provider."""

    alias: str
    """The provider's alias."""
    id: str
    """The model's id, as its provider knows it."""
    level: ThinkingLevel = "off"
    """The thinking level."""
    because: str = ""
    """Why it was chosen, for a notice; may be empty."""

    @property
    def name(self) -> str:
        """`alias/id`, as in `StreamOptions.model`."""
        return f"{self.alias}/{self.id}"


def main_model(config: Config) -> ModelChoice:
    """The main model: from the flag, the environment, `[roles] main`, or the default provider.

    Raises NoProvider if none is usable, ConfigError if the named one doesn't exist.
    """
    chosen, main = config.origin.chosen, config.roles.main
    spec = chosen.model
    if spec is None and main:
        # If a flag or variable chose a provider, `main` counts only if it names that provider.
        is_of_chosen = chosen.provider in (None, parse_model(main, _nameable(config)).alias)
        spec = main if is_of_chosen else None
    choice = resolve_model(config, spec or "")
    return choice if chosen.thinking is None else replace(choice, level=chosen.thinking)


def with_own_model(config: Config) -> Config:
    """The settings for a program that answers the calls itself: without a provider, it is `own`.

    Raises ConfigError if the settings name a provider that doesn't exist.
    """
    try:
        main_model(config)
    except NoProvider:
        own = ProviderEntry(type="scripted", model="model", script="unused")
        providers = {**config.providers, "own": own}
        origin = replace(config.origin, chosen=replace(config.origin.chosen, provider=None))
        return replace(config, provider="own", providers=providers, origin=origin)
    return config


def resolve_model(config: Config, spec: str) -> ModelChoice:
    """The model that `[alias/]id[:level]` means.

    A bare id belongs to the entry that lists it, else to the default provider if that may serve
    such models, else to a usable provider of the id's family. Raises NoProvider if there is none,
    ConfigError if the alias is unknown or has no model.
    """
    parsed = parse_model(spec, _nameable(config))
    alias, because = parsed.alias, ""
    if alias is None:
        alias = _alias_listing(config, parsed.id)
        if alias is None:
            alias, because = _alias_for(config, parsed.id)
        _refuse_unknown_alias(config, parsed, alias)
    entry = entry_of(config, alias)
    return ModelChoice(
        alias=alias,
        id=parsed.id or _own_model(config, alias, entry),
        level=parsed.level or entry.thinking or service_of(entry.type).thinking,
        because=because,
    )


def offered_models(config: Config) -> list[str]:
    """`alias/id` of every model that can be used now, the configured ones first."""
    names: list[str] = []
    for alias, entry in all_entries(config).items():
        if has_access(config, alias):
            default = None if is_custom(config, alias) else service_of(entry.type).default_model
            own = [entry.model or default, *entry.models, *_listed(config, entry)]
            names += [f"{alias}/{model}" for model in own if model]
    return list(dict.fromkeys(names))


def usable_services(config: Config) -> list[str]:
    """The aliases of all usable providers that can list models: those with a known service."""
    entries = all_entries(config).items()
    return [a for a, entry in entries if entry.type in SERVICE_OF and has_access(config, a)]


def local_types(config: Config) -> tuple[str, ...]:
    """The local services that must list their models before a main model can be chosen.

    All if nothing is configured and no key is set, else those that were chosen without a model.
    """
    try:
        main_model(config)
        return ()
    except NoProvider:
        pass
    except ConfigError:
        return ()
    local = [service.type for service in SERVICES if service.local]
    own, chosen = config.providers, config.origin.chosen
    if not own:
        return tuple(local)
    aliases = [chosen.provider, config.provider, parse_model(chosen.model or "", local).alias]
    types = [own[name].type if name in own else name for name in aliases if name]
    only = [entry.type for entry in own.values()] if len(own) == 1 else []
    return tuple(name for name in local if name in (*types, *only))


def _alias_for(config: Config, model: str | None) -> tuple[str, str]:
    """The provider for an id that no entry lists, and why it was chosen."""
    try:
        alias, because = _default_alias(config)
    except NoProvider as error:
        raise (foreign(config, model) if model else None) or error from None
    if model is None:
        return alias, because
    other = serving_alias(config, model, alias)
    return other, because if other == alias else ""


def _default_alias(config: Config) -> tuple[str, str]:
    """The default provider, and why it was chosen; empty if the user named it."""
    named = config.origin.chosen.provider or config.provider
    if named:
        refuse_unknown(config, named)
        return named, ""
    main = parse_model(config.roles.main or "", _nameable(config)).alias
    if main:
        return main, ""
    if len(config.providers) == 1:
        return next(iter(config.providers)), ""
    alias = next((alias for alias in all_entries(config) if has_access(config, alias)), None)
    if alias is None:
        raise _nothing_usable(config)
    if alias in config.providers:
        return alias, f"{alias}: the first provider that has its key"
    if found := (config.origin.found or {}).get(alias):
        return alias, f"{alias}: it answers at {found.base_url}"
    return alias, f"{alias}: {naming_variable(config, SERVICE_OF[alias])} is set"


def _nothing_usable(config: Config) -> NoProvider:
    places = [f"{alias}: {key_place(config, alias)}" for alias in config.providers]
    more = ", …" if len(places) > _MOST_NAMED else ""
    missing = [f"no provider has an API key ({', '.join(places[:_MOST_NAMED])}{more})"]
    if not places:
        missing = ["no provider is configured"]
    missing.append("no API key such as OPENAI_API_KEY or ANTHROPIC_API_KEY is set")
    if config.origin.found is not None:
        missing.append("no known model server answers on this machine")
    hint = "`dirge config init` sets one up. `dirge demo` needs none."
    if config.origin.chosen.base_url:
        hint = "Say which API is at --base-url; usually `--provider openai`."
    return NoProvider(
        f"There is no model to use: {', '.join(missing[:-1])}, and {missing[-1]}.", hint=hint
    )


def _nameable(config: Config) -> list[str]:
    """The aliases that a spec may begin with.

    If the default provider is a router, `anthropic/claude` is one of its ids, unless the built-in
    provider `anthropic` has a key.
    """
    named = config.origin.chosen.provider or config.provider
    entries = all_entries(config)
    default = named
    if not named and len(config.providers) == 1:
        default = next(iter(config.providers))
    elif not named and not config.providers:
        default = next((alias for alias in entries if has_access(config, alias)), None)
    has_router = False
    if default in entries:
        # A custom service that the user chose as default may also have ids with slashes.
        is_own = default == named and default in config.providers
        is_router = service_of(entries[default].type).is_router
        has_router = is_router or (is_own and is_custom(config, default))
    own = {*config.providers, default}
    return [name for name in entries if not has_router or name in own or has_access(config, name)]


def _alias_listing(config: Config, model: str | None) -> str | None:
    """The configured alias that lists `model`; the chosen provider comes first."""
    entries = config.providers.items() if model is not None else ()
    listing = [alias for alias, entry in entries if model in (entry.model, *entry.models)]
    named = config.origin.chosen.provider or config.provider
    return named if named in listing else next(iter(listing), None)


def _refuse_unknown_alias(config: Config, parsed: ModelSpec, alias: str) -> None:
    """Raise a ConfigError if the part of the id before a slash is probably a misspelled alias."""
    front, slash, _ = (parsed.id or "").partition("/")
    if not slash or service_of(entry_of(config, alias).type).is_router:
        return
    looks_like = difflib.get_close_matches(front, _nameable(config), 1, cutoff=0.8)
    if looks_like or not takes_any_id(config, alias):
        raise _unknown(config, front)


def refuse_unknown(config: Config, alias: str) -> None:
    """Raise a ConfigError that suggests another name if there is no provider `alias`."""
    if alias not in all_entries(config):
        raise _unknown(config, alias)


def _unknown(config: Config, alias: str) -> ConfigError:
    if alias in OFFLINE:
        entry = f'[providers.NAME] with `type = "{alias}"` and `script = "FILE"`'
        return ConfigError(f"There is no provider `{alias}`.", hint=f"Set one up: {entry}.")
    known = list(all_entries(config))
    close = nearest(alias, known)
    hint = f"Did you mean `{close}`?" if close else f"Providers: {', '.join(known)}."
    return ConfigError(f"There is no provider `{alias}`.", hint=hint)


def _own_model(config: Config, alias: str, entry: ProviderEntry) -> str:
    if entry.model or entry.models:
        return entry.model or entry.models[0]
    if entry.type in OFFLINE:
        return "script"
    if listed := _listed(config, entry):
        return listed[0]
    if entry.base_url is not None or entry.type not in SERVICE_OF:
        hint = f"Set `model` in [providers.{alias}], or choose one with `-m {alias}/…`."
        raise ConfigError(f"Provider `{alias}` has no model set.", hint=hint)
    service = service_of(entry.type)
    if service.default_model:
        return service.default_model
    url = provider_access(config, alias).base_url
    why, fix = "none is set", f"Choose one: `-m {alias}/…`."
    if service.type in (config.origin.found or {}):
        why, fix = f"{service.label} has none", f"Install one{_PULL.get(service.type, '')}."
    elif is_local(url):
        why = f"{service.label} does not answer at {url}"
        fix = f"Start it, or set its `base_url` in [providers.{alias}]."
    raise NoProvider(f"There is no model for `{alias}`: {why}.", hint=fix)


def _listed(config: Config, entry: ProviderEntry) -> tuple[str, ...]:
    """The models of the entry's local server."""
    found = (config.origin.found or {}).get(entry.type)
    return found.models if found is not None and entry.base_url is None else ()


def unusable_roles(config: Config) -> list[str]:
    """Notices about roles without a model, or with one that can't be used."""
    notices = []
    for role, spec in config.roles.named():
        try:
            if spec and role != "main":
                usable_choice(config, spec)
        except ConfigError as error:
            notices.append(f"[roles] {role}: {error.message} {error.hint}".strip())
    return notices


def role_choice(config: Config, role: str) -> ModelChoice | None:
    """The model that `[roles]` names for a role; None if it names no usable one."""
    spec = getattr(config.roles, role)
    with suppress(ConfigError):  # `unusable_roles` reports it at start
        return usable_choice(config, spec) if spec else None
    return None


def usable_model(config: Config, role: str) -> str:
    """`alias/id` of the model for a role; empty if it can't be used."""
    if not getattr(config.roles, role):
        return main_model(config).name
    choice = role_choice(config, role)
    return choice.name if choice is not None else ""


def level_of(choice: ModelChoice, spec: str) -> ThinkingLevel | None:
    """The thinking level that `spec` asks for; None if it names no level."""
    return choice.level if choice.level != "off" or spec.endswith(":off") else None


def usable_choice(config: Config, spec: str) -> ModelChoice:
    """The model of `spec`. Raises ConfigError if there is none, or its provider can't be used."""
    choice = resolve_model(config, spec)
    provider_access(config, choice.alias, is_main=choice.alias == main_model(config).alias)
    return choice
