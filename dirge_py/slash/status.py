"""`/status`: how things stand, on one page."""

import asyncio
import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dirge_py.files.git import branch_of
from dirge_py.lib.text import format_usd, visible
from dirge_py.lib.version import __version__
from dirge_py.slash.base import FrontEnd, KnowsSettings
from dirge_py.types.errors import DirgeError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation

_MOST_TOOLS = 40


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
    if not isinstance(front, KnowsSettings) or front.settings_file is None:
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
    known = front.commands.plugins
    found = known.report() if known is not None else ()
    yield "plugins", ", ".join(f"{one.name} ({one.state})" for one in found)
    shells = (
        conversation.environment.shells.list()
        if conversation.environment.shells is not None
        else ()
    )
    running = sum(state.status == "running" for state in shells)
    yield "background", f"{running} commands running" if running else ""


COMMANDS = (
    Command(
        name="status",
        summary="version, session, folders, model, mode, settings, tools and cost at a glance",
        run=status,
        headless=True,
    ),
)
