"""`/config` and `/status`: the settings file, and the state of the session on one page."""

import asyncio
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dirge_py.files.atomic import atomic_write
from dirge_py.files.git import branch_of
from dirge_py.lib.lazy import late
from dirge_py.lib.text import format_usd, visible
from dirge_py.lib.version import __version__
from dirge_py.slash.base import FrontEnd, HasSettings, Unsupported, settings_of
from dirge_py.types.errors import ConfigError, DirgeError, UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.config.commands import changed_settings, config_init
    from dirge_py.conversation.conversation import Conversation
else:
    changed_settings = late("dirge_py.config.commands", "changed_settings")
    config_init = late("dirge_py.config.commands", "config_init")

_LATER = "Most of it holds from the next session on: /clear begins one."
_MOST_TOOLS = 40


async def config(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if not isinstance(front, HasSettings):
        raise Unsupported("showing the settings")
    file = front.settings_file
    if file is None:
        raise UsageError("There are no settings here.", hint="Start `dirge` in a project of yours.")
    match args:
        case "":
            _show(front, file)
        case "edit":
            await _edit(front, file)
        case _:
            raise UsageError(
                f"/config does not know {args!r}.",
                hint="/config shows what is set, /config edit opens the file in your editor.",
            )


def _show(front: FrontEnd, file: Path) -> None:
    settings = settings_of(front)
    changed = changed_settings(settings) if settings is not None else []
    rows = [f"  {line}" for line in changed] or ["  nothing: the defaults hold"]
    where = f"{file}{'' if file.exists() else ' (there is none yet)'}"
    after = "/config edit changes it. `dirge config show` prints every setting."
    front.show("\n".join([f"Settings: {where}", *rows, after]))


async def _edit(front: FrontEnd, file: Path) -> None:
    if not file.exists():
        config_init(path=file)
    before = file.read_text(encoding="utf-8")
    after = await front.edit_text(before)
    if after is None or after.rstrip("\n") == before.rstrip("\n"):
        front.show("Nothing was changed.")
        return
    if file.read_text(encoding="utf-8") != before:
        raise ConfigError(f"{file} was changed by somebody else meanwhile; nothing was written.")
    text = after if after.endswith("\n") else f"{after}\n"
    atomic_write(file, text.encode(), mode=file.stat().st_mode & 0o777)
    try:
        settings_of(front)
    except ConfigError as error:
        front.show(f"Written, but not usable:\n{error.message}\n{error.hint}".strip(), tone="error")
        front.set_input("/config edit")
        return
    front.show(f"{file} was written and holds. {_LATER}", tone="good")


def config_words(conversation: "Conversation") -> list[str]:
    return ["edit"]


async def status(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    profile = await asyncio.to_thread(conversation.environment.read_only_profile)
    rows = [
        ("version", f"dirge {__version__}, Python {platform.python_version()}"),
        *_session(conversation),
        *_place(conversation),
        ("read-only profile", profile),
        *_model(conversation),
        *_configured(front),
        *_equipment(conversation, front),
    ]
    width = max(len(name) for name, _ in rows)
    front.show("\n".join(f"{name:<{width}}  {visible(text)}" for name, text in rows if text))


def _session(conversation: "Conversation") -> Iterator[tuple[str, str]]:
    if conversation.session_id is None:
        yield "session", "none is kept"
        return
    title = conversation.unsent.title
    yield "session", f"{conversation.session_id}{f'  {title}' if title else ''}"
    yield "file", str(conversation.timeline.file or "")


def _place(conversation: "Conversation") -> Iterator[tuple[str, str]]:
    branch = branch_of(conversation.cwd)
    yield "folder", f"{conversation.cwd}{f' · {branch}' if branch else ''}"
    yield "added folders", ", ".join(conversation.settings.folders[1:])
    yield (
        "mode",
        f"{conversation.settings.mode}; {len(conversation.settings.grants)} rules for this session",
    )
    yield "sandbox", conversation.environment.sandbox or "none"


def _model(conversation: "Conversation") -> Iterator[tuple[str, str]]:
    yield "model", f"{conversation.settings.model}, thinking {conversation.settings.thinking}"
    used, window = conversation.context_tokens, conversation.settings.window_tokens
    share = f" ({used / window:.0%})" if window else ""
    yield "context", f"{used:,} of {window:,} tokens{share}"
    cost = format_usd(conversation.cost_usd, conversation.least_usd)
    yield "cost", f"{cost}, {conversation.usage.total:,} tokens"


def _configured(front: FrontEnd) -> Iterator[tuple[str, str]]:
    if not isinstance(front, HasSettings) or front.settings_file is None:
        return
    file = front.settings_file
    yield "settings", f"{file}{'' if file.exists() else ' (none: defaults are in force)'}"
    try:
        settings = front.settings()
    except DirgeError as error:
        yield "", f"{error.message} {error.hint}".strip()
        return
    roles = settings.roles.named() if settings is not None else ()
    yield "roles", ", ".join(f"{role} {spec}" for role, spec in roles)


def _equipment(conversation: "Conversation", front: FrontEnd) -> Iterator[tuple[str, str]]:
    yield "reads", ", ".join(conversation.environment.instruction_files) or "no instruction files"
    book = conversation.settings.prompts
    yield "prompt", book.current.name if book is not None and book.current else ""
    names = [*conversation.tool_names][:_MOST_TOOLS]
    yield "tools", ", ".join(names) or "none"
    for extension in conversation.extensions.all:
        status = extension.status()
        yield extension.name, status.text if status is not None else ""
    shells = (
        conversation.environment.shells.list()
        if conversation.environment.shells is not None
        else ()
    )
    running = sum(state.status == "running" for state in shells)
    yield "background", f"{running} commands running" if running else ""


COMMANDS = (
    Command(
        name="config",
        summary="what is set, and where; `edit` opens the file in your editor and checks it",
        usage="[edit]",
        run=config,
        aliases=("settings",),
        complete=config_words,
    ),
    Command(
        name="status",
        summary="version, session, folders, model, mode, settings, tools and cost at a glance",
        run=status,
        headless=True,
    ),
)
