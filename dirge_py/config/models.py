"""Which model a name (`[alias/]id[:level]`) or a role means, given the providers there are."""

import difflib
from collections.abc import Collection
from typing import get_args
from urllib.parse import urlsplit

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
from dirge_py.config.provider_schema import ProviderEntry
from dirge_py.config.schema import Config, all_entries, entry_of
from dirge_py.config.services import OFFLINE, SERVICE_OF, SERVICES, Service, is_loopback
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.nearest import nearest
from dirge_py.types.errors import ConfigError, NoProvider
from dirge_py.types.llm import ThinkingLevel

THINKING_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)
_MOST_NAMED = 3
_PULL = {"ollama": " (`ollama pull qwen3`)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model as somebody wrote it."""

    alias: str | None = None
    """The provider's alias; None: the default one."""
    id: str | None = None
    """The model's id; None: the provider's own model."""
    level: ThinkingLevel | None = None
    """How much it shall think; None: as usual."""


def parse_model(spec: str, aliases: Collection[str]) -> ModelSpec:
    """`spec` taken apart.

    Ids may hold `/` and `:` themselves (`qwen/qwen3`, `qwen2.5:7b`), so only a known alias before
    the first slash is an alias, and only a known level after the last colon is a level.
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
    """How much it shall think."""
    because: str = ""
    """Why it was chosen, for a line to the person; may be empty."""

    @property
    def name(self) -> str:
        """`alias/id`, as `StreamOptions.model` wants it."""
        return f"{self.alias}/{self.id}"


def main_model(config: Config) -> ModelChoice:
    """The model that does the work: flag, environment, `[roles] main`, default provider.

    Raises:
        NoProvider: nothing usable is configured and no key is set.
        ConfigError: what was named does not exist.
    """
    chosen = config.origin.chosen
    spec = chosen.model
    if spec is None and config.roles.main and _is_of(config, config.roles.main, chosen.provider):
        spec = config.roles.main
    choice = resolve_model(config, spec or "")
    if chosen.thinking is None:
        return choice
    return ModelChoice(
        alias=choice.alias, id=choice.id, level=chosen.thinking, because=choice.because
    )


def resolve_model(config: Config, spec: str) -> ModelChoice:
    """The model that `[alias/]id[:level]` means.

    A bare id belongs to the entry that lists it, else to the default provider, where
    that one serves such models at all, else to a usable one of the id's own family.

    Raises:
        NoProvider: nothing is usable, or nothing that serves the id's family.
        ConfigError: the alias is unknown, or it names no model.
    """
    parsed = parse_model(spec, _nameable(config))
    because = ""
    if parsed.alias is None:
        alias = _alias_listing(config, parsed.id)
        if alias is None:
            alias, because = _alias_for(config, parsed.id)
        _refuse_unknown_alias(config, parsed, alias)
    else:
        alias = parsed.alias
    entry = entry_of(config, alias)
    return ModelChoice(
        alias=alias,
        id=parsed.id or _own_model(config, alias, entry),
        level=parsed.level or entry.thinking or _usual_level(entry),
        because=because,
    )


def offered_models(config: Config) -> list[str]:
    """`alias/id` of every model that can be used now, the configured ones first."""
    names: list[str] = []
    for alias, entry in all_entries(config).items():
        if has_access(config, alias):
            default = SERVICE_OF[entry.type].default_model if entry.type in SERVICE_OF else None
            own = [
                entry.model or (default if not is_custom(config, alias) else None),
                *entry.models,
                *_listed(config, entry),
            ]
            names += [f"{alias}/{model}" for model in own if model]
    return list(dict.fromkeys(names))


def usable_services(config: Config) -> list[str]:
    """The aliases of all that can be used now and list models; what plays a file does not."""
    return [
        alias
        for alias, entry in all_entries(config).items()
        if entry.type not in OFFLINE and has_access(config, alias)
    ]


def local_types(config: Config) -> tuple[str, ...]:
    """The local services that have to be asked before there is a model to begin with.

    All of them where nothing is configured and no key is set; else those that were chosen and name
    no model. Mostly there are none: then nothing has to be asked.
    """
    try:
        main_model(config)
    except NoProvider:
        pass
    except ConfigError:
        return ()
    else:
        return ()
    local = [service.type for service in SERVICES if service.local]
    if not config.providers:
        return tuple(local)
    chosen = config.origin.chosen
    aliases = [chosen.provider, config.provider, parse_model(chosen.model or "", local).alias]
    types = [
        config.providers[name].type if name in config.providers else name
        for name in aliases
        if name
    ]
    only = [entry.type for entry in config.providers.values()] if len(config.providers) == 1 else []
    return tuple(name for name in local if name in (*types, *only))


def _alias_for(config: Config, model: str | None) -> tuple[str, str]:
    """The provider of an id that nobody lists, and why."""
    try:
        alias, because = _default_alias(config)
    except NoProvider as error:
        raise (foreign(config, model) if model else None) or error from None
    if model is None:
        return alias, because
    other = serving_alias(config, model, alias)
    return other, because if other == alias else ""


def _default_alias(config: Config) -> tuple[str, str]:
    """The provider of this start, and why, where nobody named it."""
    named = config.origin.chosen.provider or config.provider
    if named:
        if named not in all_entries(config):
            raise _unknown(config, named)
        return named, ""
    main = parse_model(config.roles.main or "", _nameable(config)).alias
    if main:
        return main, ""
    if len(config.providers) == 1:
        return next(iter(config.providers)), ""
    usable = [alias for alias in all_entries(config) if has_access(config, alias)]
    if not usable:
        raise _nothing(config)
    return usable[0], _reason(config, usable[0])


def _nothing(config: Config) -> NoProvider:
    places = [f"{alias}: {key_place(config, alias)}" for alias in config.providers]
    more = ", …" if len(places) > _MOST_NAMED else ""
    lacks = [f"no provider has its key ({', '.join(places[:_MOST_NAMED])}{more})"]
    if not places:
        lacks = ["no provider is configured"]
    lacks.append("no key such as OPENAI_API_KEY or ANTHROPIC_API_KEY is set")
    if config.origin.found is not None:
        lacks.append("no model server answers on this machine")
    hint = "`dirge config init` sets one up. `dirge demo` needs none."
    if config.origin.chosen.base_url:
        hint = "Say what is spoken at --base-url: `--provider openai`, as a rule."
    return NoProvider(
        f"There is no model to talk to: {', '.join(lacks[:-1])} and {lacks[-1]}.", hint=hint
    )


def _reason(config: Config, alias: str) -> str:
    if alias in config.providers:
        return f"{alias}: the first provider that has its key"
    if found := (config.origin.found or {}).get(alias):
        return f"{alias}: it answers at {found.base_url}"
    return f"{alias}: {naming_variable(config, SERVICE_OF[alias])} is set"


def _nameable(config: Config) -> list[str]:
    """Aliases that a spec may begin with.

    With a router as the default provider, `anthropic/claude` is an id there; so the built-in names
    count only when their own key is set, or when nothing else could be meant.
    """
    default = _likely(config)
    has_router = default is not None and _is_router(config, default)
    return [
        alias
        for alias in all_entries(config)
        if alias in config.providers
        or alias == default
        or not has_router
        or has_access(config, alias)
    ]


def _likely(config: Config) -> str | None:
    """The default provider, as far as it is known without looking at any model's name."""
    named = config.origin.chosen.provider or config.provider
    if named or len(config.providers) == 1:
        return named or next(iter(config.providers))
    if config.providers:
        return None
    return next((alias for alias in all_entries(config) if has_access(config, alias)), None)


def _is_router(config: Config, alias: str) -> bool:
    """Whether ids with slashes are the rule at `alias`: by what it is, or because it was named."""
    entry = all_entries(config).get(alias)
    if entry is None:
        return False
    service = SERVICE_OF.get(entry.type)
    if service is not None and not service.local and not service.families:
        return True
    named = config.origin.chosen.provider or config.provider
    return alias == named and alias in config.providers and is_custom(config, alias)


def _alias_listing(config: Config, model: str | None) -> str | None:
    """The configured alias that lists `model`, unless the default one does or takes any."""
    listing = [
        alias
        for alias, entry in config.providers.items()
        if model is not None and model in (entry.model, *entry.models)
    ]
    named = config.origin.chosen.provider or config.provider
    return named if named in listing else next(iter(listing), None)


def _refuse_unknown_alias(config: Config, parsed: ModelSpec, alias: str) -> None:
    """An id with a slash is an id only at a service of its own; else its front is a wrong alias."""
    front, slash, _ = (parsed.id or "").partition("/")
    if not slash:
        return
    service = SERVICE_OF.get(entry_of(config, alias).type)
    if service is not None and not service.local and not service.families:
        return
    looks_like = difflib.get_close_matches(front, _nameable(config), 1, cutoff=0.8)
    if looks_like or not takes_any_id(config, alias):
        raise _unknown(config, front)


def refuse_unknown(config: Config, alias: str) -> None:
    """Raises ConfigError, which says what may have been meant: there is no provider `alias`."""
    if alias not in all_entries(config):
        raise _unknown(config, alias)


def _unknown(config: Config, alias: str) -> ConfigError:
    if alias in OFFLINE:
        entry = f'[providers.NAME] with `type = "{alias}"` and `script = "FILE"`'
        return ConfigError(f"There is no provider `{alias}`.", hint=f"Set one up: {entry}.")
    known = list(all_entries(config))
    close = nearest(alias, known)
    hint = f"Did you mean `{close}`?" if close else f"There are: {', '.join(known)}."
    return ConfigError(f"There is no provider `{alias}`.", hint=hint)


def _usual_level(entry: ProviderEntry) -> ThinkingLevel:
    """How much the models of a service think where nobody says."""
    return SERVICE_OF[entry.type].thinking if entry.type in SERVICE_OF else "off"


def _own_model(config: Config, alias: str, entry: ProviderEntry) -> str:
    if entry.model or entry.models:
        return entry.model or entry.models[0]
    if entry.type in OFFLINE:
        return "script"
    if listed := _listed(config, entry):
        return listed[0]
    service = SERVICE_OF.get(entry.type)
    if entry.base_url is None and service is not None:
        if service.default_model:
            return service.default_model
        raise _no_model(config, alias, service)
    raise ConfigError(
        f"Provider `{alias}` names no model.",
        hint=f"Set `model` in [providers.{alias}], or choose one with `-m {alias}/…`.",
    )


def _no_model(config: Config, alias: str, service: Service) -> NoProvider:
    """A local service was named, and none of its models."""
    url = provider_access(config, alias).base_url or ""
    why, fix = "none is named", f"Name one: `-m {alias}/…`."
    if service.type in (config.origin.found or {}):
        why, fix = f"{service.label} has none", f"Give it one{_PULL.get(service.type, '')}."
    elif is_loopback(urlsplit(url).hostname or ""):
        why = f"{service.label} does not answer at {url}"
        fix = f"Start it, or write its address into [providers.{alias}]."
    return NoProvider(f"There is no model for `{alias}`: {why}.", hint=fix)


def _listed(config: Config, entry: ProviderEntry) -> tuple[str, ...]:
    """What a local server has listed, where this entry means that one."""
    found = (config.origin.found or {}).get(entry.type)
    return found.models if found is not None and entry.base_url is None else ()


def _is_of(config: Config, spec: str, provider: str | None) -> bool:
    """Whether `spec` may stand although the environment or a flag chose `provider`."""
    return provider in (None, parse_model(spec, _nameable(config)).alias)


def unusable_roles(config: Config) -> list[str]:
    """What to tell the person of roles that name no model, or one which cannot be used."""
    notices = []
    if config.loop.gates.goal and not config.roles.critic:
        notices.append("[loop.gates] goal: nobody judges it. Name a model as [roles] critic.")
    for role, spec in config.roles.named():
        if not spec or role == "main":
            continue
        try:
            usable_choice(config, spec)
        except ConfigError as error:
            notices.append(f"[roles] {role}: {error.message} {error.hint}".strip())
    return notices


def role_choice(config: Config, role: str) -> ModelChoice | None:
    """The model that `[roles]` names for a role; None where it names none that can be used."""
    spec = getattr(config.roles, role)
    if not spec:
        return None
    try:
        return usable_choice(config, spec)
    except ConfigError:
        return None  # the person was told at the start: `unusable_roles`


def usable_model(config: Config, role: str) -> str:
    """`alias/id` of the model that a role stands for; empty where that cannot be used."""
    if not getattr(config.roles, role):
        return main_model(config).name
    choice = role_choice(config, role)
    return choice.name if choice is not None else ""


def level_of(choice: ModelChoice, spec: str) -> ThinkingLevel | None:
    """How much the model of `spec` is to think; None where nobody said."""
    return choice.level if choice.level != "off" or spec.endswith(":off") else None


def usable_choice(config: Config, spec: str) -> ModelChoice:
    """Raises ConfigError: it names no model, or one whose provider lacks its key or address."""
    choice = resolve_model(config, spec)
    provider_access(config, choice.alias, is_main=choice.alias == main_model(config).alias)
    return choice
