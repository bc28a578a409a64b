"""Driving the app in tests: start it with scripts, press, wait for what is to be seen."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from dirge_py.errors import DirgeError
from dirge_py.questions import Asker
from dirge_py.ui.app import DirgeApp
from dirge_py.ui.start import TuiStart
from tests.ui.fake import FakeConversation, Script

_MOST_PAUSES = 400


class Desk:
    """An app under test, and the conversations it has opened."""

    def __init__(
        self,
        scripts: list[Script],
        settings: dict[str, Any],
        start: dict[str, Any],
        refusals: list[DirgeError],
    ) -> None:
        self.scripts = scripts
        self.settings = settings
        self.refusals = refusals
        self.opened: list[FakeConversation] = []
        options = {"open_first": self._open_first, "open_other": self._open, **start}
        self.app = DirgeApp(TuiStart(**options), guard_s=0.0)
        self.pilot: Pilot[int] = None  # type: ignore[assignment]

    def _open_first(self, asker: Asker) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        return self._open(asker, None)

    def _open(self, asker: Asker, session_id: str | None) -> Any:
        name = session_id or f"s-{len(self.opened) + 1}"
        fake = FakeConversation(asker, self.scripts, **{"session_id": name, **self.settings})
        self.opened.append(fake)
        return fake

    @property
    def talk(self) -> FakeConversation:
        return self.opened[-1]

    @property
    def text(self) -> str:
        """The whole transcript as it would be drawn."""
        layout = self.app.transcript.layout_of_blocks
        layout.settle(0, 1_000_000)
        return "\n".join(line.rstrip() for line in layout.texts(0, layout.height))

    @property
    def screen(self) -> str:
        """What is on the screen now."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in lines)

    async def until(self, holds: Callable[[], object]) -> None:
        for _ in range(_MOST_PAUSES):
            await self.pilot.pause(0.005)
            if holds():
                return
        raise AssertionError(f"never came true; on the screen:\n{self.screen}")

    async def type(self, text: str) -> None:
        for char in text:
            await self.pilot.press("space" if char == " " else char)

    async def send(self, text: str) -> None:
        self.app.composer.put(text)
        await self.pilot.press("enter")

    async def idle(self) -> None:
        await self.until(lambda: self.app.talk.state == "ready")


@asynccontextmanager
async def desk(
    *scripts: Script,
    size: tuple[int, int] = (80, 24),
    start: dict[str, Any] | None = None,
    refusals: list[DirgeError] | None = None,
    **settings: Any,
) -> AsyncIterator[Desk]:
    """A running app whose conversation plays `scripts`; opening it first fails with `refusals`."""
    made = Desk(list(scripts), settings, start or {}, refusals or [])
    async with made.app.run_test(size=size) as pilot:
        made.pilot = pilot
        await made.until(lambda: made.opened or refusals)
        yield made
    await made.app.talk.close()
