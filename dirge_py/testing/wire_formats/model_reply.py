"""The answer of a model that `FakeService` streams."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

BreakKind = Literal["reset", "close", "stall"]
"""How a connection breaks: reset, closed too early, or open and silent."""


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """A model's answer, which `FakeService` streams in the format that the request asks for."""

    text: str = ""
    """The text."""
    thinking: str = ""
    """The thinking before it."""
    signature: str = "sig"
    """The signature of the thinking."""
    calls: Sequence[tuple[str, Any]] = ()
    """Tool calls: names and arguments; a string is sent as it is, so that it may be broken."""
    stop: str = ""
    """The stop reason in the words of the service; empty: the usual one."""
    usage: tuple[int, int, int, int] = (10, 5, 0, 0)
    """Tokens: input, output, cache read, cache write."""
    delta_chars: int = 0
    """Characters in each delta; 0: all in one."""
    chunk_bytes: int = 0
    """Send the body in pieces of this length, regardless of lines and characters; 0: by event."""
    cut_seed: int | None = None
    """Send it in pieces of random length, by this seed."""
    gap_s: float = 0.0
    """Seconds between the pieces."""
    after_bytes: int | None = None
    """Send only so much of the body; then do `then`."""
    then: BreakKind = "close"
    """How the connection breaks."""
    line_end: str = "\n"
    """The end of each line."""


def split(text: str, width: int) -> list[str]:
    """Return the text in pieces of `width` characters; 0: in one."""
    width = width or len(text) or 1
    return [text[at : at + width] for at in range(0, len(text), width)]


def as_json(arguments: Any) -> str:
    """Return arguments as the JSON of a tool call; a string stays as it is."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
