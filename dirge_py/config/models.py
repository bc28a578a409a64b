"""Which model a name or a role means, given the providers there are."""

import difflib

from dirge_py.config.access import has_access, is_custom
from dirge_py.config.entries import all_entries, entry_of
from dirge_py.config.model_spec import ModelSpec, parse_model
from dirge_py.config.provider_table import ProviderEntry
from dirge_py.config.schema import Config
from dirge_py.config.services import OFFLINE, SERVICE_OF, SERVICES
from dirge_py.errors import ConfigError, NoProvider
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.streams import ThinkingLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """One model of one provider. `because` says why, for a line to the person; may be empty."""

    alias: str
    id: str
    level: ThinkingLevel = "off"
    because: str = ""

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


def role_model(config: Config, role: str) -> ModelChoice:
    """The model of a role (`summarize`, `review`, …); the main one where none is set."""
    spec = getattr(config.roles, role)
    return resolve_model(config, spec) if spec else main_model(config)


def resolve_model(config: Config, spec: str, *, alias: str | None = None) -> ModelChoice:
    """The model that `[alias/]id[:level]` means. `alias` is the provider of a bare id.

    Without one, a bare id belongs to the entry that lists it, else to the default provider.

    Raises:
        NoProvider: nothing is usable.
        ConfigError: the alias is unknown, or it names no model.
    """
    parsed = parse_model(spec, _nameable(config))
    because = ""
    if parsed.alias is None:
        alias = alias or _alias_listing(config, parsed.id)
        if alias is None:
            alias, because = _default_alias(config)
        _refuse_unknown_alias(config, parsed, alias)
    else:
        alias = parsed.alias
    entry = entry_of(config, alias)
    return ModelChoice(
        alias=alias,
        id=parsed.id or _own_model(config, alias, entry),
        level=parsed.level or entry.thinking or "off",
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
            ]
            names += [f"{alias}/{model}" for model in own if model]
    return list(dict.fromkeys(names))


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
        raise NoProvider(
            "There is no model to talk to: no provider is configured, and none of "
            f"{', '.join(service.key_env[0] for service in SERVICES if service.key_env)} is set.",
            hint="Set one of them, or run `dirge config init`. `dirge demo` needs neither.",
        )
    return usable[0], _reason(config, usable[0])


def _reason(config: Config, alias: str) -> str:
    if alias in config.providers:
        return f"{alias}: the first provider that has its key"
    service = SERVICE_OF[alias]
    environment = config.origin.environment
    key = next((name for name in service.key_env if environment.get(name)), None)
    return f"{alias}: {key or service.named_url(environment)[1]} is set"


def _nameable(config: Config) -> list[str]:
    """Aliases that a spec may begin with.

    With a service like a router as the default provider, `anthropic/claude` is an id there; so the
    built-in names count only when their own key is set, or when nothing else could be meant.
    """
    named = config.origin.chosen.provider or config.provider
    has_router = named in config.providers and is_custom(config, named or "")
    return [
        alias
        for alias in all_entries(config)
        if alias in config.providers or not has_router or has_access(config, alias)
    ]


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
    looks_like = difflib.get_close_matches(front, _nameable(config), 1, cutoff=0.8)
    if looks_like or not is_custom(config, alias):
        raise _unknown(config, front)


def _unknown(config: Config, alias: str) -> ConfigError:
    known = list(all_entries(config))
    close = difflib.get_close_matches(alias, known, 1)
    hint = f"Did you mean `{close[0]}`?" if close else f"There are: {', '.join(known)}."
    return ConfigError(f"There is no provider `{alias}`.", hint=hint)


def _own_model(config: Config, alias: str, entry: ProviderEntry) -> str:
    if entry.model or entry.models:
        return entry.model or entry.models[0]
    if entry.type in OFFLINE:
        return "script"
    default = SERVICE_OF[entry.type].default_model if entry.type in SERVICE_OF else None
    if entry.base_url is None and default:
        return default
    raise ConfigError(
        f"Provider `{alias}` names no model.",
        hint=f"Set `model` in [providers.{alias}], or choose one with `-m {alias}/…`.",
    )


def _is_of(config: Config, spec: str, provider: str | None) -> bool:
    """Whether `spec` may stand although the environment or a flag chose `provider`."""
    return provider in (None, parse_model(spec, _nameable(config)).alias)
