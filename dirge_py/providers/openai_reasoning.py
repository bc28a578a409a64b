"""OpenRouter's `reasoning_details`: what a model thought, as its maker wants it back.

They come in pieces and go back whole, in order, with every member as it came.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dirge_py.providers.translator import as_objects, as_text

_GROWING = ("text", "summary", "data")


class Details:
    """The details of one stretch of thinking, put together from their pieces."""

    def __init__(self) -> None:
        self._whole: list[dict[str, Any]] = []

    def add(self, pieces: Sequence[Mapping[str, Any]]) -> None:
        """Take what one chunk brought."""
        for piece in pieces:
            last = self._whole[-1] if self._whole else None
            if last is not None and _continues(last, piece):
                _grow(last, piece)
            else:
                self._whole.append(dict(piece))

    def taken(self) -> str | None:
        """All of them as a JSON text, to be kept as a signature; None if there are none."""
        whole, self._whole = self._whole, []
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


def _continues(whole: Mapping[str, Any], piece: Mapping[str, Any]) -> bool:
    # Encrypted ones come whole, and several may stand in a row.
    if piece.get("type") != whole.get("type") or "data" in piece:
        return False
    same_id = piece.get("id") is None or piece.get("id") == whole.get("id")
    return piece.get("index") == whole.get("index") and same_id and not whole.get("signature")


def _grow(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for name, value in piece.items():
        before = whole.get(name)
        if name in _GROWING and isinstance(before, str) and isinstance(value, str):
            whole[name] = before + value
        elif value is not None or name not in whole:
            whole[name] = value
