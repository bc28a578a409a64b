"""Pictures and documents in a conversation, each as one line: name, kind, pixels and bytes."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dirge_py.lib.text import clean
from dirge_py.types.messages import DocumentBlock, ImageBlock, TextBlock
from dirge_py.ui.transcript.image_header import ENOUGH, image_size

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
