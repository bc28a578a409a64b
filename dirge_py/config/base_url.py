"""Which addresses of a service are acceptable."""

import ipaddress
from urllib.parse import urlsplit


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


def is_loopback(host: str) -> bool:
    """Whether `host` can only mean this machine, without asking a name server."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
