"""What is shown beside the transcript."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.ui.app import DirgeApp


class Showing:
    """Nothing here changes the conversation."""

    def __init__(self, app: "DirgeApp") -> None:
        self._app = app

    async def todos(self) -> None:
        """The todo list above the input comes, or goes."""
        self._app.surroundings.todos.toggle()
