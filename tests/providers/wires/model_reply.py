"""A model's answer that a fake service streams in any wire format."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

BreakKind = Literal["reset", "close", "stall"]


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """A complete answer to stream. `usage` is (input, output, cache read, cache write).

    `chunk_bytes` cuts the stream there, regardless of lines and characters; `cut_seed` cuts it at
    random places; else every event is sent by itself. `after_bytes` of the body `then` happens.
    `gap_s` passes between pieces.
    """

    text: str = ""
    thinking: str = ""
    signature: str = "sig"
    calls: Sequence[tuple[str, Any]] = ()
    stop: str = ""
    usage: tuple[int, int, int, int] = (10, 5, 0, 0)
    delta_chars: int = 0
    chunk_bytes: int = 0
    cut_seed: int | None = None
    gap_s: float = 0.0
    after_bytes: int | None = None
    then: BreakKind = "close"
    line_end: str = "\n"


def split(text: str, width: int) -> list[str]:
    width = width or len(text) or 1
    return [text[at : at + width] for at in range(0, len(text), width)]


def as_json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
