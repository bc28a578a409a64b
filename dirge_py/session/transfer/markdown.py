"""A session as Markdown, for reading and for pasting elsewhere."""

import re
from collections.abc import Iterator

from dirge_py.session.transfer.document import Document
from dirge_py.session.transfer.said import facts, heading, parts, speaker
from dirge_py.types.messages import Message, ToolResultMessage, UserMessage


def as_markdown(document: Document) -> str:
    """What the person said as quotations, what the model said as it wrote it, the rest fenced."""
    lines = [f"# {heading(document)}", ""]
    lines += [f"* {name}: {value}" for name, value in facts(document)]
    for message, at in document.timed():
        who = speaker(message)
        if who:
            lines += ["", f"## {who}" + (f" · {at}" if at else "")]
            lines += _body(message)
    return "\n".join(lines) + "\n"


def _body(message: Message) -> Iterator[str]:
    for kind, name, text in parts(message):
        yield ""
        if isinstance(message, ToolResultMessage) and kind == "text":
            yield from _fenced(text)
        elif isinstance(message, UserMessage):
            # So that no heading of a prompt passes for one of the page.
            yield from (f"> {line}".rstrip() for line in text.split("\n"))
        elif kind == "call":
            yield f"**{name}**"
            yield ""
            yield from _fenced(text)
        elif kind == "thinking":
            yield "*Thinking*"
            yield ""
            yield from _fenced(text)
        elif kind == "other":
            yield f"*{text}*"
        else:
            yield text
            yield from _left_open(text)


def _left_open(text: str) -> Iterator[str]:
    """What ends the fence that `text` left open, so that it swallows nothing that follows."""
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
