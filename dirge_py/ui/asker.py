"""Answers the engine's questions with a dialog docked above the input."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from dirge_py.questions import PermissionAnswer, PermissionRequest
from dirge_py.ui.panels.permission import PermissionDialog


class Dock(Protocol):
    """The screen, as far as a question needs it."""

    def make_dialog(self, request: PermissionRequest, place: str) -> PermissionDialog: ...
    async def put_up(self, dialog: PermissionDialog) -> None: ...
    async def take_down(self, dialog: PermissionDialog) -> None: ...
    def stop_run(self) -> None: ...


class DockedAsker:
    """One question at a time, in the order they came."""

    def __init__(self, dock: Dock) -> None:
        self._dock = dock
        self._turn = asyncio.Lock()

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        answers: list[PermissionAnswer] = []
        async with self._turn:
            for number, request in enumerate(requests, 1):
                place = f"{number} of {len(requests)}" if len(requests) > 1 else ""
                answers.append(await self._ask(request, place))
        return answers

    async def _ask(self, request: PermissionRequest, place: str) -> PermissionAnswer:
        dialog = self._dock.make_dialog(request, place)
        await self._dock.put_up(dialog)
        try:
            answer = await dialog.answer
        finally:
            # Shielded: an interrupted run takes its question down, whatever it is cancelled by.
            await asyncio.shield(_finished(self._dock.take_down, dialog))
        if dialog.wants_stop:
            self._dock.stop_run()
        return answer


async def _finished(
    take_down: Callable[[PermissionDialog], Awaitable[None]], dialog: PermissionDialog
) -> None:
    await take_down(dialog)
