"""Commands in a sandbox, in the whole program."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dirge_py.processes.sandbox.probe import find_sandbox
from dirge_py.processes.sandbox.profile import Sandbox, SandboxProfile
from tests.support.fake_service import ModelReply
from tests.support.product import Product
from tests.support.requirements import lacking


@pytest.fixture(autouse=True)
def _works(tmp_path: Path) -> None:
    (tmp_path / "probe").mkdir()
    project = SandboxProfile(roots=(str(tmp_path / "probe"),), home=str(tmp_path / "home"))
    found = find_sandbox(project)
    if not isinstance(found, Sandbox):
        lacking("a working sandbox")
    found.close()


def bash(command: str) -> ModelReply:
    return ModelReply(calls=[("bash", {"command": command})])


def test_sandboxed_test_runner_runs_without_question(product: Product) -> None:
    product.file("test_it.py", "def test_it():\n    assert True\n")
    product.will(bash("python -m pytest -q -p no:xdist"), ModelReply(text="done"))

    result = product.ask("--sandbox", "required", "x")

    assert result.exit_code == 0
    assert result.json["permission_denials"] == []
    assert "1 passed" in product.sent()[-1]["content"]


def test_test_runner_without_sandbox_asks(product: Product) -> None:
    product.will(bash("python -m pytest -q"), ModelReply(text="done"))

    assert product.ask("x").json["permission_denials"]


def test_allowed_command_stays_restricted_by_sandbox(product: Product) -> None:
    (product.home / ".ssh").mkdir()
    (product.home / ".ssh/id").write_text("canary-ssh")
    command = f"cat ~/.ssh/id {product.config_dir}/config.toml; touch .git/hooks/pre-commit; ls"
    product.will(bash(command), ModelReply(text="done"))

    result = product.ask("--sandbox", "required", "--yolo", "x")

    assert result.exit_code == 0
    assert "canary-ssh" not in product.sent_text()
    assert "api_key_env" not in product.sent_text()
    assert not (product.project / ".git/hooks/pre-commit").exists()
    assert [path.name for path in product.project.iterdir()] == [".git"]


def test_symlink_made_in_sandbox_allows_no_write_outside(product: Product) -> None:
    theirs = product.home / "theirs.txt"
    theirs.write_text("theirs")
    product.file(
        "test_it.py",
        f"import os\ndef test_it():\n    os.symlink({str(theirs)!r}, 'way.txt')\n"
        f"    os.symlink({str(product.home)!r}, 'way')\n",
    )
    writes = [("write", {"path": path, "content": "x"}) for path in ("way.txt", "way/new.txt")]
    command = "python -m pytest -q -p no:xdist -p no:cacheprovider"
    product.will(bash(command), ModelReply(calls=writes), ModelReply(text="done"))

    result = product.ask("--sandbox", "required", "--accept-all", "--allow", "edit:**", "x")

    assert "1 passed" in product.sent(1)[-1]["content"]
    assert (product.project / "way.txt").is_symlink()
    assert "has not been read" in product.sent(2)[-2]["content"]
    assert [denied["tool_name"] for denied in result.json["permission_denials"]] == ["write"]
    assert (theirs.read_text(), (product.home / "new.txt").exists()) == ("theirs", False)


def test_required_sandbox_that_is_unavailable_ends_start(product: Product) -> None:
    result = product.ask("--sandbox", "required", "x", cwd=product.home)

    assert result.exit_code == 2
    assert "home folder" in result.stderr
    assert product.service.requests == []


def test_preferred_sandbox_that_is_unavailable_warns_and_asks(product: Product) -> None:
    product.will(bash("python -m pytest -q"), ModelReply(text="done"))

    result = product.ask("--sandbox", "preferred", "x", cwd=product.home)

    assert result.exit_code == 0
    assert "without a sandbox" in result.stderr
    assert result.json["permission_denials"]


@pytest.mark.parametrize("words", [["--sandbox", "fix it"], ["--sandbox", "requird", "x"]])
def test_unknown_sandbox_mode_is_usage_error(product: Product, words: list[str]) -> None:
    result = product.ask(*words)

    assert result.exit_code == 2
    assert "required" in result.stderr
    assert product.service.requests == []


@pytest.mark.parametrize("mode", ["preferred", "required"])
def test_invalid_sandbox_host_ends_start(product: Product, mode: str) -> None:
    product.configure(f'[sandbox]\nmode = "{mode}"\nhosts = ["http://x"]\n')

    result = product.run("-p", "x")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "`hosts` under `[sandbox]`: 'http://x' is not a host" in result.stderr


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"answer of the server")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    """`host:port` of a server on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


FETCH = (
    "env -u NO_PROXY -u no_proxy"
    " python -c 'import urllib.request as u; print(u.urlopen(\"http://{}/\").read())'"
)
"""The address is local, and local addresses bypass the sandbox's proxy."""


def result_of_fetch(product: Product, server: str, *options: str) -> str:
    """The model's result of a command that requested something from that server."""
    product.will(bash(FETCH.format(server)), ModelReply(text="done"))
    assert product.ask(*options, "x").exit_code == 0
    return str(product.sent()[-1]["content"])


@pytest.mark.parametrize("mode", ["preferred", "required"])
def test_yolo_mode_opens_no_network_in_sandbox(product: Product, server: str, mode: str) -> None:
    result = result_of_fetch(product, server, "--sandbox", mode, "--yolo")

    assert "answer of the server" not in result
    assert "Connection refused" in result


def test_network_rule_and_setting_open_network_in_sandbox(product: Product, server: str) -> None:
    inside = ("--sandbox", "required", "--yolo")

    assert "answer of the server" in result_of_fetch(
        product, server, *inside, "--allow", "network:*"
    )
    product.configure("[sandbox]\nnetwork = true\n")
    assert "answer of the server" in result_of_fetch(product, server, *inside)


def test_sandbox_reaches_only_listed_hosts(product: Product, server: str) -> None:
    product.configure(f'[sandbox]\nhosts = ["{server}"]\n')
    inside = ("--sandbox", "required", "--yolo")

    assert "answer of the server" in result_of_fetch(product, server, *inside)
    port = server.partition(":")[2]
    assert "answer of the server" not in result_of_fetch(product, f"localhost:{port}", *inside)
