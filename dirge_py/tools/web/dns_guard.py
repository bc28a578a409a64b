"""Decides which hosts may be reached: public addresses, and hosts that the user listed.

Names are looked up once, and every address is checked.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

from dirge_py.tools.threads import run_in_daemon_thread
from dirge_py.tools.web.url import IPAddress, ParsedUrl, parse_url
from dirge_py.types.errors import ToolFailed

PORTS = frozenset((80, 443, 8080, 8443))
_MAX_ADDRESSES = 64
"""More than any site has; each one needs a lookup in the routing table."""
_LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".intranet", ".home.arpa", ".lan")
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves host name and port to addresses as text. Raises OSError if there are none."""


class DnsGuard:
    """Checks targets. `private_hosts` are the hosts of the user's own network.

    An entry `host` allows the usual ports of that host although its addresses are not public,
    `host:port` only that port. With `is_proxied` a name that cannot be resolved here is left to the
    proxy; one that can be resolved must be public.
    """

    def __init__(
        self,
        private_hosts: Sequence[str] = (),
        *,
        resolve: Resolve | None = None,
        is_proxied: bool = False,
    ) -> None:
        self._listed = {_parse_listed_host(entry) for entry in private_hosts}
        self._resolve = resolve or resolve_host
        self._is_proxied = is_proxied

    def is_private(self, target: ParsedUrl) -> bool:
        """Whether the user listed this host as private."""
        if (target.host, target.port) in self._listed:
            return True
        return target.port in PORTS and (target.host, None) in self._listed

    def admit(self, target: ParsedUrl) -> None:
        """Raise ToolFailed if the port or address is not allowed, without looking up the name."""
        if self.is_private(target):
            return
        if target.port not in PORTS:
            raise ToolFailed(
                f"{target} is not fetched: port {target.port} is none of "
                f"{', '.join(map(str, sorted(PORTS)))}. {_EXCEPTION}"
            )
        if target.address is not None:
            _check_public(target, [target.address])
        elif self._is_proxied and is_local_target(target):
            raise ToolFailed(f"{target} is not fetched: it names a local host. {_EXCEPTION}")

    async def addresses(self, target: ParsedUrl) -> Sequence[IPAddress]:
        """Return the checked addresses, best first; none if only the proxy can resolve the name."""
        self.admit(target)
        if target.address is not None:
            return (target.address,)
        try:
            texts = await self._resolve(target.host, target.port)
            addresses = [ip_address(text) for text in dict.fromkeys(texts)][:_MAX_ADDRESSES]
        except (OSError, ValueError):
            addresses = []
        if not addresses:
            if self._is_proxied and not self.is_private(target):
                return ()
            raise ToolFailed(f"The host {target.host} is not known. Check its spelling.")
        if not self.is_private(target):
            _check_public(target, addresses)
        return addresses


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the system's addresses for `host`. Raises OSError."""
    places = await run_in_daemon_thread(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    return [str(place[4][0]) for place in places]


def is_own_address(address: IPAddress) -> bool:
    """Whether `address` is one of this machine's. Sends nothing.

    Through its public address, a service of this machine could be reached past the firewall.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return str(ip_address(probe.getsockname()[0])) == str(address)
    except OSError:
        return False


_EXCEPTION = "Only the user can allow it: `private_hosts` under `[web]` in the settings."


def _check_public(target: ParsedUrl, addresses: Sequence[IPAddress]) -> None:
    for address in addresses:
        refusal = why_not_public(address) or ("this machine" if is_own_address(address) else "")
        if refusal:
            leads = "" if target.address is not None else f"{target.host} leads to {address}: "
            raise ToolFailed(
                f"{target} is not fetched: {leads}not a public address ({refusal}). {_EXCEPTION}"
            )


def is_local_target(target: ParsedUrl) -> bool:
    """Whether `target` is in the user's own network, as far as its text shows."""
    if target.address is not None:
        return bool(why_not_public(target.address))
    return "." not in target.host or target.host.endswith(_LOCAL_ENDINGS)


def _parse_listed_host(entry: str) -> tuple[str, int | None]:
    """Return host, and port or None, of one entry. Raises ToolFailed if it is invalid."""
    try:
        written = f"[{IPv6Address(entry)}]"
    except ValueError:
        written = entry
    target = parse_url(f"http://{written}")
    has_port = written.rpartition("]")[2].count(":") == 1
    if target.path != "/" or written.endswith("/"):
        raise ToolFailed(f"{entry!r} is not a host: write `host` or `host:port`.")
    return target.host, target.port if has_port else None


# The IANA registries of special-purpose addresses, multicast, and the one address at which a cloud
# (Azure) talks to its machines although it looks public. Listed here because `is_global` of the
# standard library changes between patch releases.
_SPECIAL_IPV4 = {
    IPv4Network("0.0.0.0/8"): "this network",
    IPv4Network("10.0.0.0/8"): "a private network",
    IPv4Network("100.64.0.0/10"): "a provider's private network",
    IPv4Network("127.0.0.0/8"): "this machine",
    IPv4Network("168.63.129.16/32"): "a service of the cloud this machine may be in",
    IPv4Network("169.254.0.0/16"): "the local link",
    IPv4Network("172.16.0.0/12"): "a private network",
    IPv4Network("192.0.0.0/24"): "reserved",
    IPv4Network("192.0.2.0/24"): "for documentation",
    IPv4Network("192.88.99.0/24"): "a relay",
    IPv4Network("192.168.0.0/16"): "a private network",
    IPv4Network("198.18.0.0/15"): "for benchmarks",
    IPv4Network("198.51.100.0/24"): "for documentation",
    IPv4Network("203.0.113.0/24"): "for documentation",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("240.0.0.0/4"): "reserved",
}
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_SPECIAL_IPV6 = {
    IPv6Network("::1/128"): "this machine",
    IPv6Network("fc00::/7"): "a private network",
    IPv6Network("fe80::/10"): "the local link",
    IPv6Network("ff00::/8"): "multicast",
    IPv6Network("2001::/23"): "reserved",
    IPv6Network("2001:db8::/32"): "for documentation",
    IPv6Network("3fff::/20"): "for documentation",
}

# Prefixes whose addresses contain an IPv4 address, and its distance from the end in bits.
_CARRIERS = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
_TEREDO = IPv6Network("2001::/32")
_ISATAP = (0x00005EFE, 0x02005EFE)


def why_not_public(address: IPAddress) -> str:
    """Return what kind of non-public address this is, or contains; "" if it is public."""
    if isinstance(address, IPv4Address):
        named = next((name for net, name in _SPECIAL_IPV4.items() if address in net), "")
        return named or ("" if address.is_global else "not public")
    if refusal := next(filter(None, map(why_not_public, embedded_ipv4(address))), ""):
        return refusal
    if any(address in net for net, _ in _CARRIERS) or address in _TEREDO:
        return ""
    named = next((name for net, name in _SPECIAL_IPV6.items() if address in net), "")
    return named or ("" if address in _GLOBAL_IPV6 and address.is_global else "not public")


def embedded_ipv4(address: IPv6Address) -> Sequence[IPv4Address]:
    """Return the IPv4 addresses that packets to `address` are forwarded to."""
    number = int(address)
    if address in _TEREDO:
        return (_low_32(number >> 64), _low_32(~number))
    carried = [_low_32(number >> shift) for net, shift in _CARRIERS if address in net]
    if (number >> 32) & 0xFFFFFFFF in _ISATAP:
        carried.append(_low_32(number))
    return carried


def _low_32(number: int) -> IPv4Address:
    return IPv4Address(number & 0xFFFFFFFF)
