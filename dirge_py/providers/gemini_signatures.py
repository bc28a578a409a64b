"""Where thought signatures are kept between two requests.

Gemini seals what it thought into a `thoughtSignature` on a part of its answer: a call, a piece of
text, a thought. It wants each back on the very part it came on. Blocks have no place for that, so a
`ThinkingBlock` carries it in its `signature`: directly before the call it belongs to, directly
behind the text it belongs to, and in the thought itself. The marker in front tells it from what
other services sign; who else reads one (`history.own` lets none) sees that it is not theirs.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Literal

from dirge_py.lib.lean_dataclass import dataclass

SKIP = "skip_thought_signature_validator"
"""What Google documents for calls that have no signature because another model made them."""

_MARK = "gemini:"

On = Literal["call", "text", "thought"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a run of text, `start` to `end` in characters, and its signature ("" for none)."""

    start: int
    end: int
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Seal:
    """The signatures of one call, or of one run of text or thought that is `length` long."""

    on: On
    length: int
    pieces: tuple[Piece, ...]

    def all_pieces(self) -> Sequence[Piece]:
        """The pieces with the unsigned text between them: the whole run, as it was sent."""
        whole: list[Piece] = []
        at = 0
        for piece in self.pieces:
            if piece.start > at:
                whole.append(Piece(at, piece.start))
            whole.append(piece)
            at = piece.end
        if at < self.length:
            whole.append(Piece(at, self.length))
        return whole


def sealed(on: On, length: int, pieces: Iterable[Piece]) -> str | None:
    """The `ThinkingBlock.signature` that keeps `pieces`; None when there are none."""
    kept = [[piece.start, piece.end, piece.signature] for piece in pieces]
    if not kept:
        return None
    return _MARK + json.dumps([on, length, kept], separators=(",", ":"))


def unsealed(signature: str | None) -> Seal | None:
    """What `sealed` kept; None for anything else, such as the signature of another service."""
    if signature is None or not signature.startswith(_MARK):
        return None
    try:
        on, length, kept = json.loads(signature.removeprefix(_MARK))
        pieces = tuple(Piece(start, end, text) for start, end, text in kept)
    except (ValueError, TypeError, RecursionError):
        return None
    is_whole = on in ("call", "text", "thought") and isinstance(length, int) and pieces
    return Seal(on, length, pieces) if is_whole and _is_in_order(pieces, length) else None


def _is_in_order(pieces: Sequence[Piece], length: int) -> bool:
    at = 0
    for piece in pieces:
        is_number = isinstance(piece.start, int) and isinstance(piece.end, int)
        if not is_number or not isinstance(piece.signature, str):
            return False
        if not at <= piece.start <= piece.end <= length:
            return False
        at = piece.end
    return True
