"""The addresses that the web transport connects to, and the host names it sends."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dirge_py.tools.web.dns_guard import DnsGuard, is_own_address
from dirge_py.tools.web.transport import GuardedTransport
from dirge_py.tools.web.url import OutgoingRequest, parse_url
from dirge_py.types.errors import ToolFailed
from tests.support.requirements import lacking
from tests.support.web_site import Reply, serving


class FakeResolver:
    """A name server with scripted answers; the last one repeats."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


async def body_of(
    transport: GuardedTransport, url: str, outgoing: OutgoingRequest | None = None
) -> bytes:
    async with transport.send(parse_url(url), outgoing) as response:
        return await response.aread()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificate and key for pinned.example, in one file."""
    if shutil.which("openssl") is None:
        lacking("openssl")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    subprocess.run(
        [
            *command.split(),
            *("-subj", "/CN=pinned.example", "-addext", "subjectAltName=DNS:pinned.example"),
            *("-keyout", "key.pem", "-out", "cert.pem"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return both


def server_side(certificate: Path, names: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    return context


async def test_connection_uses_checked_address_and_sends_host_name(certificate: Path) -> None:
    shown: list[str] = []
    names = FakeResolver(["127.0.0.1"])
    trust = ssl.create_default_context(cafile=str(certificate))
    async with serving({"/": "secret"}, tls=server_side(certificate, shown)) as site:
        place = f"pinned.example:{site.port}"
        transport = GuardedTransport(DnsGuard([place], resolve=names), tls=trust)
        body = await body_of(transport, f"https://{place}/")
    assert body == b"secret"
    assert shown == ["pinned.example"]
    assert site.requests[0].headers["host"] == place
    assert names.asked == ["pinned.example"]


async def test_certificate_for_other_name_is_refused(certificate: Path) -> None:
    trust = ssl.create_default_context(cafile=str(certificate))
    async with serving({"/": "secret"}, tls=server_side(certificate, [])) as site:
        place = f"other.example:{site.port}"
        transport = GuardedTransport(
            DnsGuard([place], resolve=FakeResolver(["127.0.0.1"])), tls=trust
        )
        with pytest.raises(ToolFailed, match=r"other\.example has no valid certificate"):
            await body_of(transport, f"https://{place}/")
    assert site.requests == []


async def test_one_private_address_among_public_ones_is_refused() -> None:
    for answer in (["127.0.0.1"], ["93.184.215.14", "10.0.0.1"], ["2606:4700::1", "::1"]):
        reach = DnsGuard(resolve=FakeResolver(answer))
        with pytest.raises(ToolFailed, match="not a public address"):
            await reach.addresses(parse_url("http://a.example/"))


async def test_unreachable_address_is_skipped() -> None:
    async with serving({"/": "here"}) as site:
        place = f"two.example:{site.port}"
        names = FakeResolver(["127.0.0.2", "127.0.0.1"])
        assert (
            await body_of(GuardedTransport(DnsGuard([place], resolve=names)), f"http://{place}")
            == b"here"
        )


async def test_ipv4_and_ipv6_addresses_are_tried() -> None:
    if not socket.has_ipv6:
        lacking("IPv6")
    async with serving({"/": "here"}, host="::1") as site:
        place = f"six.example:{site.port}"
        names = FakeResolver([*(f"127.0.0.{number}" for number in range(2, 9)), "::1"])
        assert (
            await body_of(GuardedTransport(DnsGuard([place], resolve=names)), f"http://{place}")
            == b"here"
        )


async def test_proxy_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving({"/": "direct"}) as site, serving({}) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert await body_of(GuardedTransport(DnsGuard([site.place])), site.url) == b"direct"
    assert proxy.connections == 0


async def test_configured_proxy_gets_host_name() -> None:
    async with serving({"http://far.example/x": "through"}) as proxy:
        reach = DnsGuard(resolve=FakeResolver([]), is_proxied=True)
        body = await body_of(GuardedTransport(reach, proxy=proxy.url), "http://far.example/x")
    assert body == b"through"
    assert proxy.requests[0].headers["host"] == "far.example"


async def test_private_hosts_are_not_sent_to_proxy() -> None:
    async with serving({}) as proxy, serving({"/": "own"}) as site:
        transport = GuardedTransport(
            DnsGuard([site.place], resolve=FakeResolver(["10.1.1.1"]), is_proxied=True),
            proxy=proxy.url,
        )
        for url in (
            "http://intra.example/",
            "http://localhost/",
            "http://x.internal/",
            "http://db/",
        ):
            with pytest.raises(ToolFailed, match="is not fetched"):
                await body_of(transport, url)
        assert await body_of(transport, site.url) == b"own"
    assert proxy.connections == 0


async def test_private_host_exception_applies_only_to_listed_host_and_port() -> None:
    with_port = DnsGuard(
        ["127.0.0.1:9999", "Intra.Example", "::1"], resolve=FakeResolver(["10.0.0.1"])
    )
    for url in ("http://127.0.0.1:9999/", "http://intra.example:8080/", "http://[::1]/"):
        assert await with_port.addresses(parse_url(url))
    for url in ("http://127.0.0.1/", "http://intra.example:9999/", "http://sub.intra.example/"):
        with pytest.raises(ToolFailed, match="is not fetched"):
            await with_port.addresses(parse_url(url))


@pytest.mark.parametrize("entry", ["a b", "http://x", "x/y", "x/", "", "me@x", "x:99999"])
def test_invalid_private_host_is_refused(entry: str) -> None:
    with pytest.raises(ToolFailed):
        DnsGuard([entry])


def test_own_addresses_are_recognized() -> None:
    assert is_own_address(parse_url("http://127.0.0.1").address)
    assert not is_own_address(parse_url("http://192.0.2.1").address)


async def test_cancelled_fetch_closes_connection() -> None:
    async with serving({"/": Reply(body="begun", stalls=True)}) as site:
        transport = GuardedTransport(DnsGuard([site.place]))
        task = asyncio.ensure_future(body_of(transport, site.url))
        while not site.requests:
            await asyncio.wait({task}, timeout=0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        # The site's handler ends only when the client has closed the connection.
        await asyncio.wait_for(asyncio.gather(*site.open), 5)
    assert site.open == set()
