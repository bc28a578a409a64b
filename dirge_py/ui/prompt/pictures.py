"""Pictures in the input: each stands there as `[image 640x480 png]` and is sent with the prompt."""

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from dirge_py.files.assets import asset_type
from dirge_py.ui.prompt.pastes import Pastes
from dirge_py.ui.transcript.image_header import image_size

MOST = 20
"""Pictures kept for prompts that are called back; the oldest go first."""

_LONGEST_PATH = 4096
_DROPPED = re.compile(r"\.(?:png|jpe?g|gif|webp)\Z", re.IGNORECASE)


class Pictures:
    """Those pasted since the start, by their placeholders, which `pastes` keeps whole."""

    def __init__(self, pastes: Pastes) -> None:
        self._pastes = pastes
        self._contents: dict[str, bytes] = {}

    def take(self, content: bytes) -> str:
        """The placeholder for a picture; the same one has the same."""
        for name, known in self._contents.items():
            if known == content:
                return name
        kind = asset_type(content[:32])
        size = image_size(content)
        pixels = f"{size[0]}x{size[1]} " if size is not None else ""
        words = f"image {pixels}{kind.media_type.rpartition('/')[2] if kind else ''}".strip()
        name, number = f"[{words}]", 2
        while name in self._contents:
            name, number = f"[{words} #{number}]", number + 1
        self._pastes.stand_in(name[1:-1], name)
        self._contents[name] = content
        while len(self._contents) > MOST:
            del self._contents[next(iter(self._contents))]
        return name

    def in_text(self, text: str) -> Mapping[str, bytes]:
        """The pictures that a prompt holds, by their placeholders, from the left."""
        held = [(text.find(name), name) for name in self._contents if name in text]
        return {name: self._contents[name] for _, name in sorted(held)}


def as_mention(pasted: str) -> str:
    """`@path ` for the path of a picture, as terminals paste a file dropped on them; else `pasted`.

    They quote it, escape its blanks, or give it as `file://`.
    """
    text = pasted.strip()
    if not text or "\n" in text or len(text) > _LONGEST_PATH:
        return pasted
    if text.startswith("file://"):
        path = unquote(urlsplit(text).path)
    elif text[0] == text[-1] and text[0] in "'\"" and len(text) > 1:
        path = text[1:-1]
    else:
        path = re.sub(r"\\(.)", r"\1", text)
    is_picture = os.path.isabs(path) and _DROPPED.search(path) and '"' not in path
    if not is_picture or not os.path.isfile(path):
        return pasted
    return f'@"{path}" ' if re.search(r"\s", path) else f"@{path} "
