"""Unified diffs with a bounded cost: of a change whose places are known, or of two whole texts.

Two long texts are laid side by side by the lines that occur once in both.
"""

import difflib
import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.editing.document import Replacement

CONTEXT = 3
MAX_LINES_A_SIDE = 200
_MAX_COMPARED = 250_000
"""Pairs of lines. Comparing is quadratic; a larger stretch is first cut at unique lines."""
_MAX_CUTS = 6
"""How often what was cut is cut again; a stretch too large then is shown as replaced whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """`text` shows at most `MAX_LINES_A_SIDE` lines of each side; the counts are of all.

    `spans` are the first of the changed stretches, as lines of the old text (from 0, end excluded).
    """

    text: str
    added: int
    removed: int
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines `old_start` to `old_end` became `new_start` to `new_end`."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def diff_of_texts(
    old: bytes | None, new: bytes | None, *, path: str, new_path: str = ""
) -> FileDiff:
    """How `new` differs from `old`, found by comparing them; None: there is no file."""
    before, after = _lines(old or b""), _lines(new or b"")
    change = _Change(0, len(before), 0, len(after))
    names = ("/dev/null" if old is None else path, "/dev/null" if new is None else new_path or path)
    return _render(before, after, [change], names)


def diff_of_replacements(
    old: bytes, new: bytes, replacements: Iterable[Replacement], *, path: str
) -> FileDiff:
    """How `new` differs from `old` when it came about by `replacements`, in ascending order."""
    changes = _changed_lines(old, replacements)
    return _render(_lines(old), _lines(new), changes, (path, path))


def _lines(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    # A last line without its newline is another line than the same one with it.
    lines[-1:] = [lines[-1] + b"\n\\ No newline at end of file"] if lines[-1] else []
    return lines


def _changed_lines(old: bytes, replacements: Iterable[Replacement]) -> Iterator[_Change]:
    """The changed lines; replacements that touch the same line are one change."""
    last: _Change | None = None
    line = position = shift = 0
    for each in replacements:
        line += old.count(b"\n", position, each.start)
        position = each.start
        removed = old.count(b"\n", each.start, each.end)
        delta = each.text.count(b"\n") - removed
        old_end = line + removed + 1
        new_end = old_end + shift + delta
        if last and last.old_end > line:
            last = _Change(last.old_start, old_end, last.new_start, new_end)
        else:
            if last:
                yield last
            last = _Change(line, old_end, line + shift, new_end)
        shift += delta
    if last:
        yield last


def _render(
    old: Sequence[bytes],
    new: Sequence[bytes],
    changes: Iterable[_Change],
    names: tuple[str, str],
) -> FileDiff:
    # Each has a line at least, so more of them would never be shown.
    first: list[_Change] = []
    removed = added = 0
    for change in changes:
        for part in _refine_change(old, new, _clip_change(change, old, new)):
            removed += part.old_end - part.old_start
            added += part.new_end - part.new_start
            if len(first) < 2 * MAX_LINES_A_SIDE:
                first.append(part)
    lines = [f"--- {names[0]}", f"+++ {names[1]}"]
    left = {"-": MAX_LINES_A_SIDE, "+": MAX_LINES_A_SIDE}
    for hunk in _hunks(first):
        if not any(left.values()):
            break
        lines += _hunk_lines(old, new, hunk, left)
    hidden = removed + added - 2 * MAX_LINES_A_SIDE + sum(left.values())
    if hidden > 0:
        lines.append(f"… {hidden} more changed lines are not shown.")
    return FileDiff(
        text="\n".join(lines) if first else "",
        added=added,
        removed=removed,
        spans=tuple((each.old_start, each.old_end) for each in first),
    )


def _clip_change(change: _Change, old: Sequence[bytes], new: Sequence[bytes]) -> _Change:
    """A change behind the last newline may name a line that does not exist."""
    return _Change(
        change.old_start,
        min(change.old_end, len(old)),
        change.new_start,
        min(change.new_end, len(new)),
    )


def _refine_change(
    old: Sequence[bytes], new: Sequence[bytes], change: _Change
) -> Iterator[_Change]:
    """The parts of `change` that really differ."""
    budget = 4 * _MAX_COMPARED
    waiting = [(change, _MAX_CUTS)]
    while waiting:
        whole, cuts = waiting.pop()
        part = _without_equal_ends(old, new, whole)
        if part is None:
            continue
        pairs = (part.old_end - part.old_start) * (part.new_end - part.new_start)
        if pairs <= 1:
            yield part
        elif pairs <= min(_MAX_COMPARED, budget):
            budget -= pairs
            yield from _compare_part(old, new, part)
        elif cuts and (pieces := _split_at_unique_lines(old, new, part)) != [part]:
            waiting += [(piece, cuts - 1) for piece in reversed(pieces)]
        else:
            yield part


def _without_equal_ends(
    old: Sequence[bytes], new: Sequence[bytes], change: _Change
) -> _Change | None:
    """`change` without the lines that are the same at its ends; None if all are."""
    start, end = change.old_start, change.old_end
    new_start, new_end = change.new_start, change.new_end
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    if start == end and new_start == new_end:
        return None
    return _Change(start, end, new_start, new_end)


def _compare_part(old: Sequence[bytes], new: Sequence[bytes], part: _Change) -> Iterator[_Change]:
    before, after = old[part.old_start : part.old_end], new[part.new_start : part.new_end]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield _Change(
                part.old_start + a, part.old_start + b, part.new_start + c, part.new_start + d
            )


def _split_at_unique_lines(
    old: Sequence[bytes], new: Sequence[bytes], part: _Change
) -> list[_Change]:
    """`part` in pieces, between lines that are unique and the same on both sides."""
    pieces = []
    start, new_start = part.old_start, part.new_start
    rows = common_unique_lines(
        old[part.old_start : part.old_end], new[part.new_start : part.new_end]
    )
    for at, new_at in rows:
        end, new_end = part.old_start + at, part.new_start + new_at
        if start < end or new_start < new_end:
            pieces.append(_Change(start, end, new_start, new_end))
        start, new_start = end + 1, new_end + 1
    pieces.append(_Change(start, part.old_end, new_start, part.new_end))
    return pieces


def _hunks(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Changes that share context lines, together."""
    hunk: list[_Change] = []
    for change in changes:
        if hunk and change.old_start - hunk[-1].old_end > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _hunk_lines(
    old: Sequence[bytes], new: Sequence[bytes], hunk: Sequence[_Change], left: dict[str, int]
) -> Iterator[str]:
    first, last = hunk[0], hunk[-1]
    before = min(CONTEXT, first.old_start)
    after = min(CONTEXT, len(old) - last.old_end)
    yield _header(first, last, before, after)
    yield from _decode_lines(" ", old[first.old_start - before : first.old_start])
    for change, following in itertools.zip_longest(hunk, hunk[1:]):
        yield from _lines_within_limit(left, "-", old[change.old_start : change.old_end])
        yield from _lines_within_limit(left, "+", new[change.new_start : change.new_end])
        if not any(left.values()):
            return
        end = following.old_start if following else last.old_end + after
        yield from _decode_lines(" ", old[change.old_end : end])


def _header(first: _Change, last: _Change, before: int, after: int) -> str:
    old_count = last.old_end - first.old_start + before + after
    new_count = last.new_end - first.new_start + before + after
    old_line = first.old_start - before + (1 if old_count else 0)
    new_line = first.new_start - before + (1 if new_count else 0)
    return f"@@ -{old_line},{old_count} +{new_line},{new_count} @@"


def _lines_within_limit(left: dict[str, int], sign: str, lines: Sequence[bytes]) -> list[str]:
    shown = _decode_lines(sign, lines[: left[sign]])
    left[sign] -= len(shown)
    return shown


def _decode_lines(sign: str, lines: Sequence[bytes]) -> list[str]:
    return [sign + line.decode(errors="replace") for line in lines]


def common_unique_lines(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Pairs of positions of such lines, the longest row that ascends on both sides.

    Takes n log n time, however different the texts are.
    """
    in_new = {line: at for at, line in enumerate(new)}
    counts = Counter(new)
    seen = Counter(old)
    pairs = [
        (at, in_new[line])
        for at, line in enumerate(old)
        if seen[line] == 1 and counts.get(line) == 1
    ]
    return _longest_ascending(pairs)


def _longest_ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    ends: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        place = bisect_left(ends, value)
        before.append(holders[place - 1] if place else -1)
        ends[place : place + 1] = [value]
        holders[place : place + 1] = [index]
    row = []
    at = holders[-1] if holders else -1
    while at >= 0:
        row.append(pairs[at])
        at = before[at]
    return row[::-1]
