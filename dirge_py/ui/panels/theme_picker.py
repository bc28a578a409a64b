"""Choosing a theme: whoever asks hears which one the cursor is on."""

from collections.abc import Callable, Sequence

from dirge_py.slash.base import Choice
from dirge_py.ui.ink import Ink
from dirge_py.ui.keymap import Keymap
from dirge_py.ui.panels.choices import Picker


class ThemePicker(Picker):
    """A picker that tells each choice that the cursor comes to."""

    def __init__(self, ink: Ink, keymap: Keymap, moved: Callable[[str], object]) -> None:
        super().__init__(ink, keymap)
        self._moved = moved

    def offer(self, choices: Sequence[Choice], *, title: str = "", current: str = "") -> None:
        super().offer(choices, title=title, current=current)
        self._tell()

    def move(self, step: int) -> None:
        super().move(step)
        self._tell()

    def _tell(self) -> None:
        if self.chosen is not None:
            self._moved(self.chosen.id)
