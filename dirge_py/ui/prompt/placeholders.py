"""Placeholders in the input, such as `[12 lines pasted]`; sending replaces them by the content."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from dirge_py.files.assets import asset_type
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.text import clean
from dirge_py.ui.transcript.images import image_size

LARGEST = 1_048_576
"""Characters of a paste at most."""
_INLINE_LINES = 3
_INLINE_CHARACTERS = 2_000
_FIRST_SIGN = 0x100000
_ESCAPED = {"!": " ", "/": "/"}
"""Prefixes that make a prompt of a text that begins like a command."""
_READABLE_CHARACTERS = 40_000
"""Characters of a restored text that is shown in full; a longer one would make keys slow."""


class Pastes:
    """The texts pasted since the start, by placeholder; `spans` finds placeholders in a line."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def add(self, pasted: str, before: str) -> tuple[str, str]:
        """Add a paste; return the text to insert, and the end of `before` that it replaces."""
        text = clean(pasted[:LARGEST])
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= _INLINE_LINES and len(text) <= _INLINE_CHARACTERS:
            return text, ""
        spans = self.spans(before)
        last = before[spans[-1][0] :] if spans and spans[-1][1] == len(before) else ""
        if last and self._texts[last] == text:
            return text, last  # The second paste of a text inserts it in full.
        return self.stand_in(f"{_amount(text, lines)} pasted", text), ""

    def stand_in(self, words: str, text: str | None = None) -> str:
        """Return a placeholder for `text`, or for itself: `[words]`, or `[words #2]` and so on."""
        name, number = f"[{words}]", 2
        while self._texts.get(name, text) != text:
            name, number = f"[{words} #{number}]", number + 1
        if name not in self._texts:
            self._texts[name] = name if text is None else text
            self._pattern = re.compile("|".join(map(re.escape, self._texts)))
        return name

    def expand(self, text: str) -> str:
        """Replace placeholders by their texts, which can't make a command of the prompt."""
        if self._pattern is None:
            return text
        whole = self._pattern.sub(lambda match: self._texts[match[0]], text)
        return whole if whole[:1] == text[:1] else _ESCAPED.get(whole[:1], "") + whole

    def fold(self, text: str) -> str:
        """Replace pasted texts by their placeholders, the longest text first."""
        pieces = [text]
        for name, pasted in sorted(self._texts.items(), key=lambda item: -len(item[1])):
            pieces = [
                part
                for piece in pieces
                for part in ([piece] if piece in self._texts else _split(piece, pasted, name))
            ]
        return "".join(pieces)

    def recalled(self, text: str) -> str:
        """Return a restored text with placeholders, so that editing it is quick."""
        folded = self.fold(text)
        if len(folded) <= _READABLE_CHARACTERS:
            return folded
        whole = self.expand(folded)
        return self.stand_in(f"{_amount(whole, whole.count(chr(10)) + 1)} from before", whole)

    def spans(self, line: str) -> Sequence[tuple[int, int]]:
        """Return start and end of each placeholder in a line."""
        if self._pattern is None or "[" not in line:
            return ()
        return [match.span() for match in self._pattern.finditer(line)]

    def as_signs(self, text: str) -> str:
        """Replace each placeholder by a character of a private range."""
        if self._pattern is None:
            return text
        numbers = {name: number for number, name in enumerate(self._texts)}
        return self._pattern.sub(lambda match: chr(_FIRST_SIGN + numbers[match[0]]), text)

    def from_signs(self, text: str) -> str:
        """Replace characters from `as_signs` by their placeholders."""
        names = {_FIRST_SIGN + number: name for number, name in enumerate(self._texts)}
        return text.translate(names)


def _amount(text: str, lines: int) -> str:
    return f"{lines} lines" if lines > _INLINE_LINES else f"{len(text)} characters"


def _split(text: str, pasted: str, name: str) -> Iterator[str]:
    for number, piece in enumerate(text.split(pasted)):
        if number:
            yield name
        yield piece


MOST_IMAGES = 20
"""Pictures kept at most; the oldest are dropped first."""
_LONGEST_PATH = 4096
_DROPPED = late_pattern(r"\.(?:png|jpe?g|gif|webp)\Z", re.IGNORECASE)


class PromptImages:
    """The pictures pasted since the start, by placeholder."""

    def __init__(self, pastes: Pastes) -> None:
        self._pastes = pastes
        self._contents: dict[str, bytes] = {}

    def add(self, content: bytes) -> str:
        """Add a picture; return its placeholder, which is the same for the same picture."""
        for name, known in self._contents.items():
            if known == content:
                return name
        kind = asset_type(content[:32])
        size = image_size(content)
        pixels = f"{size[0]}x{size[1]} " if size is not None else ""
        words = f"image {pixels}{kind.media_type.rpartition('/')[2] if kind else ''}".strip()
        name = self._pastes.stand_in(words)
        self._contents[name] = content
        while len(self._contents) > MOST_IMAGES:
            del self._contents[next(iter(self._contents))]
        return name

    def in_text(self, text: str) -> Mapping[str, bytes]:
        """Return the pictures of a prompt by placeholder, in order."""
        names = sorted(filter(text.__contains__, self._contents), key=text.find)
        return {name: self._contents[name] for name in names}


def as_mention(pasted: str) -> str:
    """Return `@path ` for a picture's path, as terminals paste dropped files, else `pasted`."""
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
