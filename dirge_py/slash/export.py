"""`/export` and `/rename`: the conversation as a file, and what it is called."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

from dirge_py.lib.lazy import late
from dirge_py.lib.paths import from_home
from dirge_py.session.history import title_of
from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.types.messages import UserMessage

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.session.import_export.export import (
        ExportedSession,
        ExportFormat,
        export_file_name,
        render_export,
        write_new_file,
    )
else:
    ExportedSession = late("dirge_py.session.import_export.export", "ExportedSession")
    render_export = late("dirge_py.session.import_export.export", "render_export")
    export_file_name = late("dirge_py.session.import_export.export", "export_file_name")
    write_new_file = late("dirge_py.session.import_export.export", "write_new_file")

_FORMS = ("md", "html", "json")
_ENDINGS = {".md": "md", ".html": "html", ".htm": "html", ".json": "json"}


async def export(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    form, name = _read(args.strip())
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


def _read(args: str) -> tuple[str, str]:
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


def forms(conversation: "Conversation") -> list[str]:
    return list(_FORMS)


COMMANDS = (
    Command(
        name="export",
        summary="write the conversation to a new file: Markdown, HTML or JSON",
        usage="[md|html|json] [FILE]",
        run=export,
        complete=forms,
    ),
    Command(
        name="rename",
        summary="give this session another title",
        usage="TITLE",
        run=rename,
        aliases=("name",),
    ),
)
