"""Models by name: provider, profile, price, sampling, and the stream function of a conversation."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, cast, get_args

from dirge_py.agent_loop.retry import RecoveryPolicy, retrying_stream_fn
from dirge_py.config.access import key_place, provider_access
from dirge_py.config.models import (
    level_of,
    main_model,
    offered_models,
    refuse_unknown,
    resolve_model,
    usable_choice,
    usable_services,
)
from dirge_py.config.schema import PROFILE_FIELDS, Config, entry_of
from dirge_py.config.services import OFFLINE, PROVIDER_TYPES, service_of, wire_of
from dirge_py.config.table import values_of
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.redaction import Redactor
from dirge_py.providers.adapter import is_openai, retry_without, with_options
from dirge_py.providers.catalog import (
    ASSUMED_WINDOW_TOKENS,
    ModelProfile,
    cost_usd,
    find_model_profile,
    with_hourly_cache_price,
)
from dirge_py.providers.client import HttpClient
from dirge_py.providers.discovery import list_models
from dirge_py.providers.registry import find_provider
from dirge_py.providers.settings import ProviderSettings, Quirks, StreamTimeouts, model_id
from dirge_py.types.abort import AbortSignal
from dirge_py.types.errors import ConfigError, ProviderError
from dirge_py.types.llm import (
    LlmContext,
    ModelOption,
    StreamError,
    StreamEvent,
    StreamFn,
    StreamOptions,
    ThinkingLevel,
    closing,
)
from dirge_py.types.messages import Usage
from dirge_py.types.sampling import Sampling

_LISTING_S = 10.0


class ModelDirectory:
    """The configured models; implements `types.llm.Models`."""

    def __init__(
        self,
        config: Config,
        client: HttpClient,
        redactor: Redactor,
        *,
        is_scripted: bool = False,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        """With `is_scripted` a script answers, so the provider needs no key.

        `notify` gets messages for the person about requests.
        """
        self._notify = notify
        self._config = config
        self._client = client
        self._redactor = redactor
        self._streams: dict[str, StreamFn] = {}
        self._whole: set[str] = set()
        """Names from services and sessions, in which `:high` is a part of the id, not a level."""
        self.notices: list[str] = []
        self.main = main_model(config)
        if not is_scripted and (kind := self.settings(self.main.alias).type) not in PROVIDER_TYPES:
            try:
                find_provider(kind)
            except ConfigError as error:
                self.notices.append(f"{error.message} `/model` chooses another model.")

    def start_with(self, session_model: str, session_thinking: str) -> tuple[str, ThinkingLevel]:
        """The first model: that of a resumed session, unless this start names another."""
        chosen = self._config.origin.chosen
        if not session_model or chosen.model is not None or chosen.provider is not None:
            return self.main.name, self.main.level
        try:
            # Checked first: a custom provider takes any id, also one that begins with an alias.
            entry_of(self._config, session_model.partition("/")[0])
            self._whole.add(session_model)
            model, _ = self.resolve(session_model)
            if model != session_model:
                raise ConfigError("its provider has no key.")
        except ConfigError as error:
            self.notices.append(
                f"the session's model {session_model} cannot be used ({error.message}) "
                f"Using {self.main.name} instead."
            )
            return self.main.name, self.main.level
        return model, chosen.thinking or _thinking_level(session_thinking) or self.main.level

    def resolve(self, spec: str) -> tuple[str, ThinkingLevel | None]:
        is_odd = spec in self._whole and _thinking_level(spec.rpartition(":")[2]) is not None
        choice = resolve_model(self._config, f"{spec}:off" if is_odd else spec)
        self.settings(choice.alias)
        return choice.name, None if is_odd else choice.level

    def choices(self) -> Sequence[ModelOption]:
        names = dict.fromkeys([self.main.name, *offered_models(self._config)])
        return [self._choice(name) for name in names]

    def services(self) -> Sequence[str]:
        return usable_services(self._config)

    async def listed(self, alias: str) -> Sequence[ModelOption]:
        refuse_unknown(self._config, alias)
        settings = self.settings(alias)
        if settings.type in OFFLINE:
            raise ConfigError(f"Provider `{alias}` has no list of models: it replays a file.")
        ids = await list_models(settings, self._client.of(settings), limit_s=_LISTING_S)
        choices = [self._choice(f"{alias}/{model_id}") for model_id in ids]
        self._whole.update(choice.spec for choice in choices)
        return sorted(choices, key=lambda choice: choice.window_tokens == 0)

    def _choice(self, name: str) -> ModelOption:
        profile, price = self.profile(name), ""
        if profile.price_in is not None and profile.price_out is not None:
            price = f"${profile.price_in:g} in, ${profile.price_out:g} out per million tokens"
        return ModelOption(spec=name, window_tokens=profile.window_tokens or 0, price=price)

    def window_tokens(self, model: str) -> int:
        return self.profile(model).window_tokens or ASSUMED_WINDOW_TOKENS

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        return cost_usd(self.profile(model), usage)

    def holds_schema(self, model: str) -> bool:
        return self.profile(model).structured

    def sees_pictures(self, model: str) -> bool | None:
        return self.profile(model).sees_pictures

    def profile(self, model: str) -> ModelProfile:
        alias, _, model_id = model.partition("/")
        entry = self._config.providers.get(alias)
        profile = find_model_profile(entry.type if entry else alias, model_id)
        if entry is not None and entry.cache_ttl == "1h":
            profile = with_hourly_cache_price(profile)
        for name in (model_id, model):
            known = self._config.models.get(name)
            if known is not None:
                set_here = {k: v for k, v in values_of(known).items() if k in PROFILE_FIELDS}
                profile = replace(profile, **set_here)
        return profile

    async def stream(
        self, context: LlmContext, options: StreamOptions, signal: AbortSignal
    ) -> AsyncIterator[StreamEvent]:
        """A `StreamFn` that hands the call to the provider which `options.model` names."""
        alias = options.model.partition("/")[0]
        try:
            if alias not in self._streams:
                self._streams[alias] = self._open(alias)
        except ConfigError as error:
            yield StreamError(ProviderError(error.message, kind="auth", hint=error.hint))
            return
        if options.response_schema is not None and not self.holds_schema(options.model):
            # A fallback for a model whose service can; the caller checks the answer anyway.
            options = replace(options, response_schema=None)
        async with closing(self._streams[alias](context, options, signal)) as events:
            async for event in events:
                yield event

    def _open(self, alias: str) -> StreamFn:
        settings = self.settings(alias)
        made = find_provider(wire_of(settings.type)).make(settings, self._client.of(settings))
        if settings.type in OFFLINE:
            return made
        sampling = SamplingFilter(settings=settings, configured=self._sampling, notify=self._notify)
        return sampling.around(made)

    def _sampling(self, model: str) -> Sampling:
        """What the settings say about the sampling of a model; `alias/id` counts most."""
        alias, _, model_id = model.partition("/")
        models, provider = self._config.models, self._config.providers.get(alias)
        entries = models.get(model), models.get(model_id), provider
        sampling = Sampling()
        for entry in filter(None, entries):
            sampling = sampling.over(entry.sampling)
        return sampling

    def settings(self, alias: str) -> ProviderSettings:
        """The settings of a provider. Raises ConfigError: its key or address is wrong."""
        return provider_settings(
            self._config,
            alias,
            self._redactor,
            is_main=alias == self.main.alias,
            profile_of=lambda model_id: self.profile(f"{alias}/{model_id}"),
        )


def provider_settings(
    config: Config,
    alias: str,
    redactor: Redactor,
    *,
    is_main: bool = False,
    profile_of: Callable[[str], ModelProfile] | None = None,
) -> ProviderSettings:
    """The settings of a provider; its key is added to `redactor`. Raises ConfigError."""
    access = provider_access(config, alias, is_main=is_main)
    redactor.add(access.api_key)
    entry, timeouts = access.entry, config.timeouts
    return ProviderSettings(
        alias=alias,
        type=entry.type,
        base_url=access.base_url,
        api_key=access.api_key,
        key_place=key_place(config, alias),
        headers=access.headers,
        allow_insecure=entry.allow_insecure,
        max_output_tokens=entry.max_output_tokens,
        timeouts=StreamTimeouts(
            establish_s=timeouts.establish_s,
            chunk_s=entry.chunk_s or timeouts.chunk_s,
            tool_call_gap_s=timeouts.tool_call_gap_s,
            connect_s=min(timeouts.connect_s, timeouts.establish_s),
        ),
        quirks=Quirks(**access.dialect),
        profile_of=profile_of,
        keep_alive=entry.keep_alive,
        cache_ttl=entry.cache_ttl,
        script=access.script,
        redact=redactor.redact,
    )


def _thinking_level(word: str) -> ThinkingLevel | None:
    return cast(ThinkingLevel, word) if word in get_args(ThinkingLevel) else None


_LEAST_TOP_P_OF_THINKING = 0.95
_NAMES = {
    "temperature": r"\btemperature\b",
    "top_p": r"\btop_?p\b",
    "stop_sequences": r"\bstop(?:[_ ]?sequences)?\b",
}
_REFUSES = (
    r"unsupported|not supported|n[o']t support|deprecated|not permitted|only the default"
    r"|unknown (?:parameter|name|field)|unrecognized|extra inputs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingFilter:
    """Adds the configured sampling to the requests to a service, without what a model refuses.

    Known to refuse: OpenAI's reasoning models any temperature, top_p and stop (openai.com reference
    of Chat Completions, BerriAI/litellm #15244), the Responses interface stop sequences, Claude
    models from 4.7 on temperature and top_p (BerriAI/litellm #26444), earlier ones while they think
    ("Extended thinking" in Anthropic's docs). Other refusals are learned from the service's error.
    """

    settings: ProviderSettings
    """The settings of the service."""
    configured: Callable[[str], Sampling]
    """Returns the sampling of a model (`alias/id`) in the settings."""
    notify: Callable[[str], None]
    """Gets a message once for each part that a model doesn't get."""
    _refused: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _told: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def around(self, inner: StreamFn) -> StreamFn:
        """`inner` with the sampling of each call's model."""
        return retry_without(with_options(inner, self._fitted), self._learn)

    def _wanted(self, options: StreamOptions) -> Sampling:
        return options.sampling.over(self.configured(options.model))

    def _fitted(self, options: StreamOptions) -> StreamOptions:
        model, wanted = options.model, self._wanted(options)
        refused = self._known_refusals(options, wanted) | self._refused[model]
        without: dict[str, Any] = {name: getattr(Sampling(), name) for name in refused}
        for name in sorted(_set(wanted) & refused - self._told[model]):
            self.notify(f"`{name}` is left out of requests to {model}, which doesn't accept it.")
        self._told[model] |= _set(wanted) & refused
        return replace(options, sampling=replace(wanted, **without))

    def _known_refusals(self, options: StreamOptions, wanted: Sampling) -> set[str]:
        profile, wire = self.settings.profile(model_id(options.model)), wire_of(self.settings.type)
        base_url = self.settings.base_url or service_of(wire).base_url
        match wire:
            case "openai" | "openai-responses" if profile.thinking and is_openai(base_url):
                return {"temperature", "top_p", "stop_sequences"}
            case "openai-responses":
                return {"stop_sequences"}
            case "anthropic" if profile.adaptive_thinking:
                return {"temperature", "top_p"}
            case "anthropic" if profile.thinking and options.thinking_level != "off":
                is_high = (wanted.top_p or 0) >= _LEAST_TOP_P_OF_THINKING
                return {"temperature"} if is_high else {"temperature", "top_p"}
        return set()

    def _learn(self, error: ProviderError, context: LlmContext, options: StreamOptions) -> bool:
        if error.kind != "invalid_request":
            return False
        said = (error.raw or error.message).lower()
        wanted = _set(self._wanted(options)) - self._refused[options.model]
        named = {name for name in wanted if re.search(_NAMES[name], said)}
        if "cannot both be specified" in said:
            named &= {"top_p"}
        elif not re.search(_REFUSES, said):
            return False
        self._refused[options.model] |= named
        return bool(named)


def _set(sampling: Sampling) -> set[str]:
    """The parts that have a value, without `extra`."""
    return {name for name in _NAMES if getattr(sampling, name) not in (None, ())}


def with_sampling(stream_fn: StreamFn, sampling: Sampling) -> StreamFn:
    """`stream_fn` for calls with `sampling`, where they have no other. Raises ConfigError."""
    if problem := sampling.problem():
        raise ConfigError(f"The sampling cannot be used: {problem}.")
    if sampling == Sampling():
        return stream_fn
    return with_options(
        stream_fn, lambda options: replace(options, sampling=options.sampling.over(sampling))
    )


def model_calls(
    config: Config, models: ModelDirectory, route: StreamFn, notify: Callable[[str], None]
) -> tuple[StreamFn, Callable[[], None]]:
    """`route` with retries and the models of `[roles] fallback`, and a function to call first.

    Called for each prompt, that one makes models count as reachable again. `notify` gets a message
    for each change of the model. Fallback models that can't be used are left out; `unusable_roles`
    reports them.
    """
    from dirge_py.providers.fallback import FallbackChain, FallbackModel

    stream = retrying_stream_fn(route, RecoveryPolicy())
    if not config.roles.fallback:
        return stream, lambda: None
    fallbacks = []
    for spec in (spec for role, spec in config.roles.named() if role == "fallback"):
        with suppress(ConfigError):
            choice = usable_choice(config, spec)
            fallbacks.append(FallbackModel(choice.name, level_of(choice, spec)))
    chain = FallbackChain(stream, fallbacks, notify, models.holds_schema)
    return chain.stream, chain.begin_run
