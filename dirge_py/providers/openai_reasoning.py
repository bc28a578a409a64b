"""OpenRouter's `reasoning_details`: what a model thought, as its maker wants it back.

They come in pieces and go back whole, in order, with every member as it came.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.providers.translator import as_objects, as_text

_GROWING = ("text", "summary", "data")


class _Detail:
    """One of them, growing."""

    def __init__(self, first: Mapping[str, Any]) -> None:
        self._members = dict(first)
        self._texts = {
            name: [text] for name in _GROWING if isinstance(text := first.get(name), str)
        }

    def is_continued_by(self, piece: Mapping[str, Any]) -> bool:
        # Encrypted ones come whole, and several may stand in a row.
        here = self._members
        if piece.get("type") != here.get("type") or "data" in piece:
            return False
        same_id = piece.get("id") is None or piece.get("id") == here.get("id")
        return piece.get("index") == here.get("index") and same_id and not here.get("signature")

    def grow(self, piece: Mapping[str, Any]) -> None:
        for name, value in piece.items():
            if name in _GROWING and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            elif value is not None:
                self._members[name] = value
            else:
                self._members.setdefault(name, None)

    def joined(self) -> dict[str, Any]:
        return self._members | {name: "".join(told) for name, told in self._texts.items()}


class Details:
    """The details of one stretch of thinking, put together from their pieces."""

    def __init__(self) -> None:
        self._whole: list[_Detail] = []

    def add(self, pieces: Sequence[Mapping[str, Any]]) -> None:
        """Take what one chunk brought."""
        for piece in pieces:
            last = self._whole[-1] if self._whole else None
            if last is not None and last.is_continued_by(piece):
                last.grow(piece)
            else:
                self._whole.append(_Detail(piece))

    def taken(self) -> str | None:
        """All of them as a JSON text, to be kept as a signature; None if there are none."""
        whole, self._whole = [detail.joined() for detail in self._whole], []
        return json.dumps(whole, ensure_ascii=False) if whole else None


def words_of(pieces: Sequence[Mapping[str, Any]]) -> str:
    """What a person can read in them."""
    return "".join(as_text(piece.get("text")) or as_text(piece.get("summary")) for piece in pieces)


def details_of(signature: str | None) -> list[Mapping[str, Any]]:
    """The details in a signature that `taken` made; none if it was made by something else."""
    if not signature or not signature.startswith("["):
        return []
    try:
        return as_objects(json.loads(signature))
    except (ValueError, RecursionError):
        return []
