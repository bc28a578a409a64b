"""Exports a session as Markdown, JSON, or one HTML page without scripts or requests."""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Literal

from dirge_py.files.atomic import write_all
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, format_count
from dirge_py.session.codec import Json, encode_message, encode_usage
from dirge_py.session.history import LoadedSession
from dirge_py.session.record import Record, json_text
from dirge_py.types.errors import FileError
from dirge_py.types.messages import (
    AssistantMessage,
    CompactionBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    Usage,
    UserMessage,
)

VERSION = 1
_FACTS = ("id", "title", "cwd", "model", "created", "updated")
_RECORD = ("seq", "ts", "type", "id", "parent", "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSession:
    """A session to export. Its facts are those of `LoadedSession`; empty ones are unknown."""

    id: str
    title: str = ""
    cwd: str = ""
    model: str = ""
    created: str = ""
    updated: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    messages: Sequence[Message] = ()
    """The messages of the current branch."""
    times: Sequence[str] = ()
    """When each message was recorded; "" if unknown."""
    records: Sequence[Record] = ()
    """The whole journal, all branches."""

    def timed(self) -> list[tuple[Message, str]]:
        """Each message with the time it was recorded."""
        times = [*map(clean, self.times), *[""] * (len(self.messages) - len(self.times))]
        return list(zip(self.messages, times, strict=False))


def exported_session(
    session_id: str, loaded: LoadedSession, records: Sequence[Record]
) -> ExportedSession:
    """The exported form of `loaded`, a session that was replayed from `records`."""
    described = loaded.description
    times = {record.id: record.ts for record in records}
    return ExportedSession(
        id=session_id,
        title=described.title,
        cwd=described.cwd,
        model=loaded.choices.model,
        created=described.created,
        updated=described.updated,
        usage=loaded.usage,
        cost_usd=loaded.cost_usd,
        messages=loaded.messages,
        times=[times.get(record_id, "") for record_id in loaded.record_ids],
        records=records,
    )


def as_json(document: ExportedSession) -> str:
    """One JSON object; see docs/cli.md. Everything beyond ASCII is escaped."""
    value: Json = {
        "format": "dirge-session",
        "v": VERSION,
        **{name: getattr(document, name) for name in _FACTS},
        "usage": encode_usage(document.usage),
        "cost_usd": document.cost_usd,
        "messages": [
            {**encode_message(message), **({"at": at} if at else {})}
            for message, at in document.timed()
        ],
        "records": [
            {name: getattr(record, name) for name in _RECORD} for record in document.records
        ],
    }
    # Through `json_text`, which replaces values that JSON can't represent.
    return json.dumps(json.loads(json_text(value)), indent=1) + "\n"


def session_heading(document: ExportedSession) -> str:
    """The title on one line."""
    return clean(" ".join(document.title.split())) or f"Session {document.id}"


def session_facts(document: ExportedSession) -> list[tuple[str, str]]:
    """The known facts about the session as a whole, as (name, value)."""
    usage = document.usage
    cost = "" if document.cost_usd is None else f"${document.cost_usd:.4f}"
    rows = [
        ("session", document.id),
        ("folder", document.cwd),
        ("model", document.model),
        ("begun", document.created),
        ("last used", document.updated),
        ("messages", str(len(document.messages))),
        ("tokens", f"{format_count(usage.input)} in, {format_count(usage.output)} out"),
        ("cost", cost or "unknown"),
    ]
    return [(name, clean(" ".join(value.split()))) for name, value in rows if value]


def speaker(message: Message) -> str:
    """The heading of a message; "" for one that is not shown."""
    match message:
        case UserMessage(origin="user" | "steering" | "follow_up"):
            return "You"
        case UserMessage() | SystemMessage() | AssistantMessage(origin="harness"):
            return "dirge"
        case AssistantMessage(model=model):
            return f"Model ({clean(model)})" if model else "Model"
        case ToolResultMessage(tool_name=name, is_error=is_error):
            return f"Result of {clean(name)}" + (", an error" if is_error else "")
        case _:
            return ""


def message_parts(message: Message) -> Iterator[tuple[str, str, str]]:
    """`(kind, name, text)` of each block: text, thinking, call or other. Safe on any terminal."""
    for block in getattr(message, "content", ()):
        match block:
            case TextBlock(text):
                yield "text", "", clean(text)
            case ThinkingBlock(text=text) if text:
                yield "thinking", "", clean(text)
            case ToolCallBlock(name=name, arguments=arguments):
                yield "call", clean(name), clean(_arguments(arguments))
            case ImageBlock(media_type=kind) | DocumentBlock(media_type=kind):
                yield "other", "", clean(f"attached: {kind}")
            case CompactionBlock(text=text) if text:
                yield "other", "", clean(text)
    if isinstance(message, AssistantMessage) and message.error_message:
        yield "other", "", clean(message.error_message)


def _arguments(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return json.dumps(json.loads(json_text(arguments)), ensure_ascii=False, indent=2)


def as_markdown(document: ExportedSession) -> str:
    """The session as Markdown: prompts quoted, answers verbatim, everything else fenced."""
    lines = [f"# {session_heading(document)}", ""]
    lines += [f"* {name}: {value}" for name, value in session_facts(document)]
    for message, at in document.timed():
        who = speaker(message)
        if who:
            lines += ["", f"## {who}" + (f" · {at}" if at else "")]
            lines += _markdown_body(message)
    return "\n".join(lines) + "\n"


def _markdown_body(message: Message) -> Iterator[str]:
    for kind, name, text in message_parts(message):
        yield ""
        if isinstance(message, ToolResultMessage) and kind == "text":
            yield from _fenced(text)
        elif isinstance(message, UserMessage):
            # Quoted, so that a heading in a prompt can't pass for one of the page.
            yield from (f"> {line}".rstrip() for line in text.split("\n"))
        elif kind in ("call", "thinking"):
            yield f"**{name}**" if kind == "call" else "*Thinking*"
            yield ""
            yield from _fenced(text)
        elif kind == "other":
            yield f"*{text}*"
        else:
            yield text
            yield from _closing_fence(text)


def _closing_fence(text: str) -> Iterator[str]:
    """The line that closes the code fence that `text` leaves open, if any."""
    fence = ""
    for found in re.finditer(r"^ {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)$", text, re.MULTILINE):
        if not fence:
            fence = found[1]
        elif found[1].startswith(fence) and not found[2].strip():
            fence = ""
    if fence:
        yield fence


def _fenced(text: str) -> Iterator[str]:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (fence, text.rstrip("\n"), fence)


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; font-size: .9rem; }
dd { margin: 0; overflow-wrap: anywhere; }
section { border-left: 3px solid #8884; padding-left: 1rem; margin: 1.5rem 0; }
section.you { border-color: #27c; }
section h2 { font-size: .85rem; margin: 0; opacity: .7; font-weight: normal; }
p, pre { white-space: pre-wrap; overflow-wrap: anywhere; }
pre { font-size: .85rem; background: #8881; padding: .5rem; }
"""
# The page opens with the rights of the reader's browser, so it must not load or run anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def as_html(document: ExportedSession) -> str:
    title = escape(session_heading(document))
    rows = "".join(
        f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>\n" for n, v in session_facts(document)
    )
    sections = "".join(_html_section(message, at) for message, at in document.timed())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body><h1>{title}</h1>\n<dl>{rows}</dl>\n{sections}</body></html>\n"
    )


def _html_section(message: Message, at: str) -> str:
    who = speaker(message)
    if not who:
        return ""
    kind = ' class="you"' if who == "You" else ""
    head = escape(who) + (f" · <time>{escape(at)}</time>" if at else "")
    return f"<section{kind}><h2>{head}</h2>\n{''.join(_html_blocks(message))}</section>\n"


def _html_blocks(message: Message) -> Iterator[str]:
    for kind, name, text in message_parts(message):
        body = escape(text)
        if isinstance(message, ToolResultMessage) and kind == "text":
            yield f"<details><summary>output</summary><pre>{body}</pre></details>\n"
        elif kind == "call":
            yield f"<details open><summary>{escape(name)}</summary><pre>{body}</pre></details>\n"
        elif kind == "thinking":
            yield f"<details><summary>thinking</summary><p>{body}</p></details>\n"
        elif kind == "other":
            yield f"<p><em>{body}</em></p>\n"
        else:
            yield f"<p>{body}</p>\n"


ExportFormat = Literal["md", "html", "json"]
EXPORT_FORMATS = {"md": as_markdown, "html": as_html, "json": as_json}


def render_export(document: ExportedSession, form: ExportFormat) -> str:
    """The document as one text that ends with a newline."""
    return EXPORT_FORMATS[form](document)


_MOST_TRIES = 1000


def write_new_file(path: Path, text: str, *, other_name: bool = False) -> Path:
    """Write `text` to a new file, or with `other_name` one with a number. Raises FileError."""
    for number in range(1, _MOST_TRIES if other_name else 2):
        numbered = path.with_stem(f"{path.stem}-{number}") if number > 1 else path
        try:
            with open(numbered, "xb", buffering=0) as file:
                try:
                    write_all(file.fileno(), text.encode("utf-8", "replace"))
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(numbered)
                    raise
            return numbered
        except FileExistsError:
            continue
        except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
            why = getattr(error, "strerror", None) or error
            raise FileError(f"{str(path)!r} cannot be written: {why}.") from error
    raise FileError(f"{str(path)!r} already exists.", hint="Name another file.")


def export_file_name(title: str, session_id: str, ending: str) -> str:
    """A file name made of the title and the id, valid on every file system."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
    return "-".join(filter(None, ("dirge", words, session_id))) + f".{ending}"
