"""Sandboxed commands reach only the listed hosts."""

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirge_py.processes.environment import EnvironmentPolicy
from dirge_py.processes.runner import Runner
from dirge_py.processes.sandbox.probe import find_sandbox
from dirge_py.processes.sandbox.profile import NoSandbox, SandboxProfile
from dirge_py.processes.sandbox.proxy import HostList, HostProxy, HostRefused, normalize_host
from tests.support.requirements import lacking

# --- names


LISTED = HostList(["pypi.org", "*.pythonhosted.org", "registry.example:8443", "BÜCHER.example"])


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("pypi.org", 443),
        ("PyPI.org.", 80),
        ("files.pythonhosted.org", 443),
        ("a.b.pythonhosted.org", 443),
        ("registry.example", 8443),
        ("bücher.example", 443),
        ("xn--bcher-kva.example", 443),
    ],
)
def test_listed_hosts_are_allowed(host, port):
    assert LISTED.check_host(host, port)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("pythonhosted.org", 443),
        ("evilpypi.org", 443),
        ("evilpythonhosted.org", 443),
        ("pypi.org.evil.example", 443),
        ("sub.pypi.org", 443),
        ("pypi.org", 22),
        ("registry.example", 443),
        ("pypi.org..", 443),
        ("pypi.org\x00.evil.example", 443),
        ("pypi.org@evil.example", 443),
        ("", 443),
        ("127.0.0.1", 443),
        ("127.1", 443),
        ("2130706433", 443),
        ("0x7f000001", 443),
        ("0x7f.0.0.0x1", 443),
        ("017700000001", 443),
        ("[::1]", 443),
        ("::ffff:127.0.0.1", 443),
        ("1.1.1.1", 443),
        ("localhost", 443),
    ],
)
def test_unlisted_hosts_are_refused(host, port):
    with pytest.raises(HostRefused):
        LISTED.check_host(host, port)


@given(st.text(max_size=40))
def test_normalized_host_is_stable_ascii(text):
    try:
        name = normalize_host(text)
    except ValueError:
        return
    assert normalize_host(name) == name
    assert name.isascii()
    assert not set(name) & set(" \t\r\n/@?#%\\\0")


@pytest.mark.parametrize("listed", ["*", "*.", "a..b", "127.1", "http://a.example", "a.*.example"])
def test_invalid_host_pattern_is_rejected(listed):
    with pytest.raises(ValueError):
        HostList([listed])


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1",
        "224.0.0.1", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "::ffff:10.0.0.1",
        "2002:7f00:1::", "64:ff9b::7f00:1", "ff02::1",
    ],
)  # fmt: skip
def test_listed_name_resolving_to_private_address_is_refused(address):
    with pytest.raises(HostRefused):
        LISTED.check_address(address)


def test_public_or_listed_address_is_allowed():
    HostList(["10.0.0.5"]).check_address("10.0.0.5")
    LISTED.check_address("151.101.0.223")
    LISTED.check_address("2a04:4e42::223")


# --- requests


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.path} for {self.headers['Host']} {self.headers['Proxy-Connection']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


Ask = Callable[[HostList, bytes], bytes]


@pytest.fixture
def ask() -> Iterator[Ask]:
    with ExitStack() as stack:

        def send(hosts: HostList, request: bytes) -> bytes:
            proxy = HostProxy(hosts)
            stack.callback(proxy.close)
            made = stack.enter_context(socket.socket(socket.AF_UNIX))
            made.settimeout(10)
            made.connect(proxy.path)
            made.sendall(request)
            answer = b""
            while chunk := made.recv(65536):
                answer += chunk
                if b"Connection established\r\n\r\n" in answer and b"/inner" not in answer:
                    made.sendall(b"GET /inner HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return answer

        yield send


def test_proxy_forwards_request_to_listed_host(ask, port):
    request = (
        f"GET http://localhost:{port}/a?b HTTP/1.1\r\nHost: other.example\r\n"
        "Proxy-Connection: keep-alive\r\n\r\n"
    ).encode()

    answer = ask(HostList([f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"]), request)

    assert answer.endswith(f"/a?b for localhost:{port} None".encode())


def test_proxy_tunnels_to_listed_host(ask, port):
    request = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode()

    assert b"/inner for x" in ask(HostList([f"127.0.0.1:{port}"]), request)


@pytest.mark.parametrize(
    "request_line",
    [
        "CONNECT 127.0.0.1:{port} HTTP/1.1",
        "CONNECT evil.example:443 HTTP/1.1",
        "CONNECT localhost:{port} HTTP/1.1",
        "GET http://127.0.0.1:{port}/ HTTP/1.1",
        "GET http://localhost:{port}@evil.example/ HTTP/1.1",
        "GET https://localhost:{port}/ HTTP/1.1",
        "GET file:///etc/passwd HTTP/1.1",
        "GET / HTTP/1.1",
        "nonsense",
        "CONNECT localhost HTTP/1.1",
        "CONNECT localhost:99999 HTTP/1.1",
    ],
)
def test_proxy_refuses_unlisted_hosts_and_invalid_requests(ask, port, request_line):
    request = request_line.format(port=port) + "\r\n\r\n"

    answer = ask(HostList([f"localhost:{port}"]), request.encode())

    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"dirge's sandbox" in answer


def test_closed_proxy_leaves_no_folder_or_thread():
    proxy = HostProxy(HostList([]))
    proxy.close()

    assert not Path(proxy.folder).exists()
    assert "sandbox proxy" not in {thread.name for thread in threading.enumerate()}


# --- from inside


@pytest.fixture
async def inside(home: Path, port: int) -> AsyncIterator[Callable[[str], object]]:
    work = home / "work"
    work.mkdir()
    hosts = (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}")
    found = find_sandbox(SandboxProfile(roots=(str(work),), home=str(home), hosts=hosts))
    if isinstance(found, NoSandbox) or found.kind != "bubblewrap":
        lacking("a working sandbox made with bubblewrap")
    runner = Runner(EnvironmentPolicy(), found.launcher)

    async def run(command: str) -> tuple[int | None, str]:
        finished = await runner.run(command, cwd=str(work), timeout_s=30)
        return finished.exit_code, finished.output.head.decode()

    yield run
    await runner.shutdown()
    found.close()


FETCH = (
    "unset NO_PROXY no_proxy; python3 -c 'import sys, urllib.request as r; "
    "print(r.urlopen(sys.argv[1], timeout=9).read().decode())' "
)


async def test_sandboxed_command_reaches_listed_host(inside, port):
    assert await inside(f"{FETCH} http://localhost:{port}/x; exit 3") == (
        3,
        f"/x for localhost:{port} None\n",
    )


async def test_sandboxed_command_cannot_reach_unlisted_host_or_connect_directly(inside, port):
    _, through = await inside(f"{FETCH} http://evil.example/")
    _, direct = await inside(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached")

    assert "403" in through
    assert "reached" not in direct


async def test_signal_that_ends_command_is_reported(inside):
    assert (await inside("kill -SEGV $$"))[0] == 139
