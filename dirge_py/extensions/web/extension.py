"""Web access as an extension: the service of the web tools, made from `[web]`."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dirge_py.config.schema import Config, WebTable
from dirge_py.tools.web.service import WebService
from dirge_py.types.errors import ConfigError, ToolFailed
from dirge_py.types.extensions import Extension, ExtensionHost

if TYPE_CHECKING:
    from dirge_py.tools.web.dns_guard import DnsGuard
    from dirge_py.tools.web.search import SearchBackend, WebSearch
    from dirge_py.tools.web.url import ParsedUrl

KEY_VARIABLES = {
    "brave": "BRAVE_API_KEY",
    "exa": "EXA_API_KEY",
    "tavily": "TAVILY_API_KEY",
}
"""The usual variable of each search service that needs a key."""


class Web(Extension):
    """Offers the service of the web tools."""

    name = "web"
    summary = "reads pages and searches the web"

    def __init__(self, service: WebService) -> None:
        self.service = service
        """Fetches pages and searches."""


def make(host: ExtensionHost) -> Web | None:
    service = web_access(host.settings, host.add_secret)
    return Web(service) if service is not None else None


def web_access(config: Config, keep_secret: Callable[[str], None]) -> WebService | None:
    """Return the service of a conversation; None if a rule denies the network to all calls.

    `keep_secret` gets the key of the search service and the password of the proxy, or "". Raises
    ConfigError: a setting of `[web]` is invalid.
    """
    for rule in config.permission.rule:
        if rule.effect == "deny" and rule.op in ("network", "*") and rule.match in ("*", "**"):
            return None
    table = config.web
    if table.proxy is not None:
        keep_secret(_proxy_password(table.proxy))
    reach, search = None, None
    problem = "No search service is chosen: set `search` under `[web]`."
    if table.private_hosts or table.search is not None:
        reach = _make_guard(table, table.private_hosts, "private_hosts")
    if reach is not None and table.search is not None:
        search, problem = _make_search(table, reach, config.origin.environment, keep_secret)
    return WebService(
        reach,
        timeout_s=table.timeout_s,
        max_bytes=table.max_bytes,
        proxy=table.proxy,
        search=search,
        search_problem=problem,
    )


def search_key_variables(config: Config) -> list[str]:
    """Return the environment variables that may contain a search key: commands never get them."""
    named = [config.web.search_key_env] if config.web.search_key_env else []
    return [*named, *KEY_VARIABLES.values()]


def _make_search(
    table: WebTable,
    reach: "DnsGuard",
    environment: Mapping[str, str],
    keep_secret: Callable[[str], None],
) -> "tuple[WebSearch | None, str]":
    """Return the chosen search service, or why it can't be used."""
    from dirge_py.tools.web.dns_guard import is_local_target
    from dirge_py.tools.web.search import BACKENDS, WebSearch

    assert table.search is not None
    backend, own_variable = BACKENDS[table.search], KEY_VARIABLES.get(table.search, "")
    if not (table.search_url or backend.url):
        return None, f"{backend.name} has no address: set `search_url` under `[web]`."
    endpoint = _parse_endpoint(table.search_url or backend.url, backend)
    variable = table.search_key_env or own_variable
    key = environment.get(variable, "").strip() if variable else ""
    if own_variable and not key:
        return None, f"{backend.name} needs a key: set {variable} in the environment."
    if key:
        if not key.isascii() or not key.isprintable():
            raise ConfigError(f"{variable} is not a key.", hint="It must be one line of ASCII.")
        keep_secret(key)
    if table.search_url and (table.proxy is None or is_local_target(endpoint)):
        # The user named this address, so it may be in their own network. Only for searching.
        reach = _make_guard(table, [endpoint.place], "search_url")
    is_loopback = f".{endpoint.host}".endswith(".localhost")
    if endpoint.address is not None:
        is_loopback = endpoint.address.is_loopback
    if key and endpoint.scheme == "http" and not is_loopback:
        text = f"`search_url` {endpoint} would send the key unencrypted."
        raise ConfigError(text, hint="Use https.")
    limit_s, proxy = table.timeout_s, table.proxy
    search = WebSearch(backend, endpoint, reach=reach, key=key, proxy=proxy, timeout_s=limit_s)
    return search, ""


def _parse_endpoint(url: str, backend: "SearchBackend") -> "ParsedUrl":
    from dirge_py.tools.web.url import parse_url

    try:
        endpoint = parse_url(url)
        if endpoint.path == "/":
            endpoint = parse_url(endpoint.url.removesuffix("/") + backend.path)
    except ToolFailed as error:
        raise ConfigError(f"`search_url` under `[web]`: {error}") from None
    return endpoint


def _make_guard(table: WebTable, hosts: list[str], key: str) -> "DnsGuard":
    from dirge_py.tools.web.dns_guard import DnsGuard

    try:
        return DnsGuard(hosts, is_proxied=table.proxy is not None)
    except ToolFailed as error:
        text = f"`{key}` under `[web]`: {error}"
        raise ConfigError(text, hint="Write `host` or `host:port`.") from None


def _proxy_password(proxy: str) -> str:
    """Return the password in a proxy's address; "" if there is none."""
    try:
        parts = urlsplit(proxy)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or re.search(r"[\x00-\x20\x7f]", proxy):
        # It may contain a password, so it is not quoted.
        text = "`proxy` under `[web]` is not a valid address."
        raise ConfigError(text, hint="Write `http://host:port`.")
    return parts.password or ""
