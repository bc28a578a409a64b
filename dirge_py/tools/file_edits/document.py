"""A text file as edits search it (LF line ends, no byte-order mark), and back to bytes."""

import bisect
import codecs
import re
from collections.abc import Iterable

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import FileError

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replaces the bytes from `start` to `end` of a view by `text` (with LF line ends)."""

    start: int
    end: int
    text: bytes

    def moved(self, distance: int) -> "Replacement":
        # Before the first line there is no line end to remove with it.
        return Replacement(max(0, self.start + distance), self.end + distance, self.text)


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A text file. Only replaced stretches change: mixed line ends and a byte-order mark stay."""

    original: bytes
    view: bytes
    """The text to search: `original` without a byte-order mark, and with CRLF as LF."""
    _mark_length: int
    _dropped: list[int]
    """Ascending positions in `view` before which a CR was dropped."""

    @classmethod
    def parse(cls, content: bytes, shown: str) -> "TextDocument":
        """Parse `content`. Raises FileError if it is not UTF-8; `shown` names the file."""
        require_utf8(content, shown)
        mark_length = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
        body = content[mark_length:]
        dropped = [match.start() - n for n, match in enumerate(re.finditer(rb"\r\n", body))]
        view = body.replace(b"\r\n", b"\n") if dropped else body
        return cls(content, view, mark_length, dropped)

    def replaced(self, replacements: Iterable[Replacement]) -> bytes:
        """Return the file with these stretches replaced; they are ascending and do not overlap."""
        pieces: list[bytes] = []
        done = 0
        for each in replacements:
            start, end = self._offset(each.start), self._offset(each.end)
            pieces += [self.original[done:start], self._with_line_ends(each)]
            done = end
        pieces.append(self.original[done:])
        return b"".join(pieces)

    def _offset(self, position: int) -> int:
        """Map a position in the view to the original, before a CR that was dropped there."""
        return self._mark_length + position + bisect.bisect_left(self._dropped, position)

    def _with_line_ends(self, replacement: Replacement) -> bytes:
        """Return the text with CRLF if the line has it, or before a last one without end."""
        if b"\n" not in replacement.text:
            return replacement.text
        end = self.view.find(b"\n", replacement.start)
        if end < 0:
            end = self.view.rfind(b"\n", 0, replacement.start)
        index = bisect.bisect_left(self._dropped, end)
        has_crlf = end >= 0 and self._dropped[index : index + 1] == [end]
        return replacement.text.replace(b"\n", b"\r\n") if has_crlf else replacement.text


def normalize_newlines(text: str) -> bytes:
    """Return a model's text as it is searched and inserted: with LF, without byte-order mark."""
    return encode_text(text).removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")


def encode_text(text: str) -> bytes:
    """Encode `text` as UTF-8. Raises FileError if it contains half of a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise FileError(
            "The text contains half of a surrogate pair, which cannot be written.",
            hint="Write the character itself.",
        ) from None


def count_lines(content: bytes) -> int:
    """Return the number of lines; a last one without a newline counts too."""
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


def require_utf8(content: bytes, shown: str) -> None:
    """Raise FileError if the content of the file `shown` is not UTF-8."""
    if content.startswith(_UTF16_MARKS):
        raise FileError(f"{shown} is UTF-16, not UTF-8; nothing was changed.", hint=_CONVERT)
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileError(
            f"{shown} is not UTF-8 (line {line}); nothing was changed.", hint=_CONVERT
        ) from None


_CONVERT = "Change it with a command that knows its encoding."
