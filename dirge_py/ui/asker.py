"""Answers the engine's questions with panels docked above the input."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from dirge_py.types.questions import (
    PermissionAnswer,
    PermissionRequest,
    Question,
    QuestionAnswer,
    TrustOffer,
)
from dirge_py.ui.panels.docked import Answer, DockedPanel


class Dock(Protocol):
    """The screen, as far as a question needs it."""

    def permission_dialog(
        self, requests: Sequence[PermissionRequest]
    ) -> DockedPanel[Sequence[PermissionAnswer]]: ...
    def question_form(
        self, questions: Sequence[Question]
    ) -> DockedPanel[Sequence[QuestionAnswer] | None]: ...
    def trust_dialog(self, offer: TrustOffer) -> DockedPanel[bool]: ...
    async def put_up(self, panel: DockedPanel[Answer]) -> None: ...
    async def take_down(self, panel: DockedPanel[Answer]) -> None: ...
    def stop_run(self) -> None: ...


class DockedAsker:
    """One panel at a time, in the order the questions came."""

    def __init__(self, dock: Dock) -> None:
        self._dock = dock
        self._turn = asyncio.Lock()

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """One answer per request, in order: those of one call are shown together."""
        async with self._turn:
            return await self._ask(self._dock.permission_dialog(requests)) if requests else []

    async def question(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        """One answer per question, in order; None if the person would rather not say."""
        async with self._turn:
            return await self._ask(self._dock.question_form(questions)) if questions else []

    async def trust(self, offer: TrustOffer) -> bool:
        """Whether exactly these files are trusted."""
        async with self._turn:
            return await self._ask(self._dock.trust_dialog(offer))

    async def _ask(self, panel: DockedPanel[Answer]) -> Answer:
        await self._dock.put_up(panel)
        try:
            answer = await panel.answer
        finally:
            # Shielded: an interrupted run takes its question down, whatever it is cancelled by.
            await asyncio.shield(asyncio.ensure_future(self._dock.take_down(panel)))
        if panel.wants_stop:
            self._dock.stop_run()
        return answer
