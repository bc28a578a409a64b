"""Descriptions of pictures and documents in one line: kind, pixels and bytes."""

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from struct import unpack_from
from typing import Any

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock

ENOUGH = 256 * 1024
"""Bytes at the start of a file that are read for the size of a picture."""
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a length."""
ImageSize = tuple[int, int]


def image_size(head: bytes) -> ImageSize | None:
    """Return width and height of a PNG, JPEG, GIF or WebP image; None if they are unknown."""
    try:
        size = _read_size(head)
    except struct.error:
        return None  # `head` ends too early.
    return size if size and min(size) > 0 else None


def _read_size(head: bytes) -> ImageSize | None:
    kind = head[12:16]
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return unpack_from(">II", head, 16) if kind == b"IHDR" else None
    if head.startswith(b"\xff\xd8\xff"):
        return _jpeg_size(head)
    if head.startswith((b"GIF87a", b"GIF89a")):
        return unpack_from("<HH", head, 6)
    if not (head.startswith(b"RIFF") and head[8:12] == b"WEBP"):
        return None
    if kind == b"VP8X":
        width, wide, height, high = unpack_from("<HBHB", head, 24)
        return (width | wide << 16) + 1, (height | high << 16) + 1
    if kind == b"VP8L" and head[20:21] == b"\x2f":
        bits = unpack_from("<I", head, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        width, height = unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg_size(head: bytes) -> ImageSize | None:
    at = 2
    while at + 4 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker in _JPEG_FRAMES:
            height, width = unpack_from(">HH", head, at + 5)
            return width, height
        if marker == 0xFF:  # filling
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        else:
            at += 2 + max(2, unpack_from(">H", head, at + 2)[0])
    return None


_INTRODUCED = late_pattern(r"Attached (?:image|document) (.+):\Z", re.DOTALL)
_KINDS = {f"image/{kind.lower()}": kind for kind in ("PNG", "JPEG", "GIF", "WebP")}
_KINDS["application/pdf"] = "PDF"


def attachments_in(content: Sequence[Any]) -> list[tuple[str, ImageBlock | DocumentBlock]]:
    """Return the pictures and documents of a message with their names."""
    attachments: list[tuple[str, ImageBlock | DocumentBlock]] = []
    before = ""
    for block in content:
        if isinstance(block, ImageBlock | DocumentBlock):
            own = block.name if isinstance(block, DocumentBlock) else ""
            attachments.append((before or own, block))
        introduced = _INTRODUCED.match(block.text) if isinstance(block, TextBlock) else None
        before = introduced[1] if introduced else ""
    return attachments


def describe_attachment(block: ImageBlock | DocumentBlock, assets: Path | None) -> str:
    """Return a text such as `PNG, 640×480, 12.0 KiB`, or only the kind without its file."""
    kind = _KINDS.get(block.media_type, clean(block.media_type))
    # The id comes from a journal, which may be forged: only a plain file name is accepted.
    if assets is None or not re.fullmatch(r"[A-Za-z0-9_-]+", block.asset_id):
        return kind
    path = assets / block.asset_id
    try:
        with path.open("rb") as file:
            pixels = image_size(file.read(ENOUGH))
        size = path.stat().st_size
    except OSError:
        return kind
    words = f"{size / 1024:.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"
    words = f"{size} B" if size < 1024 else words
    return ", ".join([kind, *([f"{pixels[0]}×{pixels[1]}"] if pixels else []), words])
