"""What a provider is: settings in, a stream function out.

A provider module exports `PROVIDER`. It is imported only when its name is used (`registry.py`), and
nothing here or in `registry.py` imports an HTTP library, so that listing providers costs nothing.
"""

import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.providers.catalog import ModelCard, lookup
from dirge_py.providers.dialect import Dialect
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import StreamFn

if TYPE_CHECKING:
    from dirge_py.providers.client import HttpClient

Redact: TypeAlias = Callable[[str], str]
"""Text with every secret in it replaced; applied to whatever a service says before it is shown."""


CardOf: TypeAlias = Callable[[str], ModelCard]
"""What is known of a model, by its id."""


def _unchanged(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long each silence may last, in seconds.

    `establish_s` runs from the request to the first byte of the answer, `chunk_s` between two
    pieces of it, `tool_call_gap_s` between two pieces while a tool call is half-written: a model
    that stops there is stuck, not thinking. `connect_s` is the share of `establish_s` that a
    connection may take.
    """

    establish_s: float = 300.0
    chunk_s: float = 300.0
    tool_call_gap_s: float = 60.0
    connect_s: float = 30.0

    def silent_for(self, chunk_s: float | None) -> "Timeouts":
        """The same with another `chunk_s`; None: the very same."""
        return self if chunk_s is None else replace(self, chunk_s=chunk_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """One `[providers.<alias>]` entry, resolved. The key is in no repr.

    `key_place` says where the key came from, for people: a variable's name, or a file. `card_of`
    tells of a model by its id; None: the catalogue does, for this type. `keep_alive` is for
    Ollama, `cache_ttl` for Anthropic. `script` is the file of a scripted provider, or the recording
    of a replayed one; `redact` is asked besides the key itself.
    """

    alias: str
    type: str
    base_url: str = ""
    api_key: str | None = field(default=None, repr=False)
    key_place: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_insecure: bool = False
    max_output_tokens: int | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    dialect: Dialect = field(default_factory=Dialect)
    card_of: CardOf | None = None
    keep_alive: str | None = None
    cache_ttl: str | None = None
    script: str | None = None
    redact: Redact = field(default=_unchanged, repr=False)

    def card(self, model: str) -> ModelCard:
        """What is known of the model with this id."""
        return self.card_of(model) if self.card_of is not None else lookup(self.type, model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A service and its wire format. `key_env`: variables that may hold its key, best first."""

    name: str
    make: Callable[[ProviderSettings, "HttpClient"], StreamFn]
    default_base_url: str = ""
    base_url_env: str = ""
    key_env: tuple[str, ...] = ()
    needs_key: bool = True

    def key_from(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """The first of `key_env` that is set and not empty."""
        return next((environment[name] for name in self.key_env if environment.get(name)), None)


def model_id(model: str) -> str:
    """The service's own name of `alias/id`; an id may hold slashes itself (`or/qwen/q3`)."""
    alias, slash, name = model.partition("/")
    return name if slash else alias


def is_loopback(host: str) -> bool:
    """Whether `host` can only mean this machine, without asking a name server."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_base_url(url: str, allow_insecure: bool = False) -> None:
    """Accept https anywhere and http to this machine; other http only if `allow_insecure`.

    Raises:
        ConfigError: naming what is wrong with `url`. Keys would travel readable otherwise.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"`base_url` {url!r} is no URL: {error}.") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise ConfigError(
            f"`base_url` {url!r} is no http or https URL.", hint="Write it as `https://host/path`."
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "`base_url` holds a user name or password.", hint="Give the key as `api_key_env`."
        )
    if parts.query or parts.fragment:
        raise ConfigError(
            f"`base_url` {url!r} has a query or fragment.", hint="Give the path only."
        )
    if any(ord(char) <= 32 or ord(char) == 127 for char in url):
        raise ConfigError(f"`base_url` {url!r} holds a blank or control character.")
    if parts.scheme == "http" and not allow_insecure and not is_loopback(host):
        raise ConfigError(
            f"`base_url` {url!r} would send the key unencrypted.",
            hint="Use https, or set `allow_insecure = true` if the network is yours.",
        )
