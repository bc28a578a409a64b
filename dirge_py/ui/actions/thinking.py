"""What models say to themselves: shown, or not."""

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


class Thinking:
    """What is on the screen already stays as it is; Ctrl+O opens all of it."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app

    async def toggle_reasoning(self) -> None:
        show_thinking(self._app, not self._app.opening.looks.show_thinking)


def show_thinking(app: "DirgeApp", is_shown: bool) -> None:
    """Show thinking from the next answer on, in this and later sessions; or no longer."""
    app.opening.looks = replace(app.opening.looks, show_thinking=is_shown)
    app.chronicle.show_thinking(is_shown)
    app.say(f"Thinking is {'shown' if is_shown else 'hidden'} from the next answer on.")
