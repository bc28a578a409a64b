"""`/clear`, `/sessions`, `/export` and `/rename`: begin, open, delete and export sessions."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from dirge_py.config.paths import state_dir
from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.paths import from_home
from dirge_py.session.history import title_of
from dirge_py.session.ids import project_root
from dirge_py.session.import_export.export import (
    ExportedSession,
    ExportFormat,
    export_file_name,
    render_export,
    write_new_file,
)
from dirge_py.session.store import DAMAGED, SessionSummary, Store, Trash
from dirge_py.slash.base import Choice, FrontEnd, ask_option, command
from dirge_py.types.errors import UsageError
from dirge_py.types.messages import UserMessage

_MOST_SHOWN = 50
_MOST_LISTED = 20
_DELETE = "delete it"
_FORMS = ("md", "html", "json")
_ENDINGS = {".md": "md", ".html": "html", ".htm": "html", ".json": "json"}


@command(
    "clear", "begin a new session; this one is kept", aliases=("new", "reset"), while_running="no"
)
async def clear(args: str, conversation: Conversation, front: FrontEnd) -> None:
    left = conversation.session_id
    await front.open(None)
    if left:
        front.show(f"A new session. The one before: dirge -r {left}", tone="good")


def _session_words(conversation: Conversation) -> list[str]:
    ids = [summary.id for summary in conversation.session.list_sessions()][:_MOST_SHOWN]
    return [*ids, "list", "current", *(f"delete {name}" for name in ids)]


@command(
    "sessions",
    "open another session of this project, list them, or delete one",
    usage="[ID | WORDS | list | current | switch ID | delete [ID]]",
    aliases=("resume",),
    while_running="listing",
    complete=_session_words,
)
async def sessions(args: str, conversation: Conversation, front: FrontEnd) -> None:
    """Let the user pick a session by words of its title; during a run, only show the list."""
    verb, _, rest = args.partition(" ")
    stored = list(conversation.session.list_sessions())
    match verb, rest.strip():
        case ("list", "") | ("", ""):
            if verb or conversation.is_running or conversation.exclusive_owner is not None:
                front.show(_session_list(stored, conversation.session_id))
                return
        case "current", "":
            current, title = conversation.session_id, conversation.unsent.title
            front.show(f"{current}  {title}".rstrip() if current else "Nothing is stored here.")
            return
        case "delete", name:
            await _delete(name, conversation, front)
            return
        case "switch", name:
            args = name
    chosen = await _pick_session(args, stored, conversation, front)
    if chosen is not None and chosen != conversation.session_id:
        await front.open(chosen)


async def _pick_session(
    args: str, stored: Sequence[SessionSummary], conversation: Conversation, front: FrontEnd
) -> str | None:
    # A prefix of the id is enough, or a prefix of what follows its date.
    if args and any(
        name.startswith(args) for s in stored for name in (s.id, s.id.partition("-")[2])
    ):
        return args
    words = args.lower().split()
    matching = [s for s in stored if all(word in s.title.lower() for word in words)]
    if not matching:
        about = f" whose title contains {args!r}" if args else ""
        front.show(f"There are no stored sessions of this project{about}.")
        return None
    choices = []
    for s in matching[:_MOST_SHOWN]:
        detail = f"{DAMAGED * s.is_damaged}{s.messages} messages, {s.id}"
        choices.append(Choice(id=s.id, label=s.title or s.id, detail=detail))
    return await front.pick("Session", choices, current=conversation.session_id or "")


async def _delete(name: str, conversation: Conversation, front: FrontEnd) -> None:
    """Move a session to the trash, by default the current one, and then begin a new one."""
    state = folder_of_state(conversation)
    store = Store(state, project_root(conversation.cwd))
    session_id = store.find(name or conversation.session_id or "")
    titles = {summary.id: summary.title for summary in store.list()}
    text = f"{titles.get(session_id) or 'A session'} ({session_id})\nYou can restore it for a week."
    if await ask_option(front, "Delete", text, {"keep it": "", _DELETE: ""}) != _DELETE:
        front.show("Nothing was deleted.")
        return
    if session_id == conversation.session_id:
        await front.open(None)
    Trash(state).add(store, session_id)
    undo = f"`dirge sessions delete --undo {session_id}` restores it"
    front.show(f"Deleted; for a week {undo}.", tone="good")


def folder_of_state(conversation: Conversation) -> Path:
    """The state folder that this session is stored in, or would be."""
    journal = conversation.timeline.file
    return journal.parents[2] if journal is not None else state_dir()


def _session_list(stored: Sequence[SessionSummary], current: str | None) -> str:
    rows = [
        f"{'▸' if s.id == current else ' '} {s.id}  {s.messages:>5}  "
        f"{DAMAGED * s.is_damaged}{s.title}"
        for s in stored[:_MOST_LISTED]
    ]
    if len(stored) > _MOST_LISTED:
        rows.append(f"  and {len(stored) - _MOST_LISTED} older")
    return "\n".join(rows) or "There are no stored sessions of this project."


@command(
    "export",
    "write the conversation to a new file: Markdown, HTML or JSON",
    usage="[md|html|json] [FILE]",
    complete=lambda conversation: list(_FORMS),
)
async def export(args: str, conversation: Conversation, front: FrontEnd) -> None:
    form, name = _export_target(args.strip())
    messages = tuple(conversation.messages)
    if not messages:
        raise UsageError("This session has no messages yet.", hint="/export writes its messages.")
    prompts = (m for m in messages if isinstance(m, UserMessage) and m.origin == "user")
    session = ExportedSession(
        id=conversation.session_id or "",
        title=conversation.unsent.title or next(map(title_of, prompts), ""),
        cwd=str(conversation.cwd),
        model=conversation.settings.model,
        usage=conversation.usage,
        cost_usd=conversation.cost_usd,
        messages=messages,
    )
    text = render_export(session, cast(ExportFormat, form))
    file = from_home(name) if name else Path(export_file_name(session.title, session.id, form))
    path = write_new_file(conversation.cwd / file, text, other_name=not name)
    front.show(f"Exported {len(messages)} messages to {path}", tone="good")


@command("rename", "give this session another title", usage="TITLE", aliases=("name",))
async def rename(args: str, conversation: Conversation, front: FrontEnd) -> None:
    if not args.strip():
        hint = "For example: /rename the parser, second try"
        raise UsageError("/rename needs a title.", hint=hint)
    title = conversation.rename(args)
    front.show(f"New title of this session: {title}", tone="good")


def _export_target(args: str) -> tuple[str, str]:
    """The format and the file; without a format, the file's suffix decides."""
    first, _, rest = args.partition(" ")
    if first in _FORMS:
        return first, rest.strip()
    if rest and not set(first) & set("./~"):
        hint = f"Formats: {', '.join(_FORMS)}. A file name with spaces needs one before it."
        raise UsageError(f"There is no format {first!r}.", hint=hint)
    return _ENDINGS.get(Path(args).suffix.lower(), "md"), args
