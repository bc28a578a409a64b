"""Which hosts commands may reach, and at which addresses."""

import ipaddress
import re
from collections.abc import Iterable

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_WEB_PORTS = frozenset((80, 443))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Refused(Exception):
    """A host, port or address that is not to be reached; the message says which."""


class HostList:
    """Hosts as they are listed: `example.org`, `*.example.org` for all below it, or an address.

    At the ports 80 and 443, or at the one that is listed with it: `example.org:8443`.
    """

    def __init__(self, listed: Iterable[str]) -> None:
        """Raises `ValueError`: one of them is no host."""
        self._entries = [_entry(each) for each in listed]
        self._addresses = {name for name, _port in self._entries}

    def check_host(self, host: str, port: int) -> str:
        """The host in the form in which it is to be looked up.

        Raises:
            Refused: it is not listed.
        """
        try:
            name = plain(host)
        except ValueError:
            raise Refused(f"{host[:80]!r} is no host") from None
        for listed, listed_port in self._entries:
            is_port = port == listed_port if listed_port else port in _WEB_PORTS
            if is_port and _matches(name, listed):
                return name
        raise Refused(f"{name}:{port} is not listed in `[sandbox] hosts`")

    def check_address(self, text: str) -> None:
        """Return if a name may lead to this address: one of the internet, or one that is listed.

        Raises:
            Refused: it is an address of this machine or its own network.
        """
        address = ipaddress.ip_address(text.partition("%")[0])
        if not is_global(address) and str(address) not in self._addresses:
            raise Refused(f"{address} is in a network of your own and not listed")


def plain(host: str) -> str:
    """The host in lower-case ASCII without the last dot; addresses in their one usual form.

    Raises:
        ValueError: it is no host, or an address in an unusual form such as `127.1` or `0x7f000001`.
    """
    host = host.strip("[]") if host.startswith("[") else host
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    name = host.removesuffix(".")
    if not name.isascii():
        name = name.encode("idna").decode("ascii")
    labels = name.lower().split(".")
    if not all(_LABEL.fullmatch(label) for label in labels) or len(name) > 253:
        raise ValueError(host)
    # The last label decides: what ends in a number is read as an address by the system's resolver.
    if _NUMBER.fullmatch(labels[-1]):
        raise ValueError(host)
    return ".".join(labels)


def is_global(address: Address) -> bool:
    """Whether it is in the internet, also when one address is wrapped in another."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_global(inner)
    return address.is_global and not address.is_multicast


def _entry(listed: str) -> tuple[str, int]:
    host, port = listed.strip(), 0
    name, colon, digits = host.rpartition(":")
    if colon and digits.isdecimal() and (":" not in name or name.endswith("]")):
        host, port = name, int(digits)
    below = "*." if host.startswith("*.") else ""
    return below + plain(host.removeprefix("*.")), port


def _matches(name: str, listed: str) -> bool:
    if listed.startswith("*."):
        return name.endswith(listed[1:])
    return name == listed
