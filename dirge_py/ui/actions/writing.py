"""What the composer cannot do by itself: earlier prompts, the queue, an editor."""

from typing import TYPE_CHECKING

from dirge_py.errors import DirgeError
from dirge_py.slash.base import Choice
from dirge_py.ui.editor import edit_in_editor

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

    async def search_history(self) -> None:
        prompts = list(dict.fromkeys(reversed(self._app.composer.prompts.prompts)))
        choices = [Choice(id=prompt, label=prompt) for prompt in prompts]
        chosen = await self._app.dock.pick("Earlier prompts", choices, "")
        if chosen is not None:
            self._app.composer.put(chosen)

    async def edit_outside(self) -> None:
        composer = self._app.composer
        try:
            edited = await edit_in_editor(self._app, composer.pastes.expand(composer.text))
        except DirgeError as error:
            self._app.say(f"{error.message}\n{error.hint}".strip(), tone="error")
            return
        if edited is not None:
            composer.put(edited)
