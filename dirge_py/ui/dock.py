"""Where questions are put: above the input, one after the other, the focus going there and back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from textual.widget import Widget

from dirge_py.lib.late import late
from dirge_py.questions import PermissionRequest, Question, TrustOffer
from dirge_py.slash.base import Choice
from dirge_py.ui.editor import edit_file_text
from dirge_py.ui.ink import Ink
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.docked import Answer, DockedPanel
from dirge_py.ui.transcript.layout import Place

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp
    from dirge_py.ui.panels.form import QuestionForm
    from dirge_py.ui.panels.permission import PermissionDialog
    from dirge_py.ui.panels.trust import TrustDialog
else:
    # Nothing is asked in the first frame.
    QuestionForm = late("dirge_py.ui.panels.form", "QuestionForm")
    PermissionDialog = late("dirge_py.ui.panels.permission", "PermissionDialog")
    TrustDialog = late("dirge_py.ui.panels.trust", "TrustDialog")

_SMALL_HEIGHT = 10
"""Rows below which a question takes the place of everything else."""

_ROWS_KEPT = 3
"""Rows that a question leaves to the rest of a screen that is not small."""

_LEAST_ROWS = 3


class _Look(TypedDict):
    ink: Ink
    keymap: Keymap
    guard_s: float


class QuestionDock:
    """The `asker.Dock` of the app, and its pickers."""

    def __init__(self, app: "DirgeApp", guard_s: float) -> None:
        self._app = app
        self._guard_s = guard_s
        self._before: Widget | None = None
        self._is_about_plan = False

    def permission_dialog(self, requests: Sequence[PermissionRequest]) -> "PermissionDialog":
        return PermissionDialog(requests, self._edit_file, **self._look)

    def question_form(self, questions: Sequence[Question]) -> "QuestionForm":
        return QuestionForm(questions, **self._look)

    def trust_dialog(self, offer: TrustOffer) -> "TrustDialog":
        return TrustDialog(offer, **self._look)

    @property
    def _look(self) -> "_Look":
        app = self._app
        return {"ink": app.panel_ink, "keymap": app.keymap, "guard_s": self._guard_s}

    async def _edit_file(self, text: str, path: str) -> str | None:
        return await edit_file_text(self._app, text, path)

    async def put_up(self, panel: DockedPanel[Answer]) -> None:
        app = self._app
        panel.refit = lambda: self._fit(panel, app.size.height)
        app.proposer.close()
        app.catch_up()  # What is asked about has been told, and is shown above.
        self._before = app.focused
        app.talk.is_asking = True
        await app.mount(panel, before=app.queue)
        panel.refit()
        app.standing_changed()
        app.call_after_refresh(self._show_plan)

    async def take_down(self, panel: DockedPanel[Answer]) -> None:
        app = self._app
        app.talk.is_asking = False
        if not app.is_running:
            return  # The program is ending, and took the whole screen down.
        app.screen.remove_class("small-asking", "only-asking")
        self._leave_plan()
        self._give_focus_back()
        await panel.remove()
        self._give_focus_back()  # What the question had hidden could not have it before.
        app.standing_changed()

    def _show_plan(self) -> None:
        """A plan that is asked about is read from its beginning, however little room is left."""
        app = self._app
        plan, page = app.chronicle.phases.to_read, app.transcript
        self._is_about_plan = plan is not None
        if plan is None or not page.sticks:
            return
        row = page.layout_of_blocks.rows.of(plan)
        if page.layout_of_blocks.top(row) < page.first_line:
            page.go_to(Place(row, row.gap))

    def _leave_plan(self) -> None:
        """Whoever has read and decided wants to see what comes of it."""
        if self._is_about_plan:
            self._is_about_plan = False
            self._app.transcript.go_to_end()

    def _give_focus_back(self) -> None:
        """To the list, the search or the reading that the question came upon."""
        app, before = self._app, self._before
        if before is not app.composer and before in app.screen.focus_chain:
            app.set_focus(before)
        else:
            app.shell.take_focus()

    def stop_run(self) -> None:
        self._app.talk.interrupt()

    def fit(self, height: int) -> None:
        """The screen has another height now."""
        for panel in self._app.query(DockedPanel):
            self._fit(panel, height)

    async def pick(self, title: str, choices: Sequence[Choice], current: str) -> str | None:
        try:
            return await self._app.picker.ask(title, choices, current)
        finally:
            self._app.shell.take_focus()

    async def ask_line(self, title: str, *, value: str = "", hidden: bool = False) -> str | None:
        try:
            return await self._app.line_question.ask(title, value=value, hidden=hidden)
        finally:
            self._app.shell.take_focus()

    def _fit(self, panel: DockedPanel[Any], height: int) -> None:
        is_small = height < _SMALL_HEIGHT
        taken = panel.fit(max(_LEAST_ROWS, height - (0 if is_small else _ROWS_KEPT)))
        self._app.screen.set_class(is_small, "small-asking")
        self._app.screen.set_class(taken >= height, "only-asking")
