"""Pictures and documents of a conversation, each as one line: name, kind, pixels and bytes.

The size in pixels is read from the first bytes, which may be any bytes.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import unpack_from
from typing import Any

from dirge_py.lib.text import clean
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock

ENOUGH = 256 * 1024
"""Bytes from the beginning of a file in which every usual picture tells its size."""
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a length after them."""
ImageSize = tuple[int, int]


def image_size(head: bytes) -> ImageSize | None:
    """Width and height of a PNG, JPEG, GIF or WebP picture; None when they cannot be told."""
    size = next((read(head) for is_it, read in _FORMATS if is_it(head)), None)
    return size if size and min(size) > 0 else None


def _png(head: bytes) -> ImageSize | None:
    return _pair(">II", head, 16) if head[12:16] == b"IHDR" else None


def _gif(head: bytes) -> ImageSize | None:
    return _pair("<HH", head, 6)


def _webp(head: bytes) -> ImageSize | None:
    kind = head[12:16]
    if kind == b"VP8X" and len(head) >= 30:
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L" and len(head) >= 25 and head[20] == 0x2F:
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and head[23:26] == b"\x9d\x01\x2a":
        size = _pair("<HH", head, 26)
        return (size[0] & 0x3FFF, size[1] & 0x3FFF) if size else None
    return None


def _jpeg(head: bytes) -> ImageSize | None:
    """Goes from segment to segment until the one that begins a frame."""
    at = 2
    while at + 4 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # filling
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        elif marker in _JPEG_FRAMES:
            size = _pair(">HH", head, at + 5)
            return (size[1], size[0]) if size else None
        else:
            at += 2 + max(2, int.from_bytes(head[at + 2 : at + 4], "big"))
    return None


def _pair(layout: str, head: bytes, at: int) -> ImageSize | None:
    room = 8 if "I" in layout else 4
    if len(head) < at + room:
        return None
    first, second = unpack_from(layout, head, at)
    return int(first), int(second)


_FORMATS: Sequence[tuple[Callable[[bytes], bool], Callable[[bytes], ImageSize | None]]] = (
    (lambda head: head.startswith(b"\x89PNG\r\n\x1a\n"), _png),
    (lambda head: head.startswith(b"\xff\xd8\xff"), _jpeg),
    (lambda head: head.startswith((b"GIF87a", b"GIF89a")), _gif),
    (lambda head: head.startswith(b"RIFF") and head[8:12] == b"WEBP", _webp),
)


_INTRODUCED = re.compile(r"Attached (?:image|document) (.+):\Z", re.DOTALL)
_KINDS = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WebP",
    "application/pdf": "PDF",
}


def names_of(content: Sequence[Any]) -> list[tuple[str, ImageBlock | DocumentBlock]]:
    """The pictures and documents of a message, with the names that they were attached by."""
    found: list[tuple[str, ImageBlock | DocumentBlock]] = []
    before = ""
    for block in content:
        if isinstance(block, ImageBlock | DocumentBlock):
            own = block.name if isinstance(block, DocumentBlock) else ""
            found.append((before or own, block))
        introduced = _INTRODUCED.match(block.text) if isinstance(block, TextBlock) else None
        before = introduced[1] if introduced else ""
    return found


def words_about(block: ImageBlock | DocumentBlock, assets: Path | None) -> str:
    """`PNG, 640×480, 12 kB`; what its file in the folder `assets` does not tell is left out."""
    parts = [_KINDS.get(block.media_type, clean(block.media_type))]
    # The id comes from a journal, which others may have written: it names a file, never a path.
    if assets is not None and re.fullmatch(r"[A-Za-z0-9_-]+", block.asset_id):
        parts += _measured(assets / block.asset_id)
    return ", ".join(parts)


def _measured(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = image_size(file.read(ENOUGH))
        total = path.stat().st_size
    except OSError:
        return []
    return [*([f"{size[0]}×{size[1]}"] if size else []), _size_words(total)]


def _size_words(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.1f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MiB"
