"""`/tasks` and `/todos`: commands in the background, and the todo list of the model."""

from typing import TYPE_CHECKING

from dirge_py.lib.text import visible
from dirge_py.session.tree import settings_at
from dirge_py.slash.base import FrontEnd
from dirge_py.tools.todo_list import TodoList
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.types.messages import ToolResultMessage

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.processes.shells import Shells, ShellState


_SHOWN_CHARS = 60
_EMPTY = "The todo list is empty."


async def tasks(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    shells = conversation.environment.shells
    if shells is None:
        raise UsageError(
            "/tasks needs a conversation that can run commands.", hint="This one has none."
        )
    if args:
        await _kill(args, shells, front)
        return
    states = shells.list()
    if not states:
        front.show("Nothing runs in the background.")
        return
    front.show("\n".join(map(_task_line, states)))


async def _kill(args: str, shells: "Shells", front: FrontEnd) -> None:
    verb, _, shell_id = args.partition(" ")
    shell_id = shell_id.strip()
    if verb != "kill" or not shell_id:
        raise UsageError(f"/tasks does not know {args!r}.", hint="/tasks lists, /tasks kill ID.")
    if not shells.get(shell_id).is_running:
        front.show(f"{shell_id} has ended already.")
        return
    await shells.kill(shell_id)
    front.show(f"{shell_id} was stopped.", tone="good")


def _task_line(state: "ShellState") -> str:
    ended = {"timed_out": "time limit", "killed": "stopped", "running": "running"}
    how = ended.get(state.status) or (
        f"exit {state.exit_code}" if state.signal is None else f"signal {state.signal}"
    )
    first, *more = state.command.strip().split("\n")
    command = visible(first)
    if more or len(command) > _SHOWN_CHARS:
        command = f"{command[: _SHOWN_CHARS - 1]}…"
    asks = f"  asks: {visible(state.question)}" if state.question else ""
    return (
        f"{state.id:<5} {how:<11} {_duration(state.duration_s):>8} {state.total_bytes:>11,} bytes"
        f"  {command}{asks}"
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _kill_words(conversation: "Conversation") -> list[str]:
    shells = conversation.environment.shells
    states = shells.list() if shells is not None else ()
    return [f"kill {state.id}" for state in states if state.status == "running"]


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
        name="tasks",
        summary="the commands in the background; `kill ID` ends one",
        usage="[kill ID]",
        run=tasks,
        aliases=("bashes", "ps"),
        while_running="yes",
        complete=_kill_words,
    ),
    Command(
        name="todos",
        summary="the todo list of the model",
        run=todos,
        aliases=("todo",),
        headless=True,
    ),
)
