"""Where in a file the text that was not found most likely was meant to be."""

import difflib
from collections import Counter
from collections.abc import Sequence

MAX_LINES_SHOWN = 12
_MAX_COMPARED = 4000
_LEAST_LIKENESS = 0.6


def nearest_region(view: bytes, old: bytes) -> str:
    """Some numbered lines of `view` that resemble `old`; empty if none does."""
    lines = view.split(b"\n")
    wanted = [line.strip() for line in old.strip(b"\n").split(b"\n")]
    start = _by_equal_lines(lines, wanted)
    if start is None:
        start = _by_likeness(lines, wanted)
    if start is None:
        return ""
    shown = lines[start : start + min(len(wanted), MAX_LINES_SHOWN)]
    return "\n".join(
        f"{start + n + 1}: {line[:200].decode(errors='replace')}" for n, line in enumerate(shown)
    )


def _by_equal_lines(lines: Sequence[bytes], wanted: Sequence[bytes]) -> int | None:
    """The start at which most of the wanted lines stand where they belong."""
    places = {line: index for index, line in reversed(list(enumerate(wanted))) if len(line) > 3}
    votes = Counter(
        index - places[line.strip()]
        for index, line in enumerate(lines)
        if line.strip() in places and index >= places[line.strip()]
    )
    return votes.most_common(1)[0][0] if votes else None


def _by_likeness(lines: Sequence[bytes], wanted: Sequence[bytes]) -> int | None:
    """The line most like the first wanted one; only the head of a long file is compared."""
    first = next((line for line in wanted if line), b"")[:200]
    matcher = difflib.SequenceMatcher(None, "", first.decode(errors="replace"), autojunk=False)
    best, place = _LEAST_LIKENESS, None
    for index, line in enumerate(lines[:_MAX_COMPARED]):
        matcher.set_seq1(line.strip()[:200].decode(errors="replace"))
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, place = ratio, index
    return place
