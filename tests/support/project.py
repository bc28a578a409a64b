"""A project, its settings, a scripted model and user, and the conversations they have."""

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
"""Each snapshot costs a git command; tests of rewinding write their own `[session]`."""

CONFIG = """\
type = "openai"
model = "gpt-4o"
models = ["gpt-4.1"]
base_url = "http://127.0.0.1:9/v1"
"""


@dataclass
class ScriptedUser:
    """Answers every permission request the same way and records the requests in `asked`."""

    answer: PermissionAnswer = field(default_factory=lambda: PermissionAnswer(effect="deny"))
    asked: list[PermissionRequest] = field(default_factory=list)

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        self.asked += requests
        return [self.answer for _ in requests]


class ScriptedProject:
    """A project folder with settings, a scripted model and a scripted user; opens conversations."""

    def __init__(self, base: Path) -> None:
        self.folder = base / "project"
        self.model = ScriptedModel()
        self.user = ScriptedUser()
        self.state_dir = base / "state"
        self._environment = {
            "HOME": str(base),
            "DIRGE_CONFIG_DIR": str(base / "config"),
            "DIRGE_STATE_DIR": str(self.state_dir),
        }
        self.folder.mkdir()
        (base / "config").mkdir()
        self.configure()

    def configure(self, more: str = "", *, alias: str = "fake") -> None:
        folder = Path(self._environment["DIRGE_CONFIG_DIR"])
        kept = "" if "[session]" in more else NO_SNAPSHOTS
        (folder / "config.toml").write_text(f"{kept}[providers.{alias}]\n{CONFIG}{more}")

    def build(self, asker: Asker, session: SessionChoice, **options: Any) -> Conversation:
        """A conversation with `asker`."""
        return build(
            load(environment=self._environment),
            asker,
            BuildOptions(session=session, **options),
            stream_fn=self.model.stream_fn,
        )

    @asynccontextmanager
    async def open(self, kind: Any = "new", **options: Any) -> AsyncIterator[Conversation]:
        """A conversation in the session of that kind; it is closed at the end of the block."""
        conversation = self.build(self.user, SessionChoice(kind=kind), **options)
        try:
            yield conversation
        finally:
            await conversation.close()

    @property
    def journal(self) -> Path:
        [path] = self.state_dir.glob("sessions/*/*.jsonl")
        return path

    def prompts_of_call(self, number: int = -1) -> list[str]:
        """The texts of the user messages that one model call was sent."""
        return user_texts(self.model.seen[number])


def user_texts(context: LlmContext) -> list[str]:
    return [message.text for message in context.messages if isinstance(message, UserMessage)]


def on_first(kind: type, action: Callable[[], object]) -> Callable[[object], None]:
    """An event sink that calls `action` once, at the first event of a type."""
    left = [action]

    def sink(event: object) -> None:
        if isinstance(event, kind) and left:
            left.pop()()

    return sink
