"""Ending something: a run, a command's hold on the turn, the program."""

import time
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp

QUIT_WITHIN_S = 2.0
"""A second Ctrl+C within this time quits."""

BACK_WITHIN_S = 1.5
"""A second Esc on an empty input within this time goes back in the session."""


class Stopping:
    """Interrupting, quitting, suspending, sending to the background."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app
        self._stopped_at = -QUIT_WITHIN_S
        self._rested_at = -BACK_WITHIN_S

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
        """Copy, else clear the input, else interrupt, else quit at the second press.

        Before there is a conversation the first press quits: there is nothing to lose yet.
        """
        app = self._app
        if selected := app.selected.text:
            app.selected.drop()
            app.hint(app.selected.copy(selected))
            return
        now = time.monotonic()
        was_pressed, self._stopped_at = now - self._stopped_at < QUIT_WITHIN_S, now
        if app.composer.text:
            app.composer.prompts.add(app.composer.text)
            app.composer.put("")
        elif not app.talk.interrupt():
            if was_pressed or app.talk.conversation is None:
                app.leave(0)
            else:
                app.hint(f"{app.keymap.name_of('screen', 'stop')} again quits.")

    async def quit(self) -> None:
        self._app.leave(0)

    async def drop_queue(self) -> None:
        """Forget what is queued; it stays among the earlier prompts, and the run goes on."""
        dropped = self._app.talk.drop_queue()
        for text in dropped:
            self._app.composer.prompts.add(text)
        if dropped:
            older = self._app.keymap.name_of("composer", "history_older")
            self._app.hint(f"Dropped from the queue: {len(dropped)}. {older} brings it back.")
        else:
            self._app.hint("Nothing is queued.")

    async def suspend(self) -> None:
        try:
            self._app.action_suspend_process()
        except SuspendNotSupported:
            self._app.hint("This terminal cannot be suspended.")

    async def background(self) -> None:
        """Let the running command go on by itself; without one the key moves the cursor."""
        conversation = self._app.talk.conversation
        shells = conversation.environment.shells if conversation is not None else None
        shell_id = shells.to_background() if shells is not None else None
        if shell_id is None:
            self._app.composer.action_cursor_left()
            return
        self._app.say(f"The command goes on in the background as {shell_id}; /tasks lists it.")
        self._app.standing_changed()
