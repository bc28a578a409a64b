"""Where questions are put: above the input, one after the other, the focus going there and back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dirge_py.questions import PermissionRequest
from dirge_py.slash.base import Choice
from dirge_py.ui.panels.permission import PermissionDialog

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp

_SMALL_HEIGHT = 10
"""Rows below which a question takes the place of everything else."""

_ROWS_KEPT = 3
"""Rows that a question leaves to the rest of a screen that is not small."""

_LEAST_ROWS = 3


class QuestionDock:
    """The `asker.Dock` of the app, and its pickers."""

    def __init__(self, app: "DirgeApp", guard_s: float) -> None:
        self._app = app
        self._guard_s = guard_s

    def make_dialog(self, request: PermissionRequest, place: str) -> PermissionDialog:
        app = self._app
        return PermissionDialog(
            request, place, ink=app.panel_ink, keymap=app.keymap, guard_s=self._guard_s
        )

    async def put_up(self, dialog: PermissionDialog) -> None:
        app = self._app
        app.proposer.close()
        app.talk.is_asking = True
        await app.mount(dialog, before=app.queue)
        self._fit(dialog, app.size.height)
        app.standing_changed()

    async def take_down(self, dialog: PermissionDialog) -> None:
        app = self._app
        app.talk.is_asking = False
        if not app.is_running:
            return  # The program is ending, and took the whole screen down.
        app.screen.remove_class("small-asking", "only-asking")
        await dialog.remove()
        app.composer.focus()
        app.standing_changed()

    def stop_run(self) -> None:
        self._app.talk.interrupt()

    def fit(self, height: int) -> None:
        """The screen has another height now."""
        for dialog in self._app.query(PermissionDialog):
            self._fit(dialog, height)

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None:
        try:
            return await self._app.picker.ask(title, choices, current)
        finally:
            self._app.composer.focus()

    async def ask_line(self, title: str, *, value: str = "", hidden: bool = False) -> str | None:
        try:
            return await self._app.line_question.ask(title, value=value, hidden=hidden)
        finally:
            self._app.composer.focus()

    def _fit(self, dialog: PermissionDialog, height: int) -> None:
        is_small = height < _SMALL_HEIGHT
        taken = dialog.fit(max(_LEAST_ROWS, height - (0 if is_small else _ROWS_KEPT)))
        self._app.screen.set_class(is_small, "small-asking")
        self._app.screen.set_class(taken >= height, "only-asking")
