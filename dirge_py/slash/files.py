"""`/add-dir`, `/cd` and `/diff`: the folders of a session, and what changed in them."""

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.paths import from_home
from dirge_py.lib.text import plural, visible
from dirge_py.session.ids import project_root
from dirge_py.slash.base import FrontEnd, ask_option, command
from dirge_py.types.errors import UsageError

_ADD = "add it"
_MOST_OFFERED = 50
_OUTSIDE_THE_SANDBOX = (
    "Commands cannot use it: their sandbox already exists. Start dirge with --add-dir for that."
)
_MOST_CHARS = 400_000
_MOST_NAMED = 10
_NAMES = late_pattern(
    r"^(?:diff --git \"?a/.* |--- /dev/null\n\+\+\+ )\"?b/(.*?)\"?$", re.MULTILINE
)


def _folder_names(conversation: Conversation) -> Sequence[str]:
    """The folders inside the current one, and those beside it."""
    names = [".."]
    for folder, prefix in ((conversation.cwd, ""), (conversation.cwd.parent, "../")):
        with suppress(OSError):
            inside = (e.name for e in os.scandir(folder) if e.name[0] != "." and e.is_dir())
            names += [f"{prefix}{name}" for name in sorted(inside)]
    return names[:_MOST_OFFERED]


@command(
    "add-dir",
    "add a folder to the workspace until this session ends",
    usage="[DIR]",
    while_running="listing",
    complete=_folder_names,
)
async def add_dir(args: str, conversation: Conversation, front: FrontEnd) -> None:
    settings = conversation.settings
    if not args:
        front.show("\n".join(["Folders:", *(f"  {visible(name)}" for name in settings.folders)]))
        return
    folder = _folder(args, conversation.cwd)
    shown = visible(str(folder))
    if any(map(folder.is_relative_to, settings.folders)):
        front.show(f"{shown} is already part of the workspace.")
        return
    text = (
        f"{shown} becomes part of the workspace until this session ends: the mode {settings.mode} "
        f"applies there as in {visible(str(conversation.cwd))}."
    )
    if await ask_option(front, "Folder", text, {_ADD: "", "cancel": ""}) != _ADD:
        front.show("Nothing was added.")
        return
    front.show(f"Added: {visible(settings.add_folder(folder))}", tone="good")
    if conversation.environment.sandbox:
        front.show(_OUTSIDE_THE_SANDBOX, tone="warning")


@command(
    "cd",
    "start a new session in another folder; without DIR: at home",
    usage="[DIR]",
    while_running="no",
    complete=_folder_names,
)
async def cd(args: str, conversation: Conversation, front: FrontEnd) -> None:
    folder = _folder(args or "~", conversation.cwd)
    if folder == Path(os.path.realpath(conversation.cwd)):
        front.show(f"This is {visible(str(folder))}.")
        return
    left = conversation.session_id
    await front.open_in(folder)
    words = "This is a new session; what you allowed in the old one no longer applies."
    if left:
        way_back = shlex.join(("dirge", "-C", str(conversation.cwd), "-r", left))
        words += f" To go back: {visible(way_back)}"
    front.show(words)


def _folder(name: str, cwd: Path) -> Path:
    """The physical folder of that name. Raises UsageError: there is none."""
    is_quoted = len(name) > 2 and name[0] == name[-1] and name[0] in "'\""
    path = cwd / from_home(name[1:-1] if is_quoted else name)
    try:
        real = path.resolve(strict=True)
        if real.is_dir() and os.access(real, os.X_OK | os.R_OK):
            return real
    except (OSError, ValueError, RuntimeError):
        pass
    if os.path.isdir(path):
        raise UsageError(f"Cannot open {visible(str(path))}.", hint="Check its permissions.")
    if os.path.lexists(path):
        raise UsageError(f"{visible(str(path))} is not a folder.", hint="Give its folder.")
    hint = f"Relative paths start at {visible(str(cwd))}."
    raise UsageError(f"There is no folder {visible(str(path))}.", hint=hint)


def _edited_files(conversation: Conversation) -> Sequence[str]:
    """The files that the model edited or wrote, the newest first."""
    answers = (m for m in reversed(conversation.messages) if m.role == "assistant")
    calls = (call for m in answers for call in m.calls if call.name in ("edit", "write"))
    return list(dict.fromkeys(str(c.arguments["path"]) for c in calls if c.arguments.get("path")))


@command(
    "diff",
    "show what changed in the files since this session began",
    usage="[FILE]",
    headless=True,
    complete=_edited_files,
)
async def diff(args: str, conversation: Conversation, front: FrontEnd) -> None:
    difference = await conversation.timeline.difference(_within_project(args, conversation))
    if difference.obstacle:
        hint = "Set `snapshots = true` under [session] to keep snapshots of files."
        raise UsageError(f"There is no record of what changed. {difference.obstacle}", hint=hint)
    text = difference.diff
    if not text.strip():
        where = f" in {name}" if (name := args.strip()) else ""
        front.show(f"Nothing changed{where} since {difference.since}.")
        return
    names = [visible(name) for name in dict.fromkeys(_NAMES.findall(text))]
    shown = ", ".join(names[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")
    if cut := len(text) > _MOST_CHARS:
        text = text[: text.rfind("\n", 0, _MOST_CHARS) + 1]
    files = plural(len(names), "file")
    front.show(f"Since {difference.since}, by you or the model, {files}: {shown}")
    front.show_diff(text)
    if cut:
        front.show("The rest is not shown; /diff FILE shows one file.", tone="warning")


def _within_project(name: str, conversation: Conversation) -> str:
    if not name:
        return ""
    root = os.path.realpath(project_root(conversation.cwd))
    path = os.path.normpath(conversation.cwd / from_home(name))
    folder, file = os.path.split(path)
    inside = os.path.relpath(os.path.join(os.path.realpath(folder), file), root)
    if inside == os.pardir or inside.startswith(os.pardir + os.sep):
        raise UsageError(f"{name} is not in the project {root}.", hint="/diff alone shows all.")
    return "" if inside == os.curdir else inside
