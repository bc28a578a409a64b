"""Where in a file the text that was not found most likely was meant to be."""

import difflib
from collections import Counter
from collections.abc import Sequence

_MAX_COMPARED = 4000
_LEAST_LIKENESS = 0.6
_LINE_SHOWN = 200


def nearest_line(view: bytes, old: bytes) -> int | None:
    """The first line (from 0) of what most resembles `old`; None if nothing does."""
    lines = view.split(b"\n")
    wanted = [line.strip() for line in old.strip(b"\n").split(b"\n")]
    start = _by_equal_lines(lines, wanted)
    return _by_likeness(lines, wanted) if start is None else start


def numbered(view: bytes, start: int, end: int) -> str:
    """The lines of `view` from `start` (from 0) to before `end`, as `read` shows them."""
    lines = view.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    start, end = max(0, start), min(end, len(lines))
    width = len(str(end))
    return "\n".join(
        f"{number:>{width}}: {line[:_LINE_SHOWN].decode(errors='replace')}"
        for number, line in enumerate(lines[start:end], start + 1)
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
