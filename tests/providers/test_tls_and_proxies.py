"""Certificates, proxies and host names, for every wire format."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dirge_py.providers.client import HttpClient
from tests.support.fake_service import FakeService, ModelReply, NoReply
from tests.support.provider_client import Client, text_of
from tests.support.requirements import lacking


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key, in one file."""
    if shutil.which("openssl") is None:
        lacking("openssl")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    key = file.with_name("key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_ssl_cert_file_variable_adds_trusted_certificate(
    http: HttpClient, tls: ssl.SSLContext, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with FakeService([ModelReply(text="Hello.")], tls=tls) as service:
        assert text_of(await Client(http, "openai", service).ask()) == "Hello."
        await http.aclose()


async def test_untrusted_certificate_is_error_with_hint(
    http: HttpClient, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with FakeService([ModelReply(text="Hello.")], tls=tls) as service:
        error = await Client(http, "openai", service).error()

        assert (error.kind, error.phase) == ("network", "establish")
        assert "secure connection" in error.message
        assert "SSL_CERT_FILE" in error.hint
        assert service.requests == []


async def test_unknown_host_name_is_retryable_error(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where name servers do not answer, the usual ten seconds would pass.
    monkeypatch.setenv("RES_OPTIONS", "timeout:1 attempts:1")
    with FakeService() as service:
        url = "https://no-such-host.invalid/v1"
        error = await Client(http, "openai", service).error(base_url=url)

    assert error.kind == "network"
    assert "no-such-host.invalid" in error.message
    assert error.is_retryable


@asynccontextmanager
async def proxy(to_port: int, *, drops: bool = False) -> AsyncIterator[tuple[str, list[str]]]:
    """A proxy that forwards everything to one local port; the first lines it received."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.partition(b"\r\n")[0].decode())
        if not drops:
            there, back = await asyncio.open_connection("127.0.0.1", to_port)
            back.write(head)
            async with asyncio.TaskGroup() as both:
                both.create_task(_carry(reader, back))
                await _carry(there, writer)
                writer.close()
                back.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass


THERE = {"base_url": "http://model.example/v1", "allow_insecure": True}


async def test_reset_connection_error_gives_system_message(http: HttpClient) -> None:
    with FakeService([NoReply(then="reset")]) as service:
        error = await Client(http, "openai", service).error()

    assert "broke off: Connection reset by peer." in error.message


async def test_http_proxy_variable_is_used(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeService([ModelReply(text="Hello.")]) as service:
        async with proxy(service.port) as (address, asked):
            monkeypatch.setenv("HTTP_PROXY", address)
            client = Client(http, "openai", service)
            assert text_of(await client.ask(**THERE)) == "Hello."
            await http.aclose()

    assert asked == ["POST http://model.example/v1/chat/completions HTTP/1.1"]
    assert service.requests[0].headers["host"] == "model.example"


async def test_proxy_that_hangs_up_is_retryable_error(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeService() as service:
        async with proxy(service.port, drops=True) as (address, asked):
            monkeypatch.setenv("HTTP_PROXY", address)
            error = await Client(http, "openai", service).error(**THERE)

    assert (error.kind, error.phase) == ("network", "establish")
    assert error.is_retryable
    assert len(asked) == 1


async def test_loopback_requests_bypass_proxy(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeService([ModelReply(text="Hello.")]) as service:
        async with proxy(service.port) as (address, asked):
            monkeypatch.setenv("HTTP_PROXY", address)
            monkeypatch.setenv("ALL_PROXY", address)
            assert text_of(await Client(http, "openai", service).ask()) == "Hello."

    assert asked == []
