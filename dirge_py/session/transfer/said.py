"""What a reader of a session gets to see of its blocks, whatever the pages look like."""

import json
from collections.abc import Iterator

from dirge_py.lib.clean import clean
from dirge_py.lib.figures import thousands
from dirge_py.session.record import json_text
from dirge_py.session.transfer.document import Document
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
    UserMessage,
)


def heading(document: Document) -> str:
    """The title on one line."""
    return clean(" ".join(document.title.split())) or f"Session {document.id}"


def facts(document: Document) -> list[tuple[str, str]]:
    """Names and values of what is known about the session as a whole."""
    usage = document.usage
    cost = "" if document.cost_usd is None else f"${document.cost_usd:.4f}"
    rows = [
        ("session", document.id),
        ("folder", document.cwd),
        ("model", document.model),
        ("begun", document.created),
        ("last used", document.updated),
        ("messages", str(len(document.messages))),
        ("tokens", f"{thousands(usage.input)} in, {thousands(usage.output)} out"),
        ("cost", cost or "unknown"),
    ]
    return [(name, clean(" ".join(value.split()))) for name, value in rows if value]


def speaker(message: Message) -> str:
    """Who said it, "" for what is not shown."""
    match message:
        case UserMessage(origin="user" | "steering" | "follow_up"):
            return "You"
        case UserMessage() | SystemMessage():
            return "dirge"
        case AssistantMessage(origin="harness"):
            return "dirge"
        case AssistantMessage(model=model):
            return f"Model ({clean(model)})" if model else "Model"
        case ToolResultMessage(tool_name=name, is_error=is_error):
            return f"Result of {clean(name)}" + (", an error" if is_error else "")
        case _:
            return ""


def parts(message: Message) -> Iterator[tuple[str, str, str]]:
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
