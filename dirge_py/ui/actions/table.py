"""All actions of the screen by name."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from dirge_py.ui.actions.choosing import Choosing
from dirge_py.ui.actions.looking import Looking
from dirge_py.ui.actions.pasting import Pasting
from dirge_py.ui.actions.reaching import Reaching
from dirge_py.ui.actions.showing import Showing
from dirge_py.ui.actions.stopping import Stopping
from dirge_py.ui.actions.thinking import Thinking
from dirge_py.ui.actions.writing import Writing

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp

FAMILIES: tuple[type, ...] = (
    Stopping,
    Looking,
    Writing,
    Pasting,
    Choosing,
    Reaching,
    Showing,
    Thinking,
)
"""Each is made with the app; its public methods are actions, without arguments and awaited."""


class Actions:
    """Looked up by name: the action `interrupt` is the method `interrupt` of some family."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app
        self._families: tuple[Any, ...] = tuple(family(app) for family in FAMILIES)

    async def run(self, action: str) -> None:
        """Do what a key asks for; an action that is not ours is passed over."""
        if action.startswith("/"):
            await self._app.talk.say(action, "now")
            return
        method = self._find(action)
        if method is not None:
            await method()

    def _find(self, action: str) -> Callable[[], Awaitable[None]] | None:
        found = (getattr(family, action, None) for family in self._families)
        return next((method for method in found if method is not None), None)
