"""`/tasks`: the commands in the background, and ending one."""

from typing import TYPE_CHECKING

from dirge_py.lib.text import visible
from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.processes.shells import Shells, ShellState

_SHOWN_CHARS = 60


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
    front.show("\n".join(map(_line, states)))


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


def _line(state: "ShellState") -> str:
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


def _offered(conversation: "Conversation") -> list[str]:
    shells = conversation.environment.shells
    states = shells.list() if shells is not None else ()
    return [f"kill {state.id}" for state in states if state.status == "running"]


COMMANDS = (
    Command(
        name="tasks",
        summary="the commands in the background; `kill ID` ends one",
        usage="[kill ID]",
        run=tasks,
        aliases=("bashes", "ps"),
        while_running="yes",
        complete=_offered,
    ),
)
