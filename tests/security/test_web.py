"""Addresses that are not public are never connected to, however they are spelled.

Two independent checks detect connections: servers that listen on the addresses of this machine, and
an audit hook that sees every connection of this process. The hook blocks connections to public
addresses, so nothing leaves the machine.
"""

import asyncio
import contextlib
import fcntl
import gzip
import ipaddress
import random
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from dirge_py.tools.web.dns_guard import PORTS, DnsGuard, resolve_host
from dirge_py.tools.web.service import WebService
from dirge_py.types.errors import ToolFailed
from tests.security.sizes import count, size
from tests.support.web_site import Reply, moved, serving

PUBLIC = "93.184.215.14"

HOSTS = """
localhost LOCALHOST localhost. localhost.localdomain ip6-localhost ip6-loopback foo.localhost
127.0.0.1 127.0.0.1. 127.1 127.0.1 127.00.00.01 0127.0.0.1 127.0.0.01 0177.0.0.1 0177.0.0.01 0x7f.1
0x7f.0.0.1 0x7F000001 0x7f000001 0X7F000001 2130706433 017700000001 02130706433 00000000177.0.0.1
127.0.0.1.5 127.0.0.256 127.127.127.127 127.255.255.254 0 0.0.0.0 00 0x0 0.0 0.0.0.0. 000.0.0.0
127.0.0.1%00 127.0.0.1%20 127.0.0.1%2f 127.0.0.1%00.example.com %31%32%37.0.0.1 localhost%00.a.com
%6c%6f%63alhost 127%2e0%2e0%2e1 127。0。0。1 127．0．0．1 127｡0｡0｡1 １２７.0.0.1 ①②⑦.⓪.⓪.①
⑯⑨。②⑤④。⑯⑨｡②⑤④
ⓛⓞⓒⓐⓛⓗⓞⓢⓣ loc\u00adalhost loc\u200balhost lo\u2060calhost \u202elocalhost localhost\u3002 ｌocalhost
[::1] [0:0:0:0:0:0:0:1] [0000::0001] [::] [::0] [::127.0.0.1] [::ffff:127.0.0.1] [::ffff:7f00:1]
[::FFFF:127.0.0.1] [0:0:0:0:0:ffff:127.0.0.1] [::ffff:0:127.0.0.1] [::ffff:0.0.0.0] [::1%25lo]
[::1%lo] [fe80::1%25eth0] [fe80::1] [fd00::2] [fc00::1] [ff02::1] [fec0::1] [2001:db8::1]
[64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b:1::7f00:1] [64:ff9b::169.254.169.254]
[2002:7f00:1::] [2002:7f00:0001::1] [2002:a9fe:a9fe::] [2001:0:7f00:1::f7f7:f7f7]
[2001:0:808:808::80ff:fffe] [2a00:1450::5efe:7f00:1] [::ffff:a9fe:a9fe] [fd00:ec2::254] [::1
::1] [127.0.0.1] [localhost] [v1.127.0.0.1] [::1]x [::1].example.com
169.254.169.254 169.254.43518 0xa9fea9fe 2852039166 0251.0376.0251.0376 0xa9.0xfe.0xa9.0xfe
169.254.169.254. metadata.google.internal instance-data 100.100.100.200 168.63.129.16.
10.0.0.1 10.1 012.0.0.1 0xa000001 172.16.0.1 172.31.255.254 192.168.0.1 192.168.1 3232235521
0300.0250.0.1 192.0.0.192 192.0.2.2 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 100.64.0.1
224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 4294967295 -1 1e3 ０x7f.1 127.0.0.1,example.com
example.com@127.0.0.1 127.0.0.1@ user:pw@localhost @127.0.0.1 example.com%40127.0.0.1
example.com@@127.0.0.1 127.0.0.1\\@example.com example.com\\@127.0.0.1 example.com;127.0.0.1
127.0.0.1:80:8080 127.0.0.1:+80 127.0.0.1:080 127.0.0.1:٨٠ 127.0.0.1:0 127.0.0.1:22 127.0.0.1:99999
localhost:6379 any.example trap.example 127.0.0.1.nip.io a..b -a.example
xn--a .localhost localhost..
"""
"""Hosts as they may stand in a URL; every name leads to this machine."""

URLS = """
http:127.0.0.1 http:/127.0.0.1 http:///127.0.0.1 http:\\\\127.0.0.1 http:/\\127.0.0.1 //127.0.0.1/
\\\\127.0.0.1\\x 127.0.0.1 localhost:8080 file:///etc/passwd ftp://127.0.0.1/ gopher://127.0.0.1:8080/_x
dict://127.0.0.1:8080/ ws://127.0.0.1/ data:text/html,x javascript:x jar:http://127.0.0.1!/ HTTP+unix://x
http://127.0.0.1#@example.com/ http://example.com#@127.0.0.1/ http://127.0.0.1?@example.com/
http://127.0.0.1;x=@example.com/ http://127.0.0.1#\\@example.com/ http://[127.0.0.1 http://]/ http://:80/
url:http://127.0.0.1/ http://http://127.0.0.1/ http://127.0.0.1&@example.com# http://1.1.1.1&@127.0.0.1#x
"""
BLANKS = ["http://127.0.0.1\t/", " http://127.0.0.1/", "http://127.0.0.1 /", "ht\ntp://127.0.0.1/"]
BLANKS += [
    "http://\r127.0.0.1/",
    "http://127.0.0.1\0.example.com/",
    "http://example.com \0@127.0.0.1/",
]


def spellings() -> list[str]:
    hosts = HOSTS.split()
    whole = [*URLS.split(), *BLANKS]
    return [
        *(f"http://{host}/" for host in hosts),
        *whole,
        *(f"https://{host}:8443" for host in hosts),
    ]


class Witness:
    """Counts TCP connections, and those to addresses that are not public."""

    def __init__(self) -> None:
        self.is_watching = False
        self.begun: list[str] = []
        self.allowed: set[int] = set()

    def see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "socket.connect" or not self.is_watching:
            return
        endpoint, address = arguments
        if endpoint.type != socket.SOCK_STREAM or endpoint.family == socket.AF_UNIX:
            return
        if address[1] in self.allowed:
            return
        self.begun.append(address[0])
        raise OSError("This connection is only written down.")

    @property
    def strays(self) -> list[str]:
        return [text for text in self.begun if not ipaddress.ip_address(text).is_global]


_WITNESS = Witness()
_INSTALLED: list[Witness] = []


@pytest.fixture
def witness() -> Iterator[Witness]:
    if not _INSTALLED:
        sys.addaudithook(_WITNESS.see)  # stays until the process ends
        _INSTALLED.append(_WITNESS)
    _WITNESS.begun, _WITNESS.allowed = [], set()
    _WITNESS.is_watching = True
    try:
        yield _WITNESS
    finally:
        _WITNESS.is_watching = False


@contextlib.asynccontextmanager
async def traps() -> AsyncIterator[list[str]]:
    """Listens on every address of this machine on the allowed ports; yields the connections.

    Tests that run beside this one wait for their turn: nobody walks into another's trap.
    """
    caught: list[str] = []

    def came(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caught.append(str(writer.get_extra_info("sockname")))
        writer.close()

    with _turn():
        servers = []
        for port in sorted(PORTS):
            for host in ("0.0.0.0", "::"):
                # Some may be taken, or not ours to take.
                with contextlib.suppress(OSError):
                    servers.append(await asyncio.start_server(came, host, port))
        assert servers, "no trap could be set"
        try:
            yield caught
        finally:
            for server in servers:
                server.close()


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    with open(__file__) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


async def leads_home(host: str, port: int) -> Sequence[str]:
    """A name server that resolves every name to this machine."""
    if "localhost" in host:
        return await resolve_host(host, port)
    return ["127.0.0.1", "::1"]


async def outcome(web: WebService, url: str) -> str:
    """The result of fetching `url`: the refusal, or the text."""
    try:
        page = await web.page(web.target(url))
    except ToolFailed as error:
        return f"refused: {error}"
    return f"moved: {page.moved_to}" if page.moved_to else f"read: {page.text}"


async def test_d57_no_spelling_of_an_address_reaches_a_private_host(witness: Witness) -> None:
    web = WebService(DnsGuard(resolve=leads_home))
    tried = spellings()
    assert len(set(tried)) >= 120
    async with traps() as caught:
        outcomes = [await outcome(web, url) for url in tried]
    let_in = [pair for pair in zip(tried, outcomes, strict=True) if "refused" not in pair[1]]
    count("SSRF", len(tried), len(witness.begun) + len(caught))
    assert let_in == []
    assert witness.begun == []
    assert caught == []


async def test_witness_and_traps_notice_connections(witness: Witness) -> None:
    async with traps() as caught:
        listed = WebService(DnsGuard(["127.0.0.1"]))
        assert "refused" in await outcome(listed, "http://127.0.0.1/")
        assert witness.begun == ["127.0.0.1"]
        witness.allowed = set(PORTS)
        for port in sorted(PORTS):
            await outcome(listed, f"http://127.0.0.1:{port}/")
        witness.allowed = set()
        await outcome(WebService(DnsGuard()), f"http://{PUBLIC}/")
    assert caught != []
    assert witness.begun == ["127.0.0.1", PUBLIC]


async def test_host_name_is_resolved_once_for_check_and_connection(witness: Witness) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return [PUBLIC] if len(asked) % 2 else ["127.0.0.1"]

    web = WebService(DnsGuard(resolve=rebinding))
    rounds = size(10, 1000)
    async with traps() as caught:
        for _ in range(rounds):
            await outcome(web, "http://rebind.example/")
    assert len(asked) == rounds
    assert witness.begun == [PUBLIC] * (rounds // 2)
    count("SSRF rebinding", rounds, len(witness.strays) + len(caught))
    assert witness.strays == []
    assert caught == []


async def test_host_with_any_private_address_is_refused(
    witness: Witness,
) -> None:
    dice = random.Random(5)
    good = [PUBLIC, "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"]
    bad = [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "fd00::2",
        "fe80::1",
    ]
    bad += ["169.254.169.254", "2002:7f00:1::1", "100.64.0.1", "0.0.0.0", "224.0.0.1", "not one"]
    mixture: list[str] = []

    async def mixed(host: str, port: int) -> Sequence[str]:
        return mixture

    web = WebService(DnsGuard(resolve=mixed))
    rounds = size(100, 5000)
    spoilt = 0
    async with traps() as caught:
        for _ in range(rounds):
            mixture = dice.sample(good, dice.randint(0, 3)) + dice.sample(bad, dice.randint(0, 2))
            dice.shuffle(mixture)
            before = len(witness.begun)
            await outcome(web, "http://mixed.example/")
            if not set(mixture) <= set(good):
                spoilt += len(witness.begun) - before
    assert witness.begun != []
    count("SSRF mixed answers", rounds, spoilt + len(caught))
    assert spoilt == 0
    assert caught == []


async def test_redirect_to_a_private_host_is_refused(witness: Witness) -> None:
    places = [url for url in spellings() if url.isprintable()][:: size(4, 1)]
    async with serving({}) as site, traps() as caught:
        witness.allowed = {site.port}
        web = WebService(DnsGuard([site.place], resolve=leads_home))
        for number, url in enumerate(places):
            site.pages[f"/{number}"] = moved(f"/{number}/again", 307)
            site.pages[f"/{number}/again"] = Reply(
                status=302, headers={"Location": url.encode().decode("latin-1")}
            )
        outcomes = [await outcome(web, f"{site.url}/{number}") for number in range(len(places))]
    read = [pair for pair in zip(places, outcomes, strict=True) if pair[1].startswith("read")]
    count("SSRF redirects", len(places), len(witness.begun) + len(caught))
    assert read == []
    assert witness.begun == []
    assert caught == []


async def test_every_redirect_of_a_chain_is_resolved_and_judged(witness: Witness) -> None:
    answers = [["127.0.0.1"], ["127.0.0.1"], []]
    asked: list[str] = []

    async def forgetful(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    async with serving({"/1": moved("/2"), "/2": moved("/3"), "/3": "secret"}) as site:
        witness.allowed = {site.port}
        web = WebService(DnsGuard([f"chain.example:{site.port}"], resolve=forgetful))
        answer = await outcome(web, f"http://chain.example:{site.port}/1")
    assert "not known" in answer
    assert [each.path for each in site.requests] == ["/1", "/2"]


def bomb(megabytes: int) -> Reply:
    """Zeros that unpack to a thousand times their size."""
    packed = gzip.compress(bytes(1024 * 1024), 9)
    return Reply(
        body=packed, chunks=megabytes, type="text/plain", headers={"Content-Encoding": "gzip"}
    )


BOMBS = {
    "zeros": bomb(size(40, 2000)),
    "just below the ratio limit": Reply(
        body=gzip.compress(b"0" * 4000 + random.Random(1).randbytes(20).hex().encode(), 9),
        chunks=size(8_000, 1_000_000),
        type="text/plain",
        headers={"Content-Encoding": "gzip"},
    ),
    "uncompressed": Reply(body=b"x" * 1024 * 1024, chunks=size(40, 2000), type="text/plain"),
}


@pytest.mark.parametrize("name", BOMBS)
async def test_compression_bomb_uses_bounded_memory(name: str) -> None:
    async with serving({"/": BOMBS[name]}) as site:
        web = WebService(DnsGuard([site.place]))
        await outcome(web, f"{site.url}/warm-up")
        tracemalloc.start()
        try:
            answer = await outcome(web, site.url)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    count(f"bomb: {name}", 1, peak // 2**20, "MB at most")
    assert peak < 50 * 2**20
    assert ("more than 100 times its size" in answer) is (name == "zeros")


PAGES = {
    "elements": "'<b><p>' * 300_000",
    "quotations": "'<blockquote><p>a</p>' * 100_000",
    "tables": "'<table><tr><td>' * 100_000",
    "brackets": "'<' * 2_000_000",
}
PARSE = """
import resource
import sys

from dirge_py.tools.web.markdown import html_to_markdown
from dirge_py.tools.web.url import parse_url
source = parse_url("http://a.example")
html_to_markdown("<table><tr><td>a<td>b", source)
page = {page}

def peak_kb():
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    # Not ru_maxrss, which begins with what the parent had.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

before = peak_kb()
html_to_markdown(page, source)
print((peak_kb() - before) // 1024)
"""


@pytest.mark.parametrize("name", list(PAGES)[: size(1, len(PAGES))])
def test_endless_page_uses_bounded_memory(name: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", PARSE.format(page=PAGES[name])],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    grown = int(child.stdout)
    count(f"page: {name}", 1, grown, "MB at most")
    assert 0 < grown < 50
