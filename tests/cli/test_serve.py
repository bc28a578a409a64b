"""`dirge serve`: access control, and the UI in a real browser."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dirge_py.cli.arguments import takes_only_flags
from dirge_py.cli.serve.command import serve
from dirge_py.cli.serve.server import RequestGuard
from dirge_py.types.errors import UsageError
from tests.support.requirements import lacking
from tests.support.terminal import LIMIT_S, ROOT, is_alive, until

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]


@pytest.mark.parametrize(
    ("rest", "fits"),
    [([], True), (["--port", "1"], True), (["-c"], True), (["the", "cake"], False)],
)
def test_serve_followed_by_words_is_a_prompt(rest: list[str], fits: bool) -> None:
    assert takes_only_flags(rest) == fits


@pytest.mark.parametrize(
    "rest", [["--host", "0.0.0.0"], ["-p", "hi"], ["--line"], ["--api-key-stdin"]]
)
def test_flags_that_cannot_be_served_are_refused(rest: list[str]) -> None:
    with pytest.raises(UsageError):
        serve(rest)


@pytest.mark.parametrize("port", ["x", "65536", "-1"])
def test_invalid_port_is_refused(port: str) -> None:
    with pytest.raises(UsageError, match=f"'{port}' is not a port: a number from 0 to 65535"):
        serve([f"--port={port}"])


HOST = {"Host": "127.0.0.1:8000"}


@pytest.mark.parametrize(
    ("headers", "is_page", "is_socket"),
    [
        (HOST, True, False),
        (HOST | {"Origin": "http://127.0.0.1:8000"}, True, True),
        (HOST | {"Origin": "http://127.0.0.1:9"}, False, False),
        (HOST | {"Origin": "https://evil.example"}, False, False),
        (HOST | {"Origin": "null"}, False, False),
        ({"Host": "evil.example:8000"}, False, False),
        ({"Host": "evil.example:8000", "Origin": "http://evil.example:8000"}, False, False),
        ({"Host": "127.0.0.1"}, False, False),
        ({}, False, False),
    ],
)
def test_requests_of_other_origins_or_hosts_are_rejected(
    headers: dict[str, str], is_page: bool, is_socket: bool
) -> None:
    gate = RequestGuard()
    gate.port = 8000
    assert gate.is_ours(headers, needs_origin=False) == is_page
    assert gate.is_ours(headers, needs_origin=True) == is_socket


def test_only_exact_token_is_accepted() -> None:
    gate = RequestGuard()
    wrong = [None, "", gate.token[:-1], gate.token + "x", "\udcff", RequestGuard().token]
    assert [gate.has_token(given) for given in wrong] == [False] * 6
    assert gate.has_token(gate.token)


class Served:
    """A running `dirge serve` whose model answers one prompt."""

    def __init__(self, home: Path) -> None:
        self._home = home
        (home / "replies.json").write_text(json.dumps({"replies": [{"text": "It is the linker."}]}))
        settings = home / ".config" / "dirge" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            '[providers.s]\ntype = "scripted"\nmodel = "m"\n'
            f'script = "{home / "replies.json"}"\n[session]\nsnapshots = false\n'
        )
        (home / "shop").mkdir()
        self.child = subprocess.Popen(
            [sys.executable, "-P", "-m", "dirge_py", "serve", "--port", "0", "-m", "s/m"],
            cwd=home / "shop",
            env={"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.child.stdout is not None
        self.address = self.child.stdout.readline().removeprefix("Open ").strip()
        self.base = f"http://{urlsplit(self.address).netloc}"
        self.token = urlsplit(self.address).fragment.removeprefix("token=")

    def status(self, path: str, **headers: str) -> int:
        request = urllib.request.Request(self.base + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def handshake(self, headers: dict[str, str]) -> str:
        """The response head of a WebSocket request, which is closed then."""
        place = urlsplit(self.base)
        assert place.hostname and place.port
        usual = {"Host": place.netloc, "Connection": "Upgrade", "Upgrade": "websocket"}
        usual |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        lines = [f"{name}: {value}\r\n" for name, value in (usual | headers).items()]
        with socket.create_connection((place.hostname, place.port), LIMIT_S) as connection:
            connection.sendall(f"GET /ws HTTP/1.1\r\n{''.join(lines)}\r\n".encode())
            answered = b""
            while b"\r\n\r\n" not in answered and (more := connection.recv(4096)):
                answered += more
        return answered.partition(b"\r\n\r\n")[0].decode() + "\r\n"

    def session_contains(self, text: str) -> bool:
        """Whether a session contains this text."""
        journals = self._home.glob(".local/state/dirge/sessions/*/*.jsonl")
        return any(text in journal.read_text() for journal in journals)

    @property
    def apps(self) -> list[int]:
        """The UI processes that run."""
        found = Path(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read_text()
        return [int(pid) for pid in found.split()]


@pytest.fixture
def served(home: Path) -> Iterator[Served]:
    served = Served(home)
    yield served
    served.child.kill()
    served.child.communicate(timeout=LIMIT_S)


OFFERED = "Sec-WebSocket-Protocol"


def test_only_page_is_served_without_token_and_contains_no_secret(
    served: Served,
) -> None:
    port = urlsplit(served.base).port
    token = served.token
    for path in ("/", "/page/page.js", "/page/page.css", "/static/js/textual.js"):
        with urllib.request.urlopen(served.base + path, timeout=LIMIT_S) as response:
            assert token not in response.read().decode()
            assert "Set-Cookie" not in response.headers
    assert [served.status(path) for path in ("/download/x", "/page/../gate.py")] == [404] * 2
    ours = {"Origin": served.base}
    assert served.status("/ws") == 403
    assert served.status("/ws", **ours) == 401
    assert served.status(f"/ws?token={token}", Cookie=f"dirge-{port}={token}", **ours) == 401
    for offered in ("dirge", "dirge, dirge.token.x", token, f"dirge.token.{token}"):
        assert served.status("/ws", **{OFFERED: offered}, **ours) == 401
    right = {OFFERED: f"dirge, dirge.token.{token}"}
    assert served.status("/ws", **right, Origin="https://evil.example") == 403
    assert served.status("/ws", **right, Origin=f"http://127.0.0.1:{port + 1}") == 403
    assert served.status("/", Host=f"evil.example:{port}") == 403
    answered = served.handshake(right | ours)
    assert answered.startswith("HTTP/1.1 101 ")
    assert f"{OFFERED}: dirge\r\n" in answered and token not in answered


def test_prompt_in_browser_is_answered_without_external_requests(
    served: Served,
) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        lacking("chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    asked: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        context = browser.new_context()
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(served.address)
        assert page.url == f"{served.base}/"
        page.wait_for_selector("body.-first-byte")
        assert context.cookies() == []
        page.reload()
        page.wait_for_selector("body.-first-byte")
        other = context.new_page()
        other.goto(served.base)
        other.wait_for_selector("body.-no-token .locked")
        other.close()
        page.keyboard.type("why?")
        page.keyboard.press("Enter")
        until(lambda: served.session_contains("It is the linker."))
        # The UI process of the first load has ended.
        until(lambda: len(served.apps) == 1)
        apps = served.apps
        served.child.send_signal(signal.SIGTERM)
        page.wait_for_selector("body.-closed")
        browser.close()

    assert served.child.wait(LIMIT_S) == 128 + signal.SIGTERM
    until(lambda: not any(map(is_alive, apps)))
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {
        urlsplit(served.base).netloc
    }
