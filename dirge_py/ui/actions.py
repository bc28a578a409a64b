"""What the keys of the screen do, one method per action of the keymap."""

import time
from typing import TYPE_CHECKING, Literal

from textual.app import SuspendNotSupported

from dirge_py.errors import DirgeError
from dirge_py.slash.base import Choice
from dirge_py.ui.editor import edit_in_editor

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp

QUIT_WITHIN_S = 2.0
"""A second Ctrl+C within this time quits."""

BACK_WITHIN_S = 1.5
"""A second Esc on an empty input within this time goes back in the session."""

_MODES: tuple[Literal["standard", "accept", "plan"], ...] = ("standard", "accept", "plan")


class Actions:
    """Looked up by name: the action `interrupt` is the method `interrupt`."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app
        self._stopped_at = -QUIT_WITHIN_S
        self._rested_at = -BACK_WITHIN_S

    async def run(self, action: str) -> None:
        """Do what a key asks for; an action that is not ours is passed over."""
        method = getattr(self, action, None)
        if method is not None:
            await method()

    # -- stopping

    async def interrupt(self) -> None:
        """Interrupt; where nothing goes on and nothing is typed, the second press goes back."""
        app = self._app
        if app.talk.interrupt() or app.composer.text or app.talk.state != "ready":
            self._rested_at = -BACK_WITHIN_S
            return
        now = time.monotonic()
        was_pressed, self._rested_at = now - self._rested_at < BACK_WITHIN_S, now
        if was_pressed:
            self._rested_at = -BACK_WITHIN_S
            await app.talk.say("/rewind", "now")
        elif app.talk.conversation is not None and app.talk.conversation.messages:
            name = app.keymap.name_of("screen", "interrupt")
            app.hint(f"{name} again goes back to an earlier prompt.")

    async def stop(self) -> None:
        """Copy, else clear the input, else interrupt, else quit at the second press."""
        app = self._app
        if selected := app.selected_text():
            app.copy_to_clipboard(selected)
            app.drop_selection()
            app.hint("Sent to the terminal's clipboard.")
            return
        now = time.monotonic()
        was_pressed, self._stopped_at = now - self._stopped_at < QUIT_WITHIN_S, now
        if app.composer.text:
            app.composer.prompts.add(app.composer.text)
            app.composer.put("")
        elif not app.talk.interrupt():
            if was_pressed:
                app.leave(0)
            else:
                app.hint(f"{app.keymap.name_of('screen', 'stop')} again quits.")

    async def quit(self) -> None:
        self._app.leave(0)

    async def suspend(self) -> None:
        try:
            self._app.action_suspend_process()
        except SuspendNotSupported:
            self._app.hint("This terminal cannot be suspended.")

    async def background(self) -> None:
        """Let the running command go on by itself; without one the key moves the cursor."""
        conversation = self._app.talk.conversation
        shells = conversation.shells if conversation is not None else None
        shell_id = shells.to_background() if shells is not None else None
        if shell_id is None:
            self._app.composer.action_cursor_left()
            return
        self._app.say(f"The command goes on in the background as {shell_id}; /tasks lists it.")
        self._app.standing_changed()

    # -- looking

    async def toggle_all(self) -> None:
        self._app.transcript.toggle_all()

    async def page_up(self) -> None:
        self._app.transcript.page(-1)

    async def page_down(self) -> None:
        self._app.transcript.page(1)

    async def go_to_start(self) -> None:
        self._app.transcript.go_to_start()

    async def go_to_end(self) -> None:
        self._app.transcript.go_to_end()

    async def redraw(self) -> None:
        self._app.draw_anew()

    # -- writing

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

    # -- permission

    async def cycle_mode(self) -> None:
        conversation = self._app.talk.conversation
        if conversation is None:
            return
        at = _MODES.index(conversation.mode) + 1 if conversation.mode in _MODES else 0
        conversation.set_mode(_MODES[at % len(_MODES)])
        self._app.standing_changed()
