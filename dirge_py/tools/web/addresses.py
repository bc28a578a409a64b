"""Which addresses may be connected to: those of the public internet, and what the person listed."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from dirge_py.tools.web.url import IPAddress

# The IANA registries of special-purpose addresses, multicast, and the one address at which a cloud
# (Azure) talks to its machines although it looks public. Written down here because
# `is_global` of the standard library changes between patch releases.
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

# Prefixes behind which an IPv4 address is reached, and how far left of the end it stands, in bits.
_CARRIERS = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
_TEREDO = IPv6Network("2001::/32")
_ISATAP = (0x00005EFE, 0x02005EFE)


def refusal_of(address: IPAddress) -> str:
    """What `address` is instead of a public one; empty if it may be connected to.

    An IPv6 address that carries an IPv4 address is what it carries.
    """
    if isinstance(address, IPv4Address):
        named = next((name for net, name in _SPECIAL_IPV4.items() if address in net), "")
        return named or ("" if address.is_global else "not public")
    carried = carried_by(address)
    if any(refusal_of(each) for each in carried):
        return next(refusal for each in carried if (refusal := refusal_of(each)))
    if any(address in net for net, _ in _CARRIERS) or address in _TEREDO:
        return ""
    named = next((name for net, name in _SPECIAL_IPV6.items() if address in net), "")
    return named or ("" if address in _GLOBAL_IPV6 and address.is_global else "not public")


def carried_by(address: IPv6Address) -> Sequence[IPv4Address]:
    """The IPv4 addresses that packets to `address` are handed on to."""
    number = int(address)
    if address in _TEREDO:
        return (_low_32(number >> 64), _low_32(~number))
    carried = [_low_32(number >> shift) for net, shift in _CARRIERS if address in net]
    if (number >> 32) & 0xFFFFFFFF in _ISATAP:
        carried.append(_low_32(number))
    return carried


def _low_32(number: int) -> IPv4Address:
    return IPv4Address(number & 0xFFFFFFFF)
