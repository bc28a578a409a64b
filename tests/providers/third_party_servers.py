"""Starts third-party model servers; `make peers` installs them in .peers."""

import contextlib
import json
import os
import re
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.requirements import lacking

FOLDER = Path(os.environ.get("DIRGE_TEST_PEERS") or Path(__file__).parents[2] / ".peers")
ARGUMENTS = {"text": "Paris, “ünï” \\ \n{}"}
FIXTURES = {
    "fixtures": [
        {
            "match": {"userMessage": "weather", "hasToolResult": False},
            "response": {
                "content": "Let me look.",
                "reasoning": "I need the tool.",
                "toolCalls": [{"name": "echo", "arguments": ARGUMENTS}],
            },
        },
        {
            "match": {"userMessage": "weather", "hasToolResult": True},
            "response": {"content": "It is sunny in Paris."},
        },
        {"match": {"userMessage": "hello"}, "response": {"content": "Hi there."}},
    ]
}
_STARTS_WITHIN_S = 120.0


def program(name: str) -> str:
    """The path of a program that `make peers` installs; the test is skipped without it."""
    places = (FOLDER / "bin" / name, FOLDER / "mock/node_modules/.bin" / name)
    found = next((place for place in places if place.exists()), None)
    return str(found) if found else lacking(f"{name} (make peers)")


@contextlib.contextmanager
def mock_server(folder: Path, *flags: str) -> Iterator[str]:
    """aimock (npm), which serves five formats from one list of answers; yields its address."""
    fixtures = folder / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES))
    command = [program("llmock"), "-p", "0", "-f", str(fixtures), "--strict", *flags]
    environment = {"PATH": f"{FOLDER / 'bin'}:{os.environ['PATH']}"}
    with _running(command, environment, r"listening on (http://\S+)") as url:
        yield url


@contextlib.contextmanager
def gateway(folder: Path, upstream: str, port: int) -> Iterator[str]:
    """litellm's proxy (PyPI) in front of `upstream`; its key is `KEY`."""
    models = {
        "chat": ("openai/m", f"{upstream}/v1"),
        "claude": ("anthropic/claude-3-5-haiku-latest", upstream),
    }
    settings: Mapping[str, Any] = {
        "model_list": [
            {
                "model_name": name,
                "litellm_params": {"model": model, "api_base": base, "api_key": "k"},
            }
            for name, (model, base) in models.items()
        ],
        "general_settings": {"master_key": KEY},
    }
    file = folder / "gateway.yaml"
    file.write_text(json.dumps(settings))  # YAML holds JSON
    command = [program("litellm"), "--config", str(file), "--host", "127.0.0.1"]
    environment = {
        "PATH": f"{FOLDER / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "PYTHONUNBUFFERED": "1",
    }
    command += ["--port", str(port)]
    with _running(command, environment, r"running on (http://\S+)") as url:
        yield url


KEY = "sk-gateway-0f8c2b7a91d64e35"


@contextlib.contextmanager
def _running(command: list[str], environment: Mapping[str, str], ready: str) -> Iterator[str]:
    """A server, from the line with its address to the end of the block."""
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        try:
            yield _address(server, ready)
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _address(server: "subprocess.Popen[bytes]", ready: str) -> str:
    assert server.stdout is not None
    output, end = b"", time.monotonic() + _STARTS_WITHIN_S
    with selectors.DefaultSelector() as waiting:
        waiting.register(server.stdout, selectors.EVENT_READ)
        while time.monotonic() < end:
            if not waiting.select(timeout=1.0):
                continue
            piece = os.read(server.stdout.fileno(), 65536)
            output += piece
            found = re.search(ready, output.decode(errors="replace"))
            if found:
                return found[1].rstrip("/.")
            if not piece:
                break
    raise AssertionError(
        f"{server.args!r} did not start: {output.decode(errors='replace')[-2000:]}"
    )
