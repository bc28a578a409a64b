"""An exclusive owner of a conversation, and a view without a screen, for tests."""

import asyncio
from typing import TYPE_CHECKING, Any

from dirge_py.frontend.controller import ChatController
from dirge_py.slash.registry import Registry
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation


PROMPT = "Do the work."


class ScriptedOwner:
    """Prepares until `prepared` is set, runs once, and reviews until `looked` is set.

    It leaves once `packed` is set, which it is at first.
    """

    doing = "the work is done"

    def __init__(self) -> None:
        self.prepared = asyncio.Event()
        self.looked = asyncio.Event()
        self.packed = asyncio.Event()
        self.packed.set()
        self.stopped: list[str] = []
        self._at: asyncio.Future[Any] | None = None
        self._conversation: Conversation | None = None

    def interrupt(self, reason: str = "user") -> None:
        self.stopped.append(reason)
        if self._conversation is not None:
            self._conversation.abort(reason)
        if self._at is not None:
            self._at.cancel()

    async def work(self, conversation: "Conversation") -> None:
        self._conversation, conversation.exclusive_owner = conversation, self
        try:
            await self._until(self.prepared)
            if not self.stopped:
                await conversation.send(PROMPT, by=self)
            if not self.stopped:
                await self._until(self.looked)
        finally:
            await self.packed.wait()
            conversation.exclusive_owner = None

    async def _until(self, event: asyncio.Event) -> None:
        self._at = asyncio.ensure_future(event.wait())
        await asyncio.wait([self._at])

    def command(self) -> Command:
        async def run(args: str, conversation: "Conversation", front: Any) -> None:
            await self.work(conversation)

        return Command(name="work", summary="work", run=run)


class RecordingView:
    """A `controller.View` that records its notices, and its controller."""

    def __init__(self, *commands: Command) -> None:
        registry = Registry()
        for command in commands:
            registry.add(command)
        self.notices: list[str] = []
        self.given_back: list[str] = []
        self.controller = ChatController(self, registry, self)  # type: ignore[arg-type]  # No command asks it.
        self._tasks: set[asyncio.Task[None]] = set()

    def type(self, line: str) -> "asyncio.Task[None]":
        """Send a line without waiting."""
        task = asyncio.ensure_future(self.controller.submit(line, "now"))
        self._tasks.add(task)
        return task

    @property
    def queue(self) -> list[tuple[str, str]]:
        return [(waiting.kind, waiting.text) for waiting in self.controller.waiting]

    def notify_user(self, text: str, *, tone: str = "plain") -> None:
        self.notices.append(text)

    def give_back(self, text: str) -> None:
        self.given_back.append(text)

    def flush_events(self) -> None:
        pass

    def refresh_status(self) -> None:
        pass
