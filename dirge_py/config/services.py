"""The provider types: services that work without a `[providers]` entry, and those of packages.

The services are the rows of services.toml; an installed package adds types by entry points of the
group `dirge.providers`.
"""

import ipaddress
import os
import site
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import ConfigError
from dirge_py.types.llm import ThinkingLevel

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OFFLINE = ("scripted", "replay")
"""Types that make no requests."""
_LONGEST_DOMAIN = 24
"""Characters of a top-level domain, or of a host without one; with digits or hyphens, longer ones
are keys."""
GROUP = "dirge.providers"
"""The entry points of provider types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A row of services.toml: a provider type and its defaults."""

    type: str
    """Its name, which is also its alias by default."""
    speaks: str
    """The wire format it speaks."""
    label: str
    """Its name for people."""
    base_url: str
    """Its usual address."""
    key_env: tuple[str, ...] = ()
    """Variables that usually hold its key, best first."""
    base_url_env: tuple[str, ...] = ()
    """Variables that may name another address, best first."""
    default_model: str | None = None
    """The model used when none is named."""
    thinking: ThinkingLevel = "off"
    """The thinking level of its models, unless another is named."""
    families: tuple[str, ...] = ()
    """What the ids of its own models begin with."""
    local: bool = False
    """Whether it runs on this machine and needs no key."""
    only_at_home: bool = False
    """Whether it is chosen automatically only at its usual address."""
    dialect: Mapping[str, Any] = field(default_factory=dict)
    """Differences from the wire format."""

    @property
    def is_router(self) -> bool:
        """Whether it is known to serve models of other services, whose ids hold slashes."""
        return bool(self.base_url) and not self.local and not self.families

    def named_url(self, environment: Mapping[str, str]) -> tuple[str, str]:
        """The address that a variable names, and that variable; both empty if none is set."""
        for name in self.base_url_env:
            if value := environment.get(name):
                return ollama_url(value) if name == "OLLAMA_HOST" else value, name
        return "", ""


def _service(name: str, row: Mapping[str, Any]) -> Service:
    fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
    return Service(type=name, **fields)


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SERVICES = tuple(_service(name, row) for name, row in _ROWS.items())
"""All services; if nothing is configured, the first with a key is chosen."""
SERVICE_OF = {service.type: service for service in SERVICES}
PROVIDER_TYPES = (*SERVICE_OF, *OFFLINE)


def service_of(provider_type: str) -> Service:
    """The service of a provider type; one without defaults for offline types and packages."""
    known = SERVICE_OF.get(provider_type)
    return known or Service(type=provider_type, speaks=provider_type, label="", base_url="")


def wire_of(provider_type: str) -> str:
    """The wire format that a provider type speaks."""
    return service_of(provider_type).speaks


def base_url_problem(url: str, allow_insecure: bool = False) -> str | None:
    """Why `url` can't be a `base_url`, to follow its name; None if it can.

    Keys are sent to it, so it needs https, unless it is on this machine or `allow_insecure`.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        return f"must be a URL ({error})"
    if parts.scheme not in ("http", "https") or not host:
        return "must be an http or https URL"
    if is_key_in_host(host):
        return "contains what looks like a key: write only the URL"
    if parts.username is not None or parts.query or parts.fragment:
        return "must not contain a user name, query or fragment"
    if parts.scheme == "http" and not allow_insecure and not is_loopback(host):
        return "would send the key unencrypted: use https, or `allow_insecure = true`"
    return None


def is_key_in_host(host: str) -> bool:
    """Whether a key was pasted as the host, or behind its domain; a look-up would publish it."""
    last = host.rstrip(".").rpartition(".")[2]
    return len(last) > _LONGEST_DOMAIN and not last.isalpha() and not last.startswith("xn--")


def check_base_url(url: str, allow_insecure: bool = False, *, source: str = "`base_url`") -> None:
    """Raise a ConfigError unless requests can be sent to `url`, the value of `source`.

    Stricter than `base_url_problem`, because one wrong entry must not keep settings from loading.
    """
    problem = base_url_problem(url, allow_insecure)
    if problem is None and not _can_be_requested(url):
        problem = "must be an http or https URL"
    if problem:
        hint = "Write it as `https://host/path`; http works for this machine only."
        raise ConfigError(f"{source} {problem}.", hint=hint)


def _can_be_requested(url: str) -> bool:
    with suppress(ValueError):
        return urlsplit(url).port != 0 and url.isprintable() and " " not in url
    return False


def is_local(url: str) -> bool:
    """Whether `url` is an address of this machine."""
    return is_loopback(urlsplit(url).hostname or "")


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine, without asking a name server."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def ollama_url(host: str) -> str:
    """The address that `OLLAMA_HOST` means: host, host:port or URL; `0.0.0.0` is this machine."""
    scheme, slashes, rest = host.strip().rpartition("://")
    place, slash, path = rest.partition("/")
    name, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not colon:
        name, port = place, ""
    name = "127.0.0.1" if name in {"", "0.0.0.0", "[::]"} else name
    if not slashes:
        port = port or "11434"
    return f"{scheme or 'http'}://{name}{f':{port}' if port else ''}{slash}{path}".rstrip("/")


def installed_providers() -> Mapping[str, "EntryPoint"]:
    """The entry points by provider type; of several with one name, the first on `sys.path`.

    Nothing is imported. Packages that lie in the working folder or above it are left out: they
    belong to the project, unless Python itself is installed there.
    """
    from importlib import metadata

    folders = [folder for folder in sys.path if _is_installation(Path(folder))]
    found: dict[str, EntryPoint] = {}
    for package in metadata.distributions(path=folders):
        for entry in package.entry_points.select(group=GROUP):
            found.setdefault(entry.name, entry)
    return found


def package_of(entry: "EntryPoint") -> str:
    """The package that declares `entry`, for messages."""
    return f"package {entry.dist.name}" if entry.dist is not None else entry.value


def _is_installation(folder: Path) -> bool:
    try:
        here, real = Path.cwd(), folder.resolve()
    except OSError:  # also of a working folder that was removed
        return False
    own = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    if site.ENABLE_USER_SITE:
        own.append(site.getusersitepackages())
    if str(real) in {os.path.realpath(path) for path in own}:
        return True
    return not (real.is_relative_to(here) or here.is_relative_to(real))
