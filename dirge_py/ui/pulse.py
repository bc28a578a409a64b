"""Once a second, while something runs: how long it has been at it goes on on the screen."""

from typing import TYPE_CHECKING

from textual.timer import Timer

from dirge_py.ui.panels.status import running_shells

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp

_EVERY_S = 1.0


class Pulse:
    """A timer that is there only while it has something to do: an idle screen costs nothing."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app
        self._timer: Timer | None = None

    @property
    def is_beating(self) -> bool:
        return self._timer is not None

    def look(self) -> None:
        """Begin or stop, as things are now."""
        if self._has_work() and self._timer is None:
            self._timer = self._app.set_interval(_EVERY_S, self.beat)
        elif self._timer is not None and not self._has_work():
            self._timer.stop()
            self._timer = None

    def beat(self) -> None:
        """Show what time has changed."""
        app = self._app
        app.surroundings.beat += 1
        if app.chronicle.has_something_to_tick:
            app.chronicle.tick()
            app.transcript.redraw()
        app.standing_changed()

    def _has_work(self) -> bool:
        talk = self._app.talk
        if talk.conversation is None:
            return False
        # A command in the background ends without an event.
        return (
            talk.state in ("working", "compacting", "interrupting")
            or self._app.has_calls_running
            or talk.conversation.side_questions > 0
            or running_shells(talk.conversation) > 0
        )
