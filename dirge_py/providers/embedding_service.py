"""The configured services that make embeddings, and how often one of them is asked."""

import asyncio
import random as randomness
from collections.abc import Awaitable, Callable

from dirge_py.agent_loop.retry import RecoveryPolicy
from dirge_py.config.access import has_access, key_place, provider_access
from dirge_py.config.entries import all_entries, entry_of
from dirge_py.config.models import main_model
from dirge_py.config.schema import Config
from dirge_py.config.services import wire_of
from dirge_py.lib.redactor import Redactor
from dirge_py.providers.base import ProviderSettings, Timeouts
from dirge_py.providers.client import HttpClient
from dirge_py.providers.embedding_wires import EMBEDDING_WIRES
from dirge_py.providers.embeddings import Attempt, EmbeddingProvider, Embeddings, embedder
from dirge_py.types.errors import ConfigError, ProviderError

POLICY = RecoveryPolicy()


def embedding_provider(
    config: Config,
    http: HttpClient,
    *,
    alias: str | None = None,
    each: Callable[[Attempt], Awaitable[Embeddings]],
) -> EmbeddingProvider:
    """The embeddings of the provider `alias`; None: of the one that does the work.

    Raises:
        ConfigError: there is no such provider, or it has none; the hint names those that have.
    """
    chosen = alias or main_model(config).alias
    wire = wire_of(entry_of(config, chosen).type)
    if wire not in EMBEDDING_WIRES:
        able = _able(config)
        raise ConfigError(
            f"Provider `{chosen}` ({entry_of(config, chosen).type}) has no embeddings.",
            hint=f"Ask one with `--provider`: {', '.join(able)}."
            if able
            else f"Configure one that speaks {', '.join(EMBEDDING_WIRES)}.",
        )
    return embedder(wire, _settings(config, chosen), http, each=each)


def named_provider(config: Config, model: str) -> tuple[str | None, str]:
    """`alias/id` as the two of them, where there is such a provider; else no alias, and the id."""
    alias, _, model_id = model.partition("/")
    is_known = alias in config.providers or (
        alias in all_entries(config) and has_access(config, alias)
    )
    return (alias, model_id) if model_id and is_known else (None, model)


def _able(config: Config) -> list[str]:
    return [
        alias
        for alias, entry in all_entries(config).items()
        if wire_of(entry.type) in EMBEDDING_WIRES and has_access(config, alias)
    ]


def _settings(config: Config, alias: str) -> ProviderSettings:
    access = provider_access(config, alias, is_main=True)
    redactor = Redactor()
    redactor.add(access.api_key)
    return ProviderSettings(
        alias=alias,
        type=access.type,
        base_url=access.base_url or "",
        api_key=access.api_key,
        key_place=key_place(config, alias),
        headers=access.headers,
        allow_insecure=access.allow_insecure,
        timeouts=Timeouts(establish_s=config.timeouts.establish_s),
        redact=redactor.redact,
    )


async def patiently(
    attempt: Attempt,
    *,
    notice: Callable[[str], None],
    policy: RecoveryPolicy | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Callable[[], float] = randomness.random,
) -> Embeddings:
    """`attempt`, made again after an error that may pass, as model calls are; `notice` is told.

    Raises:
        ProviderError: the last one, or one that does not pass.
    """
    rules = policy or POLICY
    retry = 0
    while True:
        try:
            return await attempt()
        except ProviderError as error:
            judged = rules.judged(error)
            if not judged.is_retryable or retry == rules.max_retries:
                raise judged from error
            delay_s = rules.delay_s(retry, judged, random)
        retry += 1
        notice(f"{judged.message} Trying again in {delay_s:.0f} s.")
        await sleep(delay_s)
