"""What a person searches for, as FTS5 and as Python understand it."""

import re
from collections.abc import Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.types.errors import UsageError

MARK, UNMARK = "\x02", "\x03"
"""Around a match in a snippet from SQLite; no stored text holds them."""

_WORD = re.compile(r"[^\W_]+")
_AROUND = 60


@dataclass(frozen=True, slots=True)
class Query:
    """Words that must all occur in one text, each as the beginning of a word there.

    `phrases` are their parts between punctuation, which must follow each other: `a.b` is a, b.
    """

    phrases: tuple[tuple[str, ...], ...]

    @property
    def fts5(self) -> str:
        return " AND ".join('"' + " ".join(phrase) + '" *' for phrase in self.phrases)

    def fits(self, text: str) -> bool:
        return all(pattern.search(text) for pattern in self._patterns())

    def cut(self, text: str) -> str:
        """A piece of the text around the first match, with each match between MARK and UNMARK."""
        spans = sorted(match.span() for p in self._patterns() for match in p.finditer(text))
        first = spans[0][0] if spans else 0
        start, end = max(0, first - _AROUND), min(len(text), first + 2 * _AROUND)
        shown, at = ["…" if start else ""], start
        for begin, stop in spans:
            if at <= begin and stop <= end:
                shown += [text[at:begin], MARK, text[begin:stop], UNMARK]
                at = stop
        return "".join([*shown, text[at:end], "…" if end < len(text) else ""])

    def _patterns(self) -> list[re.Pattern[str]]:
        return [
            re.compile(
                r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, phrase)) + r"[^\W_]*", re.IGNORECASE
            )
            for phrase in self.phrases
        ]


def read_query(words: Sequence[str]) -> Query:
    """Raises UsageError: there is no letter and no digit in any of the words."""
    phrases = [tuple(_WORD.findall(part)) for word in words for part in word.split()]
    found = tuple(phrase for phrase in phrases if phrase)
    if not found:
        raise UsageError("there is nothing to search for.", hint="Give words with letters in them.")
    return Query(found)


def unmarked(snippet: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The snippet without marks, and where the matches are in it."""
    text, spans, begin = "", [], 0
    for piece in re.split(f"([{MARK}{UNMARK}])", snippet):
        if piece == MARK:
            begin = len(text)
        elif piece == UNMARK:
            spans.append((begin, len(text)))
        else:
            text += piece
    return text, tuple(spans)
