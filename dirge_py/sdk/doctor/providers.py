"""Checks of each usable provider: its address, its key, and whether its service answers.

Each gets one GET for its list of models, with the key, at the address of its other requests.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from dirge_py.config.access import ProviderAccess, has_access, key_place, provider_access
from dirge_py.config.models import main_model, resolve_model
from dirge_py.config.schema import Config, all_entries
from dirge_py.config.services import OFFLINE, PROVIDER_TYPES, SERVICE_OF
from dirge_py.config.sources import LocalServer
from dirge_py.lib.nearest import nearest
from dirge_py.lib.redaction import Redactor
from dirge_py.lib.text import plural
from dirge_py.providers.client import HttpClient
from dirge_py.providers.discovery import find_local_servers, list_models
from dirge_py.providers.models import provider_settings
from dirge_py.providers.registry import find_provider
from dirge_py.sdk.doctor.report import CheckResult, failed, passed, skipped, warn
from dirge_py.types.errors import ConfigError, NoProvider, ProviderError

LIMIT_S = 3.0
_WITHOUT_LIST = (400, 404, 405, 501)
"""The statuses of services that have no list of models."""


def check_providers(
    config: Config, environment: Mapping[str, str], *, is_offline: bool, limit_s: float = LIMIT_S
) -> list[CheckResult]:
    """Check the providers, the models that roles name, and the servers of this machine.

    All are queried at once, for at most `limit_s`; with `is_offline`, none is.
    """
    roles = list(_roles(config))
    if is_offline:
        return [*(_standing(config, alias) for alias in _aliases(config)), *roles]
    told, others = asyncio.run(_ask(config, environment, limit_s))
    return [*told, *roles, *_local(others)]


async def _ask(
    config: Config, environment: Mapping[str, str], limit_s: float
) -> tuple[list[CheckResult], Sequence[LocalServer] | None]:
    """Return the findings about providers, and the other local servers; None: none answers."""
    client = HttpClient()
    listed: set[str] = set()
    try:
        await client.warm_up()
        asked = [_findings(config, alias, client, limit_s, listed) for alias in _aliases(config)]
        finding = asyncio.ensure_future(find_local_servers(environment, client))
        told = [each for several in await asyncio.gather(*asked) for each in several]
        found = await finding
        others = [each for each in found if not each.models or _place(each.base_url) not in listed]
        return told, others if found else None
    finally:
        await client.aclose()


def _aliases(config: Config) -> Sequence[str]:
    """The configured providers, the main one, and usable built-in ones; each service once."""
    aliases: list[str] = []
    others: dict[str, str] = {}
    """By the place of their keys: one alias for each service is enough."""
    for alias in all_entries(config):
        if alias in config.providers or _is_main(config, alias):
            aliases.append(alias)
        elif has_access(config, alias):
            others.setdefault(key_place(config, alias), alias)
    used = {key_place(config, alias) for alias in aliases if alias not in config.providers}
    return [*aliases, *(alias for key, alias in others.items() if key not in used)]


async def _findings(
    config: Config, alias: str, client: HttpClient, limit_s: float, listed: set[str]
) -> Sequence[CheckResult]:
    """Check one provider and its models; adds its address to `listed` if it lists its models."""
    standing, provider_type = _standing(config, alias), all_entries(config)[alias].type
    if standing.state != "skipped" or provider_type in OFFLINE:
        return [standing]
    if provider_type not in PROVIDER_TYPES:
        return [_of_package(provider_type, _name(alias))]
    is_main = _is_main(config, alias)
    access = provider_access(config, alias, is_main=is_main)
    settings = provider_settings(config, alias, Redactor(), is_main=is_main)
    where = f"{settings.base_url}, {key_words(config, access)}"
    try:
        models = await list_models(settings, client, limit_s=limit_s)
    except ProviderError as error:
        return [_failed(config, alias, where, error)]
    except ConfigError as error:
        return [failed(_name(alias), error.message, error.hint or "edit `base_url`")]
    listed.add(_place(settings.base_url))
    told = passed(_name(alias), f"{where}: answers, lists {plural(len(models), 'model')}")
    return [told, *_missing(config, alias, models)]


def _of_package(provider_type: str, name: str) -> CheckResult:
    """Whether a type of an installed package can be loaded."""
    try:
        find_provider(provider_type)
    except ConfigError as error:
        return warn(name, error.message, error.hint or "")
    return passed(name, f"the type `{provider_type}` of an installed package is loaded")


def _standing(config: Config, alias: str) -> CheckResult:
    """The finding without a request; `skipped` if only a request can tell more."""
    is_main = _is_main(config, alias)
    try:
        access = provider_access(config, alias, is_main=is_main)
    except NoProvider as error:
        fix = error.hint or f"set {key_place(config, alias)}"
        return (failed if is_main else warn)(_name(alias), error.message, fix)
    except ConfigError as error:
        return failed(_name(alias), error.message, error.hint or "dirge config check")
    if access.entry.type in OFFLINE:
        return skipped(_name(alias), f"runs the script {access.script or 'what it is given'}")
    return skipped(_name(alias), f"{access.base_url}, {key_words(config, access)}: not asked")


def _failed(config: Config, alias: str, where: str, error: ProviderError) -> CheckResult:
    if error.status in _WITHOUT_LIST:
        return passed(_name(alias), f"{where}: answers, and lists no models ({error.status})")
    is_passing = error.kind in ("rate_limit", "usage_cap", "server")
    tell = failed if _is_main(config, alias) and not is_passing else warn
    return tell(_name(alias), f"{where}: {error.message}", error.hint or "dirge config check")


def _missing(config: Config, alias: str, models: Sequence[str]) -> Iterator[CheckResult]:
    """Findings about configured models that the service does not list."""
    for wanted in _wanted(config, alias) if models else ():
        if not _is_listed(wanted, models):
            near = nearest(wanted, models)
            better = f"`{near}`" if near else f"one of its {len(models)}: `-m {alias}/…`"
            words = f"{alias}/{wanted} is not among the models it lists"
            yield warn("model", words, f"choose {better}")


def _is_listed(wanted: str, models: Collection[str]) -> bool:
    """Whether `wanted` is one of them, or the short name of a dated or tagged one."""
    return wanted.endswith("-latest") or any(
        model == wanted or model.startswith((f"{wanted}-", f"{wanted}:")) for model in models
    )


def _wanted(config: Config, alias: str) -> Sequence[str]:
    """The ids that the settings and this start name at `alias`."""
    entry = config.providers.get(alias)
    wanted = [entry.model or "", *entry.models] if entry else []
    for spec in (None, *(spec for _, spec in config.roles.named())):
        with suppress(ConfigError):
            choice = main_model(config) if spec is None else resolve_model(config, spec)
            wanted += [choice.id] if choice.alias == alias else []
    return [each for each in dict.fromkeys(wanted) if each]


def _roles(config: Config) -> Iterator[CheckResult]:
    for role, spec in config.roles.named():
        try:
            provider_access(config, resolve_model(config, spec).alias)
        except ConfigError as error:
            words = f"{spec}: {error.message}"
            yield warn(f"role {role}", words, error.hint or "edit [roles]")


def _place(base_url: str) -> str:
    """The address in a normal form, for comparison."""
    return base_url.rstrip("/").replace("//localhost", "//127.0.0.1", 1)


def _local(found: Sequence[LocalServer] | None) -> Iterator[CheckResult]:
    if found is None:
        yield skipped("local servers", "none found on the usual ports")
    for each in found or ():
        label = (
            SERVICE_OF[each.type].label if each.type != "openai" else "an OpenAI-compatible server"
        )
        if each.models:
            more = f" and {len(each.models) - 3} more" if len(each.models) > 3 else ""
            words = f"{label} at {each.base_url}: {', '.join(each.models[:3])}{more}"
            yield passed("local servers", words)
        else:
            words = f"{label} at {each.base_url} has no chat model"
            yield warn("local servers", words, "ollama pull qwen3")


def key_words(config: Config, access: ProviderAccess) -> str:
    """Say where the key comes from."""
    return f"key from {key_place(config, access.alias)}" if access.api_key else "no key needed"


def _is_main(config: Config, alias: str) -> bool:
    try:
        return main_model(config).alias == alias
    except ConfigError:
        return False


def _name(alias: str) -> str:
    return f"provider {alias}"
