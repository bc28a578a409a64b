"""`/add-dir` and `/cd`: more folders to work in, and another one."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.lib.paths import from_home
from dirge_py.lib.text import visible
from dirge_py.slash.base import FrontEnd, NeedsScreen, OpensFolders
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.types.questions import Question, QuestionOption

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_ADD = "add it"
_MOST_OFFERED = 50
_OUTSIDE_THE_SANDBOX = (
    "Commands do not get it: their sandbox was made before. Start with --add-dir for that."
)


async def add_dir(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if not args:
        front.show(
            "\n".join(
                ["Worked in:", *(f"  {visible(one)}" for one in conversation.settings.folders)]
            )
        )
        return
    folder = _folder(args, conversation.cwd)
    if any(_is_in(folder, Path(known)) for known in conversation.settings.folders):
        front.show(f"{visible(str(folder))} is worked in already.")
        return
    means = (
        f"{visible(str(folder))} becomes a part of the workspace until this session ends:\n"
        f"in the mode {conversation.settings.mode}, what is read and edited there is judged as in "
        f"{visible(str(conversation.cwd))}."
    )
    options = (QuestionOption(label=_ADD), QuestionOption(label="cancel"))
    asked = Question(header="Folder", question=means, options=options, is_open=False)
    answers = await front.form([asked])
    if not answers or answers[0].chosen != (_ADD,):
        front.show("Nothing was added.")
        return
    real = conversation.settings.add_folder(folder)
    front.show(f"Worked in, too: {visible(real)}", tone="good")
    if conversation.environment.sandbox:
        front.show(_OUTSIDE_THE_SANDBOX, tone="warning")


async def cd(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    folder = _folder(args or "~", conversation.cwd)
    if not isinstance(front, OpensFolders):
        raise NeedsScreen("another folder")
    if folder == Path(os.path.realpath(conversation.cwd)):
        front.show(f"This is {visible(str(folder))}.")
        return
    left = conversation.session_id
    await front.open_in(folder)
    words = "A new session in another folder; what was allowed ended with the old one."
    way_back = shlex.join(("dirge", "-C", str(conversation.cwd), "-r", left)) if left else ""
    front.show(f"{words}{f' That: {visible(way_back)}' if left else ''}")


def _folder(name: str, cwd: Path) -> Path:
    """The physical folder of that name. Raises UsageError for one that is none."""
    is_quoted = len(name) > 2 and name[0] == name[-1] and name[0] in "'\""
    path = cwd / from_home(name[1:-1] if is_quoted else name)
    try:
        real = path.resolve(strict=True)
        if real.is_dir() and os.access(real, os.X_OK | os.R_OK):
            return real
    except (OSError, ValueError, RuntimeError):
        pass
    if os.path.isdir(path):
        raise UsageError(f"{visible(str(path))} cannot be opened.", hint="See its permissions.")
    if os.path.lexists(path):
        raise UsageError(f"{visible(str(path))} is no folder.", hint="Name the folder it is in.")
    raise UsageError(
        f"There is no folder {visible(str(path))}.",
        hint=f"A relative name begins at {visible(str(cwd))}.",
    )


def _is_in(folder: Path, other: Path) -> bool:
    return folder == other or other in folder.parents


def beside(conversation: "Conversation") -> Sequence[str]:
    """Folders in the one worked in, and those beside it."""
    found = [".."]
    for folder, shown in ((conversation.cwd, ""), (conversation.cwd.parent, "../")):
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        found += [
            f"{shown}{entry.name}"
            for entry in entries
            if not entry.name.startswith(".") and entry.is_dir()
        ]
    return found[:_MOST_OFFERED]


COMMANDS = (
    Command(
        name="add-dir",
        summary="work in another folder, too, until this session ends",
        usage="[DIR]",
        run=add_dir,
        while_running="listing",
        complete=beside,
    ),
    Command(
        name="cd",
        summary="begin a new session in another folder; alone: at home",
        usage="[DIR]",
        run=cd,
        while_running="no",
        complete=beside,
    ),
)
