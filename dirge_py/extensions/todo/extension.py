"""The todo list as an extension: the list that the tool `todo` and plans write."""

from typing import Any

from dirge_py.tools.todo_list import TodoList
from dirge_py.types.extensions import Extension, ExtensionHost


class Todo(Extension):
    """The todo list of the model."""

    name = "todo"
    summary = "a list of what the model plans to do"

    def __init__(self) -> None:
        self.list = TodoList()
        """The list; the session records its changes."""

    def for_fork(self, options: Any) -> "Todo | None":
        """Share the list with a fork in the same workspace; others have none."""
        return self if options.workspace == "shared" else None


def make(host: ExtensionHost) -> Todo:
    return Todo()
