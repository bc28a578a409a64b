"""Drives the Textual app in tests: real conversations, a scripted model, waiting for the screen."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dirge_py.conversation.conversation import Conversation
from dirge_py.frontend.session_opener import OpenMode
from dirge_py.permission.rules import Mode
from dirge_py.sdk.options import SessionChoice
from dirge_py.types.errors import DirgeError
from dirge_py.types.messages import UserMessage
from dirge_py.types.questions import Asker, PermissionAnswer, PermissionRequest
from dirge_py.ui.actions import ACTIONS
from dirge_py.ui.app import DirgeApp
from dirge_py.ui.options import UiOptions
from dirge_py.ui.panels.dialog import Dialog
from dirge_py.ui.panels.permission import PermissionDialog
from tests.support import style_sheet_cache
from tests.support.fast_pilot import FastPilot, draw_late
from tests.support.project import ScriptedProject
from tests.support.rendered_lines import line_texts

_MOST_LOOKS = 1000

style_sheet_cache.share()
draw_late()

WAITING_COMMAND = "echo cc a.c; until test -e go; do sleep 0.01; done; echo built"
"""A command that shows a line and continues once there is a file `go`."""


class AppDriver:
    """An app under test, and the conversations it has opened."""

    pilot: FastPilot
    asker: Asker

    def __init__(
        self,
        project: ScriptedProject,
        /,
        *,
        mode: Mode = "standard",
        resumes: str = "",
        refusals: Sequence[DirgeError] = (),
        guard_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        no_color: bool = False,
        **start: Any,
    ) -> None:
        self.project = project
        self.opened: list[Conversation] = []
        self._mode: Mode = mode
        self._resumes = resumes
        self._refusals = list(refusals)
        options = {"open_first": self._open_first, "open_other": self._open, **start}
        self.app = DirgeApp(
            UiOptions(**options), ACTIONS, guard_s=guard_s, no_color=no_color, clock=clock
        )

    def _open_first(self, asker: Asker) -> Conversation:
        if self._refusals:
            raise self._refusals.pop(0)
        return self._open(asker, self._resumes or None)

    def _open(self, asker: Asker, session_id: str | None, way: OpenMode = "write") -> Conversation:
        choice = SessionChoice()
        if session_id and way == "view":
            choice = SessionChoice(kind="view", id=session_id)
        elif session_id:
            choice = SessionChoice(kind="resume", id=session_id, fork=way == "fork")
        self.asker = asker
        self.opened.append(self.project.build(asker, choice))
        self.opened[-1].settings.set_mode(self._mode)
        return self.opened[-1]

    @property
    def conversation(self) -> Conversation:
        return self.opened[-1]

    @property
    def sent(self) -> list[str]:
        """The texts of the user messages of this conversation."""
        return [m.text for m in self.conversation.messages if isinstance(m, UserMessage)]

    @property
    def results(self) -> list[str]:
        """The texts of the tool results of this conversation."""
        return [
            message.text for message in self.conversation.messages if message.role == "toolResult"
        ]

    @property
    def text(self) -> str:
        """The whole transcript as it would be drawn."""
        layout = self.app.transcript.layout_of_blocks
        guessed = layout.height
        layout.settle(0, 1_000_000)
        if layout.height != guessed:
            # Drawing what is out of sight must not move what is seen.
            self.app.transcript.redraw()
        return "\n".join(line.rstrip() for line in line_texts(layout, 0, layout.height))

    @property
    def screen(self) -> str:
        """What is on the screen now."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in lines)

    @property
    def dialog(self) -> PermissionDialog | None:
        return next(iter(self.app.query(PermissionDialog)), None)

    @property
    def panel(self) -> Dialog[Any] | None:
        """The open question of any kind."""
        return next(iter(self.app.query(Dialog)), None)

    @property
    def knows_git(self) -> bool:
        """Whether no panel still waits for git."""
        asking = self.app.chrome._asking_git
        return asking is None or asking.is_finished

    def ask(self, *requests: PermissionRequest) -> "asyncio.Task[Sequence[PermissionAnswer]]":
        """Ask for permission as the engine does."""
        return asyncio.ensure_future(self.asker.permission(requests))

    def release_command(self) -> None:
        """Let a `WAITING_COMMAND` continue."""
        (self.project.folder / "go").touch()

    async def until(self, holds: Callable[[], object]) -> None:
        await self._until(holds, self.pilot.pause)

    async def begun(self) -> None:
        """Wait until a conversation is open. The screen may not be drawn yet."""
        await self._until(lambda: self.app.controller.conversation, self.pilot.settle)

    async def _until(
        self, holds: Callable[[], object], before: Callable[[], Awaitable[None]]
    ) -> None:
        never = asyncio.get_running_loop().create_future()
        for _ in range(_MOST_LOOKS):
            await before()
            if holds():
                return
            await asyncio.wait([never], timeout=0.01)
        raise AssertionError(f"never came true; on the screen:\n{self.screen}")

    async def type(self, text: str) -> None:
        await self.pilot.press(*("space" if char == " " else char for char in text))

    async def send(self, text: str) -> None:
        self.app.composer.put(text)
        await self.pilot.press("enter")

    async def paste(self, text: str) -> None:
        self.app.composer.paste(text)
        await self.pilot.pause()

    async def idle(self) -> None:
        """Wait until nothing runs and the screen shows everything."""
        await self.until(lambda: self.app.controller.state == "ready" and not self._is_being_read)
        await self.pilot.pause()

    @property
    def _is_being_read(self) -> bool:
        """Whether a sent line has not started everything it asked for."""
        return any(
            each.name == "on_composer_sent" and not each.is_finished for each in self.app.workers
        )

    async def asked(self) -> None:
        """Wait until a permission dialog can be answered."""
        await self.until(lambda: (at := self.dialog) and at.has_focus and at.may_approve)


@asynccontextmanager
async def running_app(
    project: ScriptedProject,
    /,
    *,
    size: tuple[int, int] = (80, 24),
    opens: bool = True,
    **more: Any,
) -> AsyncIterator[AppDriver]:
    """A running app in a test terminal; with `opens` its conversation is open, too."""
    app = AppDriver(project, **more)
    for _ in range(3):
        project.model.will_say("Nothing more to do.")
    async with app.app.run_test(size=size):
        app.pilot = FastPilot(app.app)
        if opens:
            await app.begun()
        yield app
    await app.app.controller.close()
