"""The installed program: a home, a project under git, a fake model service, a process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.fake_service import FakeService, ModelReply, NoReply, RawReply, ReceivedRequest
from tests.support.forked_process import Piped, dirge, run_forked
from tests.support.git_repository import new_repository
from tests.support.in_process import run_here

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-canary-4f1d9b7a2c8e"
PATIENCE_S = 30.0
NO_SNAPSHOTS = "[session]\nsnapshots = false\n"
"""Each snapshot costs a git command; tests of rewinding write their own `[session]`."""
Wire = Literal["openai", "openai-responses", "anthropic", "gemini", "ollama"]


@dataclass(frozen=True, kw_only=True)
class HeldReply:
    """A reply that is sent once the test sets `gate`."""

    reply: ModelReply | RawReply
    gate: threading.Event = field(default_factory=threading.Event)
    patience_s: float = PATIENCE_S


@dataclass(frozen=True)
class ComputedReply:
    """A reply computed from the request."""

    make: Callable[[ReceivedRequest], ModelReply]


def replies_by_path(pages: Mapping[str, Any]) -> list[Any]:
    """Replies chosen by the path of the request; 404 for any other path."""

    def page(seen: Any) -> Any:
        if seen.path not in pages:
            return RawReply(status=404, body="not here")
        body = pages[seen.path]
        return (
            body
            if isinstance(body, RawReply | NoReply | ModelReply)
            else RawReply(body=json.dumps(body))
        )

    return [ComputedReply(page)] * 8


# Nothing that would be tried again: a test that asks too often fails at once.
_EXHAUSTED = RawReply(status=400, body='{"error":{"message":"the test has no more replies"}}')


class Service(FakeService):
    """A fake service with replies that wait for the test, and requests to wait for."""

    def __init__(self, replies: Sequence[Any] = ()) -> None:
        super().__init__(replies)
        self._arrived = threading.Condition()

    async def _answer(self, reply: Any, request: ReceivedRequest, *streams: Any) -> bool:
        with self._arrived:
            self._arrived.notify_all()
        if len(self.requests) > len(self.replies):
            reply = _EXHAUSTED
        if isinstance(reply, HeldReply):
            await asyncio.to_thread(reply.gate.wait, reply.patience_s)
            reply = reply.reply
        if isinstance(reply, ComputedReply):
            reply = reply.make(request)
        return await super()._answer(reply, request, *streams)

    def wait_for(self, count: int) -> ReceivedRequest:
        """Wait for the `count`-th request."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, PATIENCE_S)
        return self.requests[count - 1]


@dataclass(frozen=True, kw_only=True)
class ProcessResult:
    """Exit code and output of a finished process."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The JSON object on stdout."""
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.stdout.split("\n") if line]


class Product:
    """The real program in its own folder. `service` is its model service."""

    def __init__(self, base: Path, service: Service) -> None:
        self.base = base
        self.service = service
        self.home = base / "home"
        self.project = base / "project"
        self.config_dir = base / "config"
        self.state_dir = base / "state"
        for folder in (self.home, self.project, self.config_dir):
            folder.mkdir()
        new_repository(self.project)
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "error::ResourceWarning",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "DIRGE_CONFIG_DIR": str(self.config_dir),
            "DIRGE_STATE_DIR": str(self.state_dir),
            "FAKE_KEY": KEY,
            "DIRGE_LOCAL_SERVERS": "",
        }
        self.configure()

    def configure(self, more: str = "", *, wire: Wire = "openai", model: str = "gpt-4o") -> None:
        """Write the settings: one provider, `fake`, and the given tables."""
        url = self.service.url(wire)
        kept = "" if "[session]" in more else NO_SNAPSHOTS
        (self.config_dir / "config.toml").write_text(
            f'{kept}[providers.fake]\ntype = "{wire}"\nmodel = "{model}"\n'
            f'base_url = "{url}"\napi_key_env = "FAKE_KEY"\n{more}'
        )

    def will(self, *replies: Any) -> "Product":
        self.service.replies.extend(replies)
        return self

    def file(self, name: str, content: str | bytes = "") -> Path:
        """A file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def start(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
    ) -> Piped:
        """A process forked from a loaded one, which only saves the start."""
        return Piped(
            dirge,
            *words,
            environment={**self.environment, **(env or {})},
            cwd=cwd or self.project,
            stdin=stdin,
            stdout=stdout,
        )

    def start_fresh(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        prefix: Sequence[str] = (),
        stdin: int | None = subprocess.DEVNULL,
    ) -> "subprocess.Popen[str]":
        """A process started as a user starts it; takes several times as long."""
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "dirge_py", *words],
            cwd=cwd or self.project,
            env={**self.environment, **(env or {})},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def run(
        self,
        *words: str,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> ProcessResult:
        """Run it to its end in this process: fast, but without signals."""
        exit_code, stdout, stderr = run_here(
            words,
            environment={**self.environment, **(env or {})},
            cwd=cwd or self.project,
            stdin=stdin,
        )
        return checked(ProcessResult(exit_code=exit_code, stdout=stdout, stderr=stderr))

    def run_apart(self, *words: str, stdin: str | None = None, **options: Any) -> ProcessResult:
        """Run it to its end as a user starts it. `stdin` None is /dev/null."""
        pipe = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        return finish(self.start_fresh(*words, stdin=pipe, **options), stdin)

    def run_forked(
        self,
        *words: str,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> ProcessResult:
        """The same, forked from a loaded process."""
        exit_code, stdout, stderr = run_forked(
            dirge,
            *words,
            environment={**self.environment, **(env or {})},
            cwd=cwd or self.project,
            stdin=stdin,
            patience_s=PATIENCE_S,
        )
        return checked(ProcessResult(exit_code=exit_code, stdout=stdout, stderr=stderr))

    def ask(self, *words: str, **options: Any) -> ProcessResult:
        """`dirge -p --output-format json …`."""
        return self.run("-p", "--output-format", "json", *words, **options)

    @property
    def journals(self) -> list[Path]:
        return sorted(self.state_dir.glob("sessions/*/*.jsonl"))

    def sent(self, number: int = -1) -> list[dict[str, Any]]:
        """The messages of one request."""
        messages: list[dict[str, Any]] = self.service.requests[number].json["messages"]
        return messages

    def sent_text(self, number: int = -1) -> str:
        """Everything one request says, as JSON."""
        return json.dumps(self.service.requests[number].json, ensure_ascii=False)


def finish(process: "Piped | subprocess.Popen[str]", stdin: str | None = None) -> ProcessResult:
    """Wait for the end of `process`, and check that it printed no traceback."""
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            raise
    return checked(ProcessResult(exit_code=process.returncode, stdout=stdout, stderr=stderr))


def checked(result: ProcessResult) -> ProcessResult:
    """Check that stderr has no traceback and no resource warning."""
    for word in ("Traceback", "ResourceWarning", "never awaited", "never retrieved"):
        assert word not in result.stderr, result.stderr
    return result


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    with Service() as service:
        yield Product(tmp_path, service)
