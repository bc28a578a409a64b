"""A conversation in this process: the real parts, a scripted model, a person who answers."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dirge_py.config.load import load
from dirge_py.conversation.conversation import Conversation
from dirge_py.sdk.build import build
from dirge_py.sdk.options import BuildOptions, SessionChoice
from dirge_py.testing import ScriptedModel
from dirge_py.types.llm import LlmContext
from dirge_py.types.messages import UserMessage
from dirge_py.types.questions import Asker, PermissionAnswer, PermissionRequest

NO_SNAPSHOTS = "[session]\nsnapshots = false\n"
"""Each takes a git command; tests of going back say `[session]` themselves."""

CONFIG = """\
type = "openai"
model = "gpt-4o"
models = ["gpt-4.1"]
base_url = "http://127.0.0.1:9/v1"
"""


@dataclass
class Person:
    """Answers every question the same way and keeps what was asked."""

    answer: PermissionAnswer = field(default_factory=lambda: PermissionAnswer(effect="deny"))
    asked: list[PermissionRequest] = field(default_factory=list)

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        self.asked += requests
        return [self.answer for _ in requests]


class Room:
    """Conversations that share a home, a project, a model and a person."""

    def __init__(self, base: Path) -> None:
        self.project = base / "project"
        self.model = ScriptedModel()
        self.person = Person()
        self.state_dir = base / "state"
        self._environment = {
            "HOME": str(base),
            "DIRGE_CONFIG_DIR": str(base / "config"),
            "DIRGE_STATE_DIR": str(self.state_dir),
        }
        self.project.mkdir()
        (base / "config").mkdir()
        self.configure()

    def configure(self, more: str = "", *, alias: str = "fake") -> None:
        folder = Path(self._environment["DIRGE_CONFIG_DIR"])
        kept = "" if "[session]" in more else NO_SNAPSHOTS
        (folder / "config.toml").write_text(f"{kept}[providers.{alias}]\n{CONFIG}{more}")

    def build(self, asker: Asker, session: SessionChoice, **options: Any) -> Conversation:
        """A conversation whose questions `asker` answers."""
        return build(
            load(environment=self._environment),
            asker,
            BuildOptions(session=session, **options),
            stream_fn=self.model.stream_fn,
        )

    @asynccontextmanager
    async def open(self, kind: Any = "new", **options: Any) -> AsyncIterator[Conversation]:
        """A conversation in the session of that kind, closed at the end."""
        conversation = self.build(self.person, SessionChoice(kind=kind), **options)
        try:
            yield conversation
        finally:
            await conversation.close()

    @property
    def journal(self) -> Path:
        [path] = self.state_dir.glob("sessions/*/*.jsonl")
        return path

    def heard(self, number: int = -1) -> list[str]:
        """What the model was told by the person, in one of its calls."""
        return users(self.model.seen[number])


def users(context: LlmContext) -> list[str]:
    return [message.text for message in context.messages if isinstance(message, UserMessage)]


def when(kind: type, action: Callable[[], object]) -> Callable[[object], None]:
    """A sink that acts once, at the first event of a kind."""
    left = [action]

    def sink(event: object) -> None:
        if isinstance(event, kind) and left:
            left.pop()()

    return sink
