from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.tools.web.dns_guard import why_not_public

PUBLIC = """
8.8.8.8 1.1.1.1 2606:4700:4700::1111 2a00:1450:4001::200e ::ffff:8.8.8.8
64:ff9b::808:808 2002:808:808::1 2001:0:808:808::f7f7:f7f7"""

NOT_PUBLIC = """
0.0.0.0 10.1.2.3 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254
172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.7
203.0.113.9 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1 ::ffff:127.0.0.1
::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:7f00:1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
64:ff9b:1::1 100::1 2001::1 2001:0:7f00:1::f7f7:f7f7 2001:0:808:808::80ff:fffe 2001:db8::1
2001:10::1 2001:20::1 2002:7f00:1::1 2002:a00:1::1 2002:c0a8:101::1 3fff::1 5f00::1 fc00::1
fd12:3456::1 fe80::1 fec0::1 ff02::1 ff0e::1 2a00:1450::5efe:7f00:1 2a00:1450::200:5efe:a00:1
4000::1"""


@pytest.mark.parametrize("text", PUBLIC.split())
def test_public_addresses_are_allowed(text: str) -> None:
    assert why_not_public(ip_address(text)) == ""


@pytest.mark.parametrize("text", NOT_PUBLIC.split())
def test_private_and_special_addresses_are_refused(text: str) -> None:
    assert why_not_public(ip_address(text)) != ""


@given(st.ip_addresses(v=4))
def test_embedded_ipv4_address_is_judged_like_plain_ipv4_address(address) -> None:
    number = int(address)
    refused = bool(why_not_public(address))
    for carrier in ("::ffff:0:0", "64:ff9b::"):
        assert bool(why_not_public(ip_address(int(ip_address(carrier)) + number))) is refused
    assert bool(why_not_public(ip_address((0x2002 << 112) + (number << 80) + 1))) is refused


@given(st.ip_addresses())
def test_allowed_addresses_are_global_unless_they_embed_ipv4(address) -> None:
    carriers = [
        ip_network(net) for net in ("::ffff:0:0/96", "64:ff9b::/96", "2002::/16", "2001::/32")
    ]
    carries = any(address in net for net in carriers if net.version == address.version)
    if not why_not_public(address) and not carries:
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved
