"""`/clear`, `/sessions`, `/export` and `/rename`: begin, open, delete and export sessions."""

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from dirge_py.config.paths import state_dir
from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.paths import from_home, own_command, shorten_home
from dirge_py.lib.text import clean, one_line, plural, visible
from dirge_py.lib.text_width import align_columns, cell_width, cut
from dirge_py.session.history import shorten_title, title_of
from dirge_py.session.ids import project_id, project_root
from dirge_py.session.import_export.export import (
    ExportedSession,
    ExportFormat,
    export_file_name,
    render_export,
    write_new_file,
)
from dirge_py.session.index.session_index import SessionIndex
from dirge_py.session.index.sources import DAMAGED, SessionSummary
from dirge_py.session.store import Store, Trash
from dirge_py.slash.base import Choice, FrontEnd, ask_option, command
from dirge_py.slash.rewind import relative_time
from dirge_py.types.errors import SessionElsewhere, UsageError
from dirge_py.types.messages import UserMessage

_MOST_SHOWN = 50
_MOST_LISTED = 20
_TITLE_WIDTH = 36
_BRANCH_WIDTH = 20
_PREVIEW_CHARS = 100
_ALL = "--all"
_DELETE = "delete it"
_GO = "go there"
_SESSION_ID = late_pattern(r"\d{8}-[0-9a-z]{6}")
_FORMS = ("md", "html", "json")
_ENDINGS = {".md": "md", ".html": "html", ".htm": "html", ".json": "json"}


@command(
    "clear", "start a new session; this one is kept", aliases=("new", "reset"), while_running="no"
)
async def clear(args: str, conversation: Conversation, front: FrontEnd) -> None:
    left = conversation.session_id
    await front.open(None)
    if left:
        back = f"{own_command()} -r {left}"
        front.show(f"New session. To return to the last one: {back}", tone="good")


def _session_words(conversation: Conversation) -> list[str]:
    ids = [summary.id for summary in conversation.session.list_sessions()][:_MOST_SHOWN]
    verbs = (f"{verb} {name}" for verb in ("delete", "rename") for name in ids)
    return [*ids, "list", "current", _ALL, *verbs]


@command(
    "sessions",
    "open, list, rename (rename ID TITLE) or delete sessions; --all: of all projects",
    usage="[ID | WORDS | list | current | switch ID | delete [ID]]",
    aliases=("resume",),
    while_running="listing",
    complete=_session_words,
)
async def sessions(args: str, conversation: Conversation, front: FrontEnd) -> None:
    """Let the user pick a session by words of its title; during a run, only show the list."""
    words = args.split()
    everywhere = _ALL in words
    args = " ".join(word for word in words if word != _ALL)
    verb, _, rest = args.partition(" ")
    is_busy = conversation.is_running or conversation.exclusive_owner is not None
    match verb, rest:
        case ("list", "") | ("", "") if verb or is_busy:
            stored = await _stored(conversation, everywhere=everywhere)
            front.show(_session_list(stored, conversation, everywhere=everywhere))
            return
        case "current", "":
            current, title = conversation.session_id, conversation.unsent.title
            front.show(
                f"{current}  {title}".rstrip() if current else "There are no stored sessions here."
            )
            return
        case "delete", name:
            store = Store(folder_of_state(conversation), project_root(conversation.cwd))
            session_id = store.find(name or conversation.session_id or "")
            titles = {summary.id: summary.title for summary in store.list()}
            await _delete(store, session_id, titles.get(session_id, ""), conversation, front)
            return
        case "rename", rest:
            name, _, title = rest.partition(" ")
            if not title:
                hint = "For example: /sessions rename 20261120-b3k7qx the parser, second try"
                raise UsageError("/sessions rename needs an id and a title.", hint=hint)
            store = Store(folder_of_state(conversation), project_root(conversation.cwd))
            _rename(store, store.find(name), title, conversation, front)
            return
        case "switch", name:
            args = name
    await _pick_session(args, conversation, front, everywhere=everywhere)


async def _stored(conversation: Conversation, *, everywhere: bool) -> Sequence[SessionSummary]:
    """The sessions of this project, or of all, the most recently used first."""
    index = SessionIndex(folder_of_state(conversation), project_id(conversation.cwd))
    return await asyncio.to_thread(index.sessions, everywhere=everywhere)


async def _pick_session(
    args: str, conversation: Conversation, front: FrontEnd, *, everywhere: bool
) -> None:
    """Let the user open, rename or delete sessions until they open one or cancel."""
    stored = await _stored(conversation, everywhere=everywhere)
    # A prefix of the id is enough, or a prefix of what follows its date.
    own = project_id(conversation.cwd)
    names = [n for s in stored if s.project == own for n in (s.id, s.id.partition("-")[2])]
    if args and (any(name.startswith(args) for name in names) or _SESSION_ID.fullmatch(args)):
        if args != conversation.session_id:
            await front.open(args)
        return
    current = f"{own}/{conversation.session_id}"
    words = args.lower().split()
    while True:
        matching = [s for s in stored if all(word in s.title.lower() for word in words)]
        if not matching:
            about = f" whose title contains {args!r}" if args else ""
            where = "" if everywhere else " of this project"
            more = "" if everywhere else f" `/sessions {_ALL}` shows those of other projects."
            front.show(f"There are no stored sessions{where}{about}.{more}")
            return
        shown = matching[:_MOST_SHOWN]
        picked = await front.pick_or_act(
            "Sessions of all projects" if everywhere else "Sessions of this project",
            _choices(shown, everywhere=everywhere),
            current=current,
            actions={
                "rename": "rename",
                "delete": "delete",
                "all_projects": "this project" if everywhere else "all projects",
            },
        )
        if picked is None:
            return
        action, current = picked
        chosen = next((s for s in shown if _key(s) == current), None)
        if action == "all_projects":
            everywhere = not everywhere
        elif chosen is None:
            return
        elif action is None:
            await _open(chosen, conversation, front)
            return
        else:
            store = Store.of_folder(folder_of_state(conversation), chosen.project)
            if action == "rename":
                title = await front.ask_line("New title", value=chosen.title)
                if title and title.strip():
                    _rename(store, chosen.id, title, conversation, front)
            else:
                is_deleted = await _delete(store, chosen.id, chosen.title, conversation, front)
                if is_deleted and chosen.id == conversation.session_id:
                    return
        stored = await _stored(conversation, everywhere=everywhere)


async def _open(chosen: SessionSummary, conversation: Conversation, front: FrontEnd) -> None:
    """Open a session; one of another project after a question, in its folder."""
    if chosen.project == project_id(conversation.cwd):
        if chosen.id != conversation.session_id:
            await front.open(chosen.id)
        return
    elsewhere = SessionElsewhere(chosen.id, chosen.cwd)
    if not elsewhere.has_folder:
        raise elsewhere
    text = f"“{chosen.title or chosen.id}” belongs to {visible(shorten_home(chosen.cwd))}."
    options = {_GO: "dirge works in that folder from then on", "stay here": ""}
    if await ask_option(front, "Folder", f"{text} Do you want to go there?", options) == _GO:
        await front.open_in(Path(chosen.cwd), chosen.id)


_NO_BRANCH = "-"


def _choices(sessions: Sequence[SessionSummary], *, everywhere: bool) -> Sequence[Choice]:
    """The rows of the picker: title, age, branch, messages, the last words."""
    titles = [
        cut(f"{DAMAGED * s.is_damaged}{clean(s.title or s.id)}", _TITLE_WIDTH) for s in sessions
    ]
    width = max(map(cell_width, titles))
    rows = [_facts(s, everywhere=everywhere) for s in sessions]
    if all(row[1] == _NO_BRANCH for row in rows):
        rows = [[row[0], *row[2:]] for row in rows]
    counts = len(rows[0]) - 1 - everywhere
    facts = align_columns(rows, right=(counts,))
    return [
        Choice(
            id=_key(session),
            label=title + " " * (width - cell_width(title)),
            detail=f"{fact}  {clean(session.last_text)}".rstrip(),
        )
        for session, title, fact in zip(sessions, titles, facts, strict=True)
    ]


def _facts(session: SessionSummary, *, everywhere: bool) -> list[str]:
    """Its age, git branch, number of messages and, in a list of all projects, its folder."""
    row = [
        relative_time(session.updated.isoformat()),
        cut(clean(session.git_branch), _BRANCH_WIDTH) or _NO_BRANCH,
        plural(session.messages, "message"),
    ]
    return [*row, shorten_home(session.cwd)] if everywhere else row


def _key(session: SessionSummary) -> str:
    """The id of its row: ids are unique only within a project."""
    return f"{session.project}/{session.id}"


def _rename(
    store: Store, session_id: str, title: str, conversation: Conversation, front: FrontEnd
) -> None:
    """Store another title; raises SessionBusy if another process writes the session."""
    recorder = conversation.session.recorder
    if session_id == conversation.session_id:
        title = conversation.rename(title)
    else:
        title = recorder.redacted_title(title) if recorder is not None else shorten_title(title)
        store.rename(session_id, title)
    front.show(f"New title: {title}", tone="good")


async def _delete(
    store: Store, session_id: str, title: str, conversation: Conversation, front: FrontEnd
) -> bool:
    """Ask, and move a session to the trash; if it is the current one, begin a new one."""
    text = f"Delete {title or 'a session'} ({session_id})?\nYou can restore it for a week."
    if await ask_option(front, "Delete", text, {"keep it": "", _DELETE: ""}) != _DELETE:
        front.show("Nothing was deleted.")
        return False
    state = folder_of_state(conversation)
    if session_id == conversation.session_id:
        await front.open(None)
    folder = next((s.cwd for s in store.list() if s.id == session_id), "")
    Trash(state).add(store, session_id)
    is_own = store.folder.name == project_id(conversation.cwd)
    where = "" if is_own else f" -C {shlex.quote(folder)}"
    undo = f"`dirge sessions delete{where} --undo {session_id}` restores it"
    front.show(f"Deleted; for a week {undo}.", tone="good")
    return True


def folder_of_state(conversation: Conversation) -> Path:
    """The state folder that this session is stored in, or would be."""
    journal = conversation.timeline.file
    return journal.parents[2] if journal is not None else state_dir()


def _session_list(
    stored: Sequence[SessionSummary], conversation: Conversation, *, everywhere: bool
) -> str:
    """Two lines for each session: its id and facts with the title, and its last words."""
    shown = stored[:_MOST_LISTED]
    current = conversation.session_id
    rows = [
        [
            f"{'▸' if session.id == current else ' '} {session.id}",
            *_facts(session, everywhere=everywhere),
            f"{DAMAGED * session.is_damaged}{session.title}",
        ]
        for session in shown
    ]
    lines = []
    for session, row in zip(shown, align_columns(rows, right=(3,)), strict=True):
        preview = one_line(session.last_text, _PREVIEW_CHARS)
        lines += [row, f"    {preview}"] if preview else [row]
    if len(stored) > _MOST_LISTED:
        lines.append(f"  and {len(stored) - _MOST_LISTED} older")
    where = "" if everywhere else " of this project"
    return "\n".join(lines) or f"There are no stored sessions{where}."


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


@command("rename", "rename this session", usage="TITLE", aliases=("name",))
async def rename(args: str, conversation: Conversation, front: FrontEnd) -> None:
    if not args.strip():
        hint = "For example: /rename the parser, second try"
        raise UsageError("/rename needs a title.", hint=hint)
    title = conversation.rename(args)
    front.show(f"This session is now titled: {title}", tone="good")


def _export_target(args: str) -> tuple[str, str]:
    """The format and the file; without a format, the file's suffix decides."""
    first, _, rest = args.partition(" ")
    if first in _FORMS:
        return first, rest.strip()
    if rest and not set(first) & set("./~"):
        hint = f"Formats: {', '.join(_FORMS)}. A file name with spaces needs one before it."
        raise UsageError(f"There is no format {first!r}.", hint=hint)
    return _ENDINGS.get(Path(args).suffix.lower(), "md"), args
