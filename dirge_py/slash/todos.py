"""`/todos`: what the model has set out to do."""

from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.session.tree import settings_at
from dirge_py.slash.base import FrontEnd
from dirge_py.types.extensions import Command
from dirge_py.types.messages import ToolResultMessage

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.tools.todo_list import TodoList
else:
    TodoList = late("dirge_py.tools.todo_list", "TodoList")

_EMPTY = "The todo list is empty."


async def todos(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    records = conversation.timeline.records()
    if not records:
        front.show(_last_told(conversation) or _EMPTY)
        return
    listed = TodoList()
    listed.load(settings_at(records).get("todo"))
    done = sum(item.status == "done" for item in listed.items)
    if not listed.items:
        front.show(_EMPTY)
        return
    front.show(f"Todo list, {done} of {len(listed.items)} done\n{listed.as_text()}")


def _last_told(conversation: "Conversation") -> str:
    """The list as the model was told it last; "" if it never wrote one."""
    for message in reversed(conversation.messages):
        if isinstance(message, ToolResultMessage) and message.tool_name == "todo":
            return message.text
    return ""


COMMANDS = (
    Command(
        name="todos",
        summary="the todo list of the model",
        run=todos,
        aliases=("todo",),
        headless=True,
    ),
)
