"""`/add-dir`, `/cd` and `/diff`: the folders a session works in, and what became of their files."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.lib.paths import from_home
from dirge_py.lib.text import visible
from dirge_py.session.ids import project_root
from dirge_py.slash.base import CanOpenFolder, FrontEnd, Unsupported
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
_MOST_CHARS = 400_000
_MOST_NAMED = 10
_NAMES = re.compile(r"^(?:diff --git \"?a/.* |--- /dev/null\n\+\+\+ )\"?b/(.*?)\"?$", re.MULTILINE)


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
    if not isinstance(front, CanOpenFolder):
        raise Unsupported("another folder")
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


def folder_words(conversation: "Conversation") -> Sequence[str]:
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


def changed_files(conversation: "Conversation") -> Sequence[str]:
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
        name="add-dir",
        summary="work in another folder, too, until this session ends",
        usage="[DIR]",
        run=add_dir,
        while_running="listing",
        complete=folder_words,
    ),
    Command(
        name="cd",
        summary="begin a new session in another folder; alone: at home",
        usage="[DIR]",
        run=cd,
        while_running="no",
        complete=folder_words,
    ),
    Command(
        name="diff",
        summary="what differs in the files from when this session began",
        usage="[FILE]",
        run=diff,
        headless=True,
        complete=changed_files,
    ),
)
