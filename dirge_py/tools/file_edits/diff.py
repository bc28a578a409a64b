"""Unified diffs with bounded cost: of a change at known places, or of two whole texts."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from dirge_py.lib.hunks import Hunk, Stretch, find_differences, join_near
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.file_edits.document import Replacement

CONTEXT = 3
MAX_LINES_A_SIDE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """The difference of two versions of a file."""

    text: str
    """The unified diff, with at most `MAX_LINES_A_SIDE` lines of each side."""
    added: int
    """The number of all added lines."""
    removed: int
    """The number of all removed lines."""
    spans: tuple[tuple[int, int], ...] = ()
    """The first changed stretches, as lines of the old text (from 0, end excluded)."""


def diff_of_texts(
    old: bytes | None, new: bytes | None, *, path: str, new_path: str = ""
) -> FileDiff:
    """Compare `new` with `old`; None means that there is no file."""
    before, after = _lines(old or b""), _lines(new or b"")
    change = Stretch(0, len(before), 0, len(after))
    names = ("/dev/null" if old is None else path, "/dev/null" if new is None else new_path or path)
    return _render(before, after, [change], names)


def diff_of_replacements(
    old: bytes, new: bytes, replacements: Iterable[Replacement], *, path: str
) -> FileDiff:
    """Return the difference made by `replacements` in ascending order."""
    return _render(_lines(old), _lines(new), _changed_lines(old, replacements), (path, path))


def _lines(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    # A last line with a newline differs from the same line without one.
    lines[-1:] = [lines[-1] + b"\n\\ No newline at end of file"] if lines[-1] else []
    return lines


def _changed_lines(old: bytes, replacements: Iterable[Replacement]) -> Iterator[Stretch]:
    """Yield the changed lines; replacements that touch the same line are one change."""
    last: Stretch | None = None
    line = position = shift = 0
    for each in replacements:
        line += old.count(b"\n", position, each.start)
        position = each.start
        removed = old.count(b"\n", each.start, each.end)
        delta = each.text.count(b"\n") - removed
        old_end = line + removed + 1
        new_end = old_end + shift + delta
        if last and last.before_end > line:
            last = Stretch(last.before_at, old_end, last.after_at, new_end)
        else:
            if last:
                yield last
            last = Stretch(line, old_end, line + shift, new_end)
        shift += delta
    if last:
        yield last


def _render(
    old: Sequence[bytes], new: Sequence[bytes], changes: Iterable[Stretch], names: tuple[str, str]
) -> FileDiff:
    # Each change has at least one line, so more of them would not be shown.
    first: list[Stretch] = []
    removed = added = 0
    for change in changes:
        # A change after the last newline may name a line that does not exist.
        end, new_end = min(change.before_end, len(old)), min(change.after_end, len(new))
        clipped = Stretch(change.before_at, end, change.after_at, new_end)
        for part in find_differences(old, new, clipped):
            removed += part.before_end - part.before_at
            added += part.after_end - part.after_at
            if len(first) < 2 * MAX_LINES_A_SIDE:
                first.append(part)
    lines = [f"--- {names[0]}", f"+++ {names[1]}"]
    left = {"-": MAX_LINES_A_SIDE, "+": MAX_LINES_A_SIDE}
    for hunk in join_near(first, 2 * CONTEXT):
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
        spans=tuple((each.before_at, each.before_end) for each in first),
    )


def _hunk_lines(
    old: Sequence[bytes], new: Sequence[bytes], hunk: Hunk, left: dict[str, int]
) -> Iterator[str]:
    before = min(CONTEXT, hunk.before_at)
    after = min(CONTEXT, len(old) - hunk.before_end)
    old_count = hunk.before_end - hunk.before_at + before + after
    new_count = hunk.after_end - hunk.after_at + before + after
    old_line = hunk.before_at - before + (1 if old_count else 0)
    new_line = hunk.after_at - before + (1 if new_count else 0)
    yield f"@@ -{old_line},{old_count} +{new_line},{new_count} @@"
    yield from _decode_lines(" ", old[hunk.before_at - before : hunk.before_at])
    for change, following in itertools.zip_longest(hunk.stretches, hunk.stretches[1:]):
        yield from _lines_within_limit(left, "-", old[change.before_at : change.before_end])
        yield from _lines_within_limit(left, "+", new[change.after_at : change.after_end])
        if not any(left.values()):
            return
        end = following.before_at if following else hunk.before_end + after
        yield from _decode_lines(" ", old[change.before_end : end])


def _lines_within_limit(left: dict[str, int], sign: str, lines: Sequence[bytes]) -> list[str]:
    shown = _decode_lines(sign, lines[: left[sign]])
    left[sign] -= len(shown)
    return shown


def _decode_lines(sign: str, lines: Sequence[bytes]) -> list[str]:
    return [sign + line.decode(errors="replace") for line in lines]
