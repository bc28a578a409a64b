"""Dialogs above the input, one after the other, and the `Asker` that answers with them.

The focus goes to a dialog and back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from dirge_py.frontend.controller import ChatController
from dirge_py.lib.lazy import late
from dirge_py.slash.base import Choice
from dirge_py.types.questions import (
    PermissionAnswer,
    PermissionRequest,
    Question,
    QuestionAnswer,
    TrustOffer,
)
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.above_input import QueuePanel
from dirge_py.ui.panels.choices import LineQuestion, Picker
from dirge_py.ui.panels.dialog import Answer, Dialog, DialogOptions
from dirge_py.ui.panels.trust import TrustDialog
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.layout import LinePosition
from dirge_py.ui.transcript.view import TranscriptWidget

if TYPE_CHECKING:
    from dirge_py.ui.panels.form import QuestionForm
    from dirge_py.ui.panels.hunk_view import EditFile
    from dirge_py.ui.panels.permission import PermissionDialog
    from dirge_py.ui.transcript.plan_blocks import PhaseBlock
else:
    QuestionForm = late("dirge_py.ui.panels.form", "QuestionForm")
    PermissionDialog = late("dirge_py.ui.panels.permission", "PermissionDialog")

_SMALL_HEIGHT = 10
"""Rows below which a question takes the place of everything else."""
_ROWS_KEPT = 3
"""Rows that a question leaves to the rest of a screen that is not small."""
_LEAST_ROWS = 3
_SOON_S = 0.01
_PLACEHOLDER = "A question is open above; text you type goes here."


class DialogApp(Protocol):
    """What dialogs use of the app."""

    keymap: Keymap
    clock: Callable[[], float]
    controller: ChatController
    composer: Composer
    transcript: TranscriptWidget
    queue: QueuePanel
    picker: Picker
    line_question: LineQuestion

    @property
    def panel_styles(self) -> Styles: ...
    @property
    def plan_to_read(self) -> "PhaseBlock | None": ...
    @property
    def size(self) -> Size: ...
    @property
    def focused(self) -> Widget | None: ...
    @property
    def screen(self) -> Screen[object]: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def has_screen(self) -> bool: ...
    def query(self, query_type: type[Dialog[Any]]) -> Iterable[Dialog[Any]]: ...
    def mount(self, widget: Widget, /, *, before: Widget) -> Awaitable[None]: ...
    def set_focus(self, widget: Widget | None) -> None: ...
    def set_timer(self, delay: float, callback: Callable[[], None]) -> Timer: ...
    def call_after_refresh(self, callback: Callable[[], None]) -> bool: ...
    def close_proposals(self) -> None: ...
    def focus_input(self) -> None: ...
    def flush_events(self) -> None: ...
    def refresh_status(self) -> None: ...


class DialogHost:
    """Puts dialogs above the input and takes them down, and shows the pickers there."""

    def __init__(self, app: DialogApp, guard_s: float, edit_file: "EditFile") -> None:
        self._app = app
        self._guard_s = guard_s
        self._edit_file = edit_file
        self._before: Widget | None = None
        self._is_about_plan = False
        self._panel: Dialog[Any] | None = None
        self._placeholder: str | Content = ""

    def permission_dialog(self, requests: Sequence[PermissionRequest]) -> "PermissionDialog":
        return PermissionDialog(requests, self._edit_file, **self._options)

    def question_form(self, questions: Sequence[Question]) -> "QuestionForm":
        return QuestionForm(questions, **self._options)

    def trust_dialog(self, offer: TrustOffer) -> TrustDialog:
        return TrustDialog(offer, **self._options)

    @property
    def _options(self) -> DialogOptions:
        app = self._app
        return {
            "styles": app.panel_styles,
            "keymap": app.keymap,
            "guard_s": self._guard_s,
            "clock": app.clock,
        }

    async def show_dialog(self, panel: Dialog[Answer]) -> None:
        app = self._app
        panel.refit = lambda: self._fit(panel, app.size.height)
        panel.give_to_input = self._give_to_input
        # A sentence that is being written, or lies there half written, is finished first.
        panel.takes_keyboard = not (app.focused is app.composer and app.composer.is_in_use)
        app.close_proposals()
        app.flush_events()  # What is asked about has been told, and is shown above.
        self._before = app.focused
        app.controller.is_asking = True
        self._panel = panel
        self._placeholder, app.composer.placeholder = app.composer.placeholder, _PLACEHOLDER
        app.screen.add_class("asking")
        await app.mount(panel, before=app.queue)
        panel.refit()
        app.refresh_status()
        app.call_after_refresh(self._show_plan)

    async def close_dialog(self, panel: Dialog[Answer]) -> None:
        app = self._app
        app.controller.is_asking = False
        self._panel = None
        if not app.is_running:
            return  # The program is ending, and took the whole screen down.
        app.composer.placeholder = self._placeholder
        app.screen.remove_class("small-asking", "only-asking", "asking")
        self._leave_plan()
        self._give_focus_back()
        await panel.remove()
        self._give_focus_back()  # What the question had hidden could not have it before.
        app.refresh_status()

    # -- who has the keyboard while a question is open

    @property
    def is_asking(self) -> bool:
        """Is a question docked that has no answer yet?"""
        return self._panel is not None and not self._panel.answer.done()

    def takes(self, event: events.Key | events.Paste) -> bool:
        """Whether the question has dealt with what came from the keyboard."""
        panel = self._panel
        return panel is not None and self._app.focused is panel and panel.takes(event)

    def focus_dialog(self) -> bool:
        """Give the keyboard to the question. False if there is none, or it has it already."""
        panel = self._panel
        if panel is None or panel.has_keyboard:
            return False
        panel.focus_dialog()
        panel.refit()
        return True

    def input_changed(self) -> None:
        """Once the input has been empty for a pause, the question has the keyboard again."""
        panel = self._panel
        if panel is None or panel.has_keyboard or self._app.composer.is_in_use:
            return
        self._app.set_timer(max(self._guard_s, _SOON_S), self.return_keyboard)

    def return_keyboard(self) -> None:
        """What was typed is sent, or deleted: answer now. Not while something stands there."""
        app = self._app
        if not app.is_running or not app.has_screen:
            return  # The program is ending.
        if app.focused is app.composer and not app.composer.is_in_use:
            self.focus_dialog()

    def _give_to_input(self, text: str) -> None:
        app = self._app
        app.composer.type_text(text)
        app.set_focus(app.composer)
        if self._panel is not None:
            self._panel.refit()

    def _show_plan(self) -> None:
        """A plan that is asked about is read from its beginning, however little room is left."""
        app = self._app
        plan, page = app.plan_to_read, app.transcript
        self._is_about_plan = plan is not None
        if plan is None or not page.sticks:
            return
        row = page.layout_of_blocks.rows.of(plan)
        if page.layout_of_blocks.top(row) < page.first_line:
            page.go_to(LinePosition(row, row.gap))

    def _leave_plan(self) -> None:
        """Whoever has read and decided wants to see what comes of it."""
        if self._is_about_plan:
            self._is_about_plan = False
            self._app.transcript.go_to_end()

    def _give_focus_back(self) -> None:
        """To the list, the search or the reading that the question came upon."""
        app, before = self._app, self._before
        if app.focused is app.composer and app.composer.is_in_use:
            return
        if before is not app.composer and before in app.screen.focus_chain:
            app.set_focus(before)
        else:
            app.focus_input()

    def stop_run(self) -> None:
        self._app.controller.interrupt()

    def fit(self, height: int) -> None:
        """The screen has another height now."""
        for panel in self._app.query(Dialog):
            self._fit(panel, height)

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None:
        try:
            return await self._app.picker.ask(title, choices, current)
        finally:
            self._app.focus_input()

    async def ask_line(self, title: str, *, value: str = "", hidden: bool = False) -> str | None:
        try:
            return await self._app.line_question.ask(title, value=value, hidden=hidden)
        finally:
            self._app.focus_input()

    def _fit(self, panel: Dialog[Any], height: int) -> None:
        # What is being written is seen, however little room there is.
        is_small = height < _SMALL_HEIGHT and panel.has_keyboard
        taken = panel.fit(max(_LEAST_ROWS, height - (0 if is_small else _ROWS_KEPT)))
        self._app.screen.set_class(is_small, "small-asking")
        self._app.screen.set_class(taken >= height, "only-asking")


class DialogSlot(Protocol):
    """The screen, as far as a question needs it."""

    def permission_dialog(
        self, requests: Sequence[PermissionRequest]
    ) -> Dialog[Sequence[PermissionAnswer]]: ...
    def question_form(
        self, questions: Sequence[Question]
    ) -> Dialog[Sequence[QuestionAnswer] | None]: ...
    def trust_dialog(self, offer: TrustOffer) -> Dialog[bool]: ...
    async def show_dialog(self, panel: Dialog[Answer]) -> None: ...
    async def close_dialog(self, panel: Dialog[Answer]) -> None: ...
    def stop_run(self) -> None: ...


class DialogAsker:
    """One panel at a time, in the order the questions came."""

    def __init__(self, dialogs: DialogSlot) -> None:
        self._dialogs = dialogs
        self._turn = asyncio.Lock()

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """One answer per request, in order: those of one call are shown together."""
        async with self._turn:
            return await self._ask(self._dialogs.permission_dialog(requests)) if requests else []

    async def question(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        """One answer per question, in order; None if the person would rather not say."""
        async with self._turn:
            return await self._ask(self._dialogs.question_form(questions)) if questions else []

    async def trust(self, offer: TrustOffer) -> bool:
        """Whether exactly these files are trusted."""
        async with self._turn:
            return await self._ask(self._dialogs.trust_dialog(offer))

    async def _ask(self, panel: Dialog[Answer]) -> Answer:
        await self._dialogs.show_dialog(panel)
        try:
            answer = await panel.answer
        finally:
            # Shielded: an interrupted run takes its question down, whatever it is cancelled by.
            await asyncio.shield(asyncio.ensure_future(self._dialogs.close_dialog(panel)))
        if panel.wants_stop:
            self._dialogs.stop_run()
        return answer
