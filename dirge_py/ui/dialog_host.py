"""Shows dialogs above the input one after the other, and moves the focus to them and back."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual import events
from textual.content import Content
from textual.widget import Widget

from dirge_py.lib.lazy import late
from dirge_py.slash.base import Choice, PickerAction
from dirge_py.types.questions import (
    PermissionAnswer,
    PermissionRequest,
    Question,
    QuestionAnswer,
    TrustOffer,
)
from dirge_py.ui.feed import TranscriptFeed
from dirge_py.ui.panels.choices import LineQuestion, Picker
from dirge_py.ui.panels.dialog import Answer, Dialog, DialogOptions
from dirge_py.ui.panels.form import QuestionForm, TrustDialog
from dirge_py.ui.prompt.composer import Composer
from dirge_py.ui.transcript.layout import LinePosition

if TYPE_CHECKING:
    from dirge_py.ui.panels.permission import PermissionDialog
else:
    PermissionDialog = late("dirge_py.ui.panels.permission", "PermissionDialog")

_SMALL_HEIGHT = 10
"""Rows of a screen below which a question fills all of it."""
_ROWS_FOR_OTHERS = 3
"""Rows for the rest of a larger screen."""
_LEAST_ROWS = 3
_SOON_S = 0.01
_PLACEHOLDER = "A question is open above; text you type goes here."
_PLACEHOLDER_WHILE_WRITING = "You are writing in the line above."


class DialogHost:
    """Shows dialogs and pickers one at a time, as the `Asker` of the terminal UI.

    `edit_file` opens a text in the person's editor. `on_asking` is called before a question is
    shown and after its answer; `interrupt` stops the run if the answer says so.
    """

    def __init__(
        self,
        composer: Composer,
        feed: TranscriptFeed,
        *,
        picker: Picker,
        line_question: LineQuestion,
        options: Callable[[], DialogOptions],
        edit_file: Callable[[str, str], Awaitable[str | None]],
        focus_input: Callable[[], None],
        on_asking: Callable[[bool], None],
        interrupt: Callable[[], object],
    ) -> None:
        self._composer, self._feed, self._picker = composer, feed, picker
        self._line_question, self._options, self._edit_file = line_question, options, edit_file
        self._focus_input, self._on_asking = focus_input, on_asking
        self._interrupt = interrupt
        self._before: Widget | None = None
        self._is_about_plan = False
        self._panel: Dialog[Any] | None = None
        self._placeholder: str | Content = ""
        self._turn = asyncio.Lock()

    async def permission(self, requests: Sequence[PermissionRequest]) -> Sequence[PermissionAnswer]:
        """Return an answer for each request, in order; they share a dialog."""
        if not requests:
            return []
        return await self._ask(PermissionDialog, requests, self._edit_file)

    async def question(self, questions: Sequence[Question]) -> Sequence[QuestionAnswer] | None:
        """Return an answer for each question, in order; None if the person cancels."""
        if not questions:
            return []
        return await self._ask(QuestionForm, questions)

    async def trust(self, offer: TrustOffer) -> bool:
        """Return whether the person trusts exactly these files."""
        return await self._ask(TrustDialog, offer)

    async def _ask(self, dialog: Callable[..., Dialog[Answer]], *subject: Any) -> Answer:
        async with self._turn:
            panel = dialog(*subject, **self._options())
            await self._show_dialog(panel)
            try:
                answer = await panel.answer
            finally:
                # Shielded, as the question of an interrupted run must always be removed.
                await asyncio.shield(asyncio.ensure_future(self._close_dialog(panel)))
            if panel.wants_stop:
                self._interrupt()
            return answer

    async def _show_dialog(self, panel: Dialog[Answer]) -> None:
        screen = self._composer.screen
        panel.refit = lambda: self._fit(panel, screen.size.height)
        panel.give_to_input = self._give_to_input
        # The person may finish a sentence in the input first.
        panel.takes_keyboard = not self._is_writing
        self._before = screen.focused
        self._panel = panel
        self._on_asking(True)
        self._placeholder, self._composer.placeholder = self._composer.placeholder, _PLACEHOLDER
        screen.add_class("asking")
        await screen.mount(panel, before="#queue")
        panel.refit()
        screen.call_after_refresh(self._show_plan)

    async def _close_dialog(self, panel: Dialog[Answer]) -> None:
        self._panel = None
        self._on_asking(False)
        if not self._composer.is_attached:
            return  # The program is ending.
        self._composer.placeholder = self._placeholder
        self._composer.screen.remove_class("small-asking", "only-asking", "asking")
        if self._is_about_plan:
            self._is_about_plan = False
            self._feed.transcript.go_to_end()
        self._restore_focus()
        await panel.remove()
        self._restore_focus()  # A widget hidden by the question can have the focus only now.

    @property
    def _is_writing(self) -> bool:
        return self._composer.screen.focused is self._composer and self._composer.is_in_use

    @property
    def is_asking(self) -> bool:
        """Whether a question without an answer is shown."""
        return self._panel is not None and not self._panel.answer.done()

    def handle_input(self, event: events.Key | events.Paste) -> bool:
        """Pass a key or a paste to the question; return whether it was handled."""
        panel = self._panel
        if panel is None or self._composer.screen.focused is not panel:
            return False
        return panel.handle_input(event)

    def focus_dialog(self) -> bool:
        """Give the keyboard to the question; return False if it has it, or there is none."""
        panel = self._panel
        if panel is None or panel.has_keyboard:
            return False
        panel.focus_dialog()
        panel.refit()
        return True

    def input_changed(self) -> None:
        """Give the keyboard back to the question once the input has been empty for a pause."""
        panel = self._panel
        if panel is None or panel.has_keyboard or self._composer.is_in_use:
            return
        self._composer.set_timer(max(self._options()["guard_s"], _SOON_S), self.return_keyboard)

    def return_keyboard(self) -> None:
        """Give the keyboard back to the question once the input is empty."""
        if not self._composer.is_attached:
            return  # The program is ending.
        if self._composer.screen.focused is self._composer and not self._composer.is_in_use:
            self.focus_dialog()

    def _give_to_input(self, text: str) -> None:
        self._composer.type_text(text)
        self._composer.screen.set_focus(self._composer)
        if self._panel is not None:
            self._panel.refit()

    def _show_plan(self) -> None:
        plan, page = self._feed.renderer.phases.to_read, self._feed.transcript
        self._is_about_plan = plan is not None
        if plan is None or not page.scroll_anchor.is_on:
            return
        row = page.layout_of_blocks.rows.of(plan)
        if page.layout_of_blocks.top(row) < page.first_line:
            page.go_to(LinePosition(row, row.gap))

    def _restore_focus(self) -> None:
        screen, before = self._composer.screen, self._before
        if self._is_writing:
            return
        if before is not self._composer and before in screen.focus_chain:
            screen.set_focus(before)
        else:
            self._focus_input()

    def fit(self, height: int) -> None:
        """Fit the question to the height of the screen."""
        for panel in self._composer.screen.query(Dialog):
            self._fit(panel, height)

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None:
        try:
            return await self._picker.ask(title, choices, current)
        finally:
            self._focus_input()

    async def pick_or_act(
        self,
        title: str,
        choices: Sequence[Choice],
        current: str,
        actions: Mapping[PickerAction, str],
    ) -> tuple[PickerAction | None, str] | None:
        """Return the action and the choice it is for; the action is None for Enter."""
        try:
            chosen = await self._picker.ask(title, choices, current, actions=actions)
            return None if chosen is None else (self._picker.action, chosen)
        finally:
            self._focus_input()

    async def ask_line(self, title: str, *, value: str = "", hidden: bool = False) -> str | None:
        try:
            return await self._line_question.ask(title, value=value, hidden=hidden)
        finally:
            self._focus_input()

    def _fit(self, panel: Dialog[Any], height: int) -> None:
        # The input stays visible while the person writes in it.
        is_small = height < _SMALL_HEIGHT and panel.has_keyboard
        if panel is self._panel:
            is_writing = panel.has_class("writing")
            self._composer.placeholder = _PLACEHOLDER_WHILE_WRITING if is_writing else _PLACEHOLDER
        taken = panel.fit(max(_LEAST_ROWS, height - (0 if is_small else _ROWS_FOR_OTHERS)))
        screen = self._composer.screen
        screen.set_class(is_small, "small-asking")
        screen.set_class(taken >= height, "only-asking")
