"""Two keys for one action: what happens between the first and the second."""

from typing import TYPE_CHECKING

from textual.timer import Timer

from dirge_py.ui.key_names import spell
from dirge_py.ui.keymap import TOGETHER

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp

_CANCELS = ("escape", "ctrl+g", "ctrl+c")


class Chords:
    """Holds a first key until the second comes, or too late. Only while the input listens."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app
        self._first = ""
        self._timer: Timer | None = None

    def takes(self, key: str) -> bool:
        """Whether `key` belongs to a chord, and so to nobody else."""
        app = self._app
        if app.focused not in (None, app.composer, app.transcript):
            self.drop()
            return False
        if not self._first:
            return self._begin(key)
        first = self._first
        self.drop()
        if key in _CANCELS:
            return True
        found = app.keymap.action(f"{first} {key}", *TOGETHER)
        if found is None:
            app.hint(f"{spell(first)} {spell(key)} does nothing; /keybindings lists what does.")
        else:
            app.composer.act(*found)
        return True

    def drop(self) -> None:
        """Forget a first key."""
        if self._timer is not None:
            self._timer.stop()
        if self._first:
            self._app.hint("")
        self._first, self._timer = "", None

    def _begin(self, key: str) -> bool:
        app = self._app
        if not app.keymap.begins_chord(key):
            return False
        self._first = key
        self._timer = app.set_timer(app.opening.looks.chord_timeout_s, self.drop)
        app.hint(f"{spell(key)} … the second key; Esc cancels")
        return True
