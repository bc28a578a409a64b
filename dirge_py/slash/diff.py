"""`/diff`: what became of the files in this session."""

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dirge_py.lib.paths import from_home
from dirge_py.lib.text import visible
from dirge_py.session.ids import project_root
from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_MOST_CHARS = 400_000
_MOST_NAMED = 10
_NAMES = re.compile(r"^(?:diff --git \"?a/.* |--- /dev/null\n\+\+\+ )\"?b/(.*?)\"?$", re.MULTILINE)


async def diff(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    found = await conversation.timeline.difference(_within_project(args, conversation))
    if found.obstacle:
        raise UsageError(
            f"What changed cannot be told. {found.obstacle}",
            hint="`snapshots = true` under [session] keeps what the files were.",
        )
    if not found.diff.strip():
        where = f" in {name}" if (name := args.strip()) else ""
        front.show(f"Nothing differs{where} since {found.since}.")
        return
    text = found.diff
    names = [visible(name) for name in dict.fromkeys(_NAMES.findall(text))]
    shown = ", ".join(names[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")
    cut = len(text) > _MOST_CHARS
    if cut:
        text = text[: text.rfind("\n", 0, _MOST_CHARS) + 1]
    count = f"{len(names)} file{'' if len(names) == 1 else 's'}"
    front.show(f"Since {found.since}, whoever did it, {count}: {shown}")
    front.show_diff(text)
    if cut:
        front.show("The rest is left out; /diff FILE shows one file.", tone="warning")


def _within_project(name: str, conversation: "Conversation") -> str:
    if not name:
        return ""
    root = os.path.realpath(project_root(conversation.cwd))
    path = os.path.normpath(conversation.cwd / from_home(name))
    inside = os.path.relpath(
        os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)), root
    )
    if inside == os.pardir or inside.startswith(os.pardir + os.sep):
        raise UsageError(f"{name} is not in the project {root}.", hint="/diff alone shows all.")
    return "" if inside == os.curdir else inside


def changed(conversation: "Conversation") -> Sequence[str]:
    """Files that were handed to tools that write, the newest first."""
    names = [
        str(call.arguments.get("path") or "")
        for message in reversed(conversation.messages)
        if message.role == "assistant"
        for call in message.calls
        if call.name in ("edit", "write")
    ]
    return list(dict.fromkeys(filter(None, names)))


COMMANDS = (
    Command(
        name="diff",
        summary="what differs in the files from when this session began",
        usage="[FILE]",
        run=diff,
        headless=True,
        complete=changed,
    ),
)
