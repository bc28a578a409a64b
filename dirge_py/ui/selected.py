"""What is selected, wherever on the screen that is, and how it gets onto the clipboard."""

from typing import TYPE_CHECKING

from dirge_py.ui.clipboard import Clipboard

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


class Selected:
    """One selection at a time: in the input, in the transcript, or elsewhere."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app

    @property
    def text(self) -> str:
        app = self._app
        own = app.composer.selected_text or app.transcript.selection.text
        return own or app.screen.get_selected_text() or ""

    def drop(self) -> None:
        app = self._app
        app.transcript.drop_selection()
        app.screen.clear_selection()
        app.composer.move_cursor(app.composer.cursor_location)

    def copy(self, text: str) -> str:
        """Put `text` on the clipboard; returns what can truthfully be said of that."""
        app = self._app
        clipboard = Clipboard(app.to_terminal, wanted=app.opening.looks.clipboard)
        conversation = app.talk.conversation
        is_kept = conversation is None or conversation.session_id is not None
        return clipboard.copy(text, keeps=is_kept)
