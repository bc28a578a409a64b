"""What the composer cannot do by itself: the queue, an editor."""

from typing import TYPE_CHECKING

from dirge_py.types.errors import DirgeError
from dirge_py.ui.terminal.editor import edit_in_editor

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


class Writing:
    """Everything ends up in the input, and nothing that stood there is lost."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app

    async def up_on_empty(self) -> None:
        """The queue comes back first; only then the earlier prompts."""
        if not self._app.talk.take_queue_back():
            self._app.composer.key_action_history_older()

    async def take_queue_back(self) -> None:
        self._app.talk.take_queue_back()

    async def edit_outside(self) -> None:
        """Give the draft to the editor in full; pastes that it leaves alone stay placeholders."""
        composer = self._app.composer
        draft = composer.draft
        try:
            edited = await edit_in_editor(self._app, composer.pastes.expand(draft))
        except DirgeError as error:
            self._app.say(f"{error.message}\n{error.hint}".strip(), tone="error")
            return
        if edited is not None:
            composer.put(edited)
