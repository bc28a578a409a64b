"""Settings of the conversation that have a key of their own."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp

_MODES: tuple[Literal["standard", "accept", "plan"], ...] = ("standard", "accept", "plan")


class Choosing:
    """What applies from the next call or turn on."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app

    async def cycle_mode(self) -> None:
        conversation = self._app.talk.conversation
        if conversation is None:
            return
        at = (
            _MODES.index(conversation.settings.mode) + 1
            if conversation.settings.mode in _MODES
            else 0
        )
        conversation.settings.set_mode(_MODES[at % len(_MODES)])
        self._app.standing_changed()
