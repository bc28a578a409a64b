"""`/clear`, `/sessions`, `/export` and `/rename`: begin, open, delete and export sessions."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dirge_py.config.paths import state_dir
from dirge_py.lib.lazy import late
from dirge_py.lib.paths import from_home
from dirge_py.session.history import title_of
from dirge_py.session.ids import project_root
from dirge_py.session.import_export.export import ExportedSession, export_file_name, write_new_file
from dirge_py.session.store import SessionSummary, Store, Trash
from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.types.messages import UserMessage
from dirge_py.types.questions import Question, QuestionOption

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.session.import_export.export import ExportFormat, render_export
else:
    render_export = late("dirge_py.session.import_export.export", "render_export")

_MOST_SHOWN = 50
_MOST_LISTED = 20
_DELETE = "delete it"
_FORMS = ("md", "html", "json")
_ENDINGS = {".md": "md", ".html": "html", ".htm": "html", ".json": "json"}


async def clear(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    left = conversation.session_id
    await front.open(None)
    if left:
        front.show(f"A new session. The one before: dirge -r {left}", tone="good")


async def sessions(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    """A list to pick from; during a run, and with `list`, one to read. Words narrow it."""
    verb, _, rest = args.partition(" ")
    stored = list(conversation.session.list_sessions())
    match verb, rest.strip():
        case ("list", "") | ("", ""):
            if verb or conversation.is_running or conversation.exclusive_owner is not None:
                front.show("\n".join(_session_lines(stored, conversation)))
                return
        case "current", "":
            front.show(_current(conversation))
            return
        case "delete", name:
            await _delete(name, conversation, front)
            return
        case "switch", name:
            args = name
    chosen = await _chosen(args, stored, conversation, front)
    if chosen is not None and chosen != conversation.session_id:
        await front.open(chosen)


async def _chosen(
    args: str,
    stored: Sequence[SessionSummary],
    conversation: "Conversation",
    front: FrontEnd,
) -> str | None:
    if args and any(_matches_id(one.id, args) for one in stored):
        return args
    words = args.lower().split()
    found = [one for one in stored if all(word in one.title.lower() for word in words)]
    if not found:
        about = f" whose title has {args!r}" if args else ""
        front.show(f"There are no stored sessions of this project{about}.")
        return None
    choices = [
        Choice(id=one.id, label=one.title or one.id, detail=f"{one.messages} messages, {one.id}")
        for one in found[:_MOST_SHOWN]
    ]
    return await front.pick("Session", choices, current=conversation.session_id or "")


async def _delete(name: str, conversation: "Conversation", front: FrontEnd) -> None:
    """Put a session away, this one by default; behind this one a new one begins."""
    file = conversation.timeline.file
    state = file.parents[2] if file is not None else state_dir()
    store = Store(state, project_root(conversation.cwd))
    wanted = store.find(name or conversation.session_id or "")
    titles = {one.id: one.title for one in store.list()}
    about = f"{titles.get(wanted) or 'A session'} ({wanted})\nIt can be brought back for a week."
    options = (QuestionOption(label="keep it"), QuestionOption(label=_DELETE))
    answers = await front.form(
        [Question(header="Delete", question=about, options=options, is_open=False)]
    )
    if not answers or answers[0].chosen != (_DELETE,):
        front.show("Nothing was deleted.")
        return
    if wanted == conversation.session_id:
        await front.open(None)
    Trash(state).add(store, wanted)
    undo = f"`dirge sessions delete --undo {wanted}` brings it back"
    front.show(f"Deleted; for a week {undo}.", tone="good")


def _session_lines(stored: Sequence[SessionSummary], conversation: "Conversation") -> list[str]:
    if not stored:
        return ["There are no stored sessions of this project."]
    here = conversation.session_id
    rows = [
        f"{'▸' if one.id == here else ' '} {one.id}  {one.messages:>5}  {one.title}"
        for one in stored[:_MOST_LISTED]
    ]
    more = len(stored) - _MOST_LISTED
    return [*rows, f"  and {more} older"] if more > 0 else rows


def _current(conversation: "Conversation") -> str:
    if conversation.session_id is None:
        return "This conversation keeps no session."
    title = conversation.unsent.title
    return f"{conversation.session_id}{f'  {title}' if title else ''}"


def _matches_id(session_id: str, typed: str) -> bool:
    """Whether it begins so, or what follows its date does."""
    return session_id.startswith(typed) or session_id.partition("-")[2].startswith(typed)


def session_words(conversation: "Conversation") -> list[str]:
    ids = [summary.id for summary in conversation.session.list_sessions()][:_MOST_SHOWN]
    return [*ids, "list", "current", *(f"delete {one}" for one in ids)]


async def export(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    form, name = _read_target(args.strip())
    if not conversation.messages:
        raise UsageError("Nothing was said yet.", hint="/export writes down what was said.")
    document = _document(conversation)
    text = render_export(document, cast("ExportFormat", form))
    if name:
        path = write_new_file(conversation.cwd / from_home(name), text)
    else:
        default = export_file_name(document.title, document.id, form)
        path = write_new_file(conversation.cwd / default, text, other_name=True)
    front.show(f"Exported {len(document.messages)} messages to {path}", tone="good")


async def rename(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    if not args.strip():
        raise UsageError("Call it what?", hint="For example: /rename the parser, second try")
    title = conversation.rename(args)
    front.show(f"This session is called: {title}", tone="good")


def _read_target(args: str) -> tuple[str, str]:
    """The form and the file; a form that is not named is the one the file's ending tells."""
    first, _, rest = args.partition(" ")
    if first in _FORMS:
        return first, rest.strip()
    if rest and not set(first) & set("./~"):
        raise UsageError(
            f"There is no format {first!r}.",
            hint=f"Formats: {', '.join(_FORMS)}. A name with blanks stands behind one of them.",
        )
    return _ENDINGS.get(Path(args).suffix.lower(), "md"), args


def _document(conversation: "Conversation") -> "ExportedSession":
    messages = tuple(conversation.messages)
    prompts = (m for m in messages if isinstance(m, UserMessage) and m.origin == "user")
    return ExportedSession(
        id=conversation.session_id or "",
        title=conversation.unsent.title or next(map(title_of, prompts), ""),
        cwd=str(conversation.cwd),
        model=conversation.settings.model,
        usage=conversation.usage,
        cost_usd=conversation.cost_usd,
        messages=messages,
    )


def export_forms(conversation: "Conversation") -> list[str]:
    return list(_FORMS)


COMMANDS = (
    Command(
        name="clear",
        summary="begin a new session; this one is kept",
        run=clear,
        aliases=("new", "reset"),
        while_running="no",
    ),
    Command(
        name="sessions",
        summary="go on in another session of this project, list them, or delete one",
        usage="[ID | WORDS | list | current | switch ID | delete [ID]]",
        run=sessions,
        aliases=("resume",),
        while_running="listing",
        complete=session_words,
    ),
    Command(
        name="export",
        summary="write the conversation to a new file: Markdown, HTML or JSON",
        usage="[md|html|json] [FILE]",
        run=export,
        complete=export_forms,
    ),
    Command(
        name="rename",
        summary="give this session another title",
        usage="TITLE",
        run=rename,
        aliases=("name",),
    ),
)
