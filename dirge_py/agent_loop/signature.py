"""What makes two tool calls the same call, and two results the same result."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dirge_py.types.messages import TextBlock
from dirge_py.types.tools import LoopToolResult

_LONGEST_SHOWN = 400
_LONGEST_NORMALISED = 64 * 1024
_UNSTABLE = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]"  # colours and cursor movements
    r"|\b0x[0-9a-fA-F]{6,16}\b"  # addresses
    r"|\b\d+(?:\.\d+)?\s?(?:ms|µs|us|ns)\b"  # how long something took
    r"|\b\d+\.\d+\s?s(?:ec(?:onds?)?)?\b"
)


def signature(name: str, arguments: Any) -> str:
    """The name, NUL, and the arguments as canonical JSON: equal for calls that ask the same."""
    return f"{name}\0{canonical_json(arguments)}"


def short_signature(whole: str) -> str:
    """A signature as results carry it: long arguments stand as their SHA-256."""
    if len(whole) <= _LONGEST_SHOWN:
        return whole
    name, _, arguments = whole.partition("\0")
    return f"{name}\0sha256:{hashlib.sha256(arguments.encode()).hexdigest()}"


def canonical_json(value: Any) -> str:
    """Compact JSON with keys sorted at every depth and `1.0` written as `1`.

    Takes any value: what JSON does not know stands as the string of its `repr`, a container that
    holds itself as `"…"`. Depth is bounded by memory alone.
    """
    pieces: list[str] = []
    around: set[int] = set()
    waiting: list[_Piece] = [_Piece(value)]
    while waiting:
        piece = waiting.pop()
        if piece.text is not None:
            pieces.append(piece.text)
            around.discard(id(piece.closes))
        elif id(piece.value) in around:
            pieces.append('"…"')
        else:
            parts = _parts(piece.value)
            if parts is None:
                pieces.append(_atom(piece.value))
                continue
            around.add(id(piece.value))
            waiting.extend(reversed(parts))
    return "".join(pieces)


def result_digest(result: LoopToolResult) -> str:
    """A hash of what a result says: equal where nothing new was learned.

    Colours, addresses, durations and blanks at line ends, which differ from run to run, are left
    out; in a very long result they count.
    """
    text = result.text
    if len(text) <= _LONGEST_NORMALISED:
        text = _UNSTABLE.sub("", text)
    lines = [line.rstrip() for line in text.splitlines()]
    assets = [block.asset_id for block in result.content if not isinstance(block, TextBlock)]
    said = json.dumps([result.is_error, result.details.get("outcome"), lines, assets], default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


class _Piece:
    """A value still to be written, or text; `closes` is the container that ends with it.

    It is kept alive until then, so that its identity belongs to nothing else meanwhile.
    """

    __slots__ = ("closes", "text", "value")

    def __init__(self, value: Any = None, *, text: str | None = None, closes: Any = None) -> None:
        self.value = value
        self.text = text
        self.closes = closes


def _parts(value: Any) -> list[_Piece] | None:
    """The pieces of a container, in order; None for anything else, broken containers too."""
    try:
        if isinstance(value, Mapping):
            named = sorted(((_key(key), item) for key, item in value.items()), key=_name)
            return [*_enclosed("{", "}", value, [(f"{key}:", item) for key, item in named])]
        if isinstance(value, list | tuple):
            return [*_enclosed("[", "]", value, [("", item) for item in value])]
    except Exception:
        return None
    return None


def _enclosed(begin: str, end: str, value: Any, items: list[tuple[str, Any]]) -> Iterator[_Piece]:
    yield _Piece(text=begin)
    for place, (before, item) in enumerate(items):
        yield _Piece(text=f"{',' if place else ''}{before}")
        yield _Piece(item)
    yield _Piece(text=end, closes=value)


def _name(entry: tuple[str, Any]) -> str:
    return entry[0]


def _key(key: Any) -> str:
    return json.dumps(key) if isinstance(key, str) else json.dumps(_atom(key))


def _atom(value: Any) -> str:
    if value is None or isinstance(value, bool | str):
        return json.dumps(value)
    try:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, float) and math.isfinite(value):
            return float.__repr__(value)
        if isinstance(value, int):
            # In hexadecimal Python writes a number of any length.
            return int.__repr__(value) if value.bit_length() < 4096 else hex(value)
        if isinstance(value, set | frozenset):
            return json.dumps(sorted(map(repr, value)))
        return json.dumps(repr(value))
    except Exception:
        return json.dumps(type(value).__name__)
