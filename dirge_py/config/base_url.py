"""Which addresses of a service are acceptable."""

import ipaddress
from urllib.parse import urlsplit

from dirge_py.types.errors import ConfigError


def base_url_problem(url: str, allow_insecure: bool = False) -> str | None:
    """Why `url` cannot be used as a `base_url`, None if it can.

    Keys travel to it: so https, or http to this machine, or http because somebody says so.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        return f"no URL ({error})"
    if parts.scheme not in ("http", "https") or not host:
        return "no http or https URL"
    if parts.username is not None or parts.query or parts.fragment:
        return "may hold no user name, query or fragment"
    if parts.scheme == "http" and not allow_insecure and not is_loopback(host):
        return "would send the key unencrypted: use https, or `allow_insecure = true`"
    return None


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


def is_loopback(host: str) -> bool:
    """Whether `host` can only mean this machine, without asking a name server."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def ollama_url(host: str) -> str:
    """The address that `OLLAMA_HOST` means: a host, a host with its port, or a URL.

    A server listens at `0.0.0.0`; asked is this machine.
    """
    scheme, slashes, rest = host.strip().rpartition("://")
    place, slash, path = rest.partition("/")
    name, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not colon:
        name, port = place, ""
    name = "127.0.0.1" if name in {"", "0.0.0.0", "[::]"} else name
    if not slashes:
        port = port or "11434"
    return f"{scheme or 'http'}://{name}{f':{port}' if port else ''}{slash}{path}".rstrip("/")
