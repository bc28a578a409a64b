"""Unified diffs read into rows, and drawn with colours and line numbers, in one column or two.

A long diff is cut into blocks, so that only what is in view is drawn.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest
from typing import Literal, TypeAlias

from rich.cells import cell_len, split_graphemes
from rich.color import Color, blend_rgb
from rich.style import Style
from textual.strip import Strip

from dirge_py.lib.hunks import common_start
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import TranscriptBlock
from dirge_py.ui.transcript.lines import TAB_WIDTH, Line, Span, fold, strip

LONGEST_LINE = 500
"""Characters of a line beyond which its words are not compared."""

LONGEST_STRETCH = 200
"""Changed lines in a row beyond which lines are not paired by similarity."""

_MOST_TOKENS = 64
"""Tokens between the first and the last difference that are compared one by one: it is quadratic.
Of more, the whole is marked."""

_LOOKED_AHEAD = 10
_ALIKE = 0.5
"""Share of words that two lines must have in common to count as one line that was changed."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_FIRST_WIDE = "\u2e80"
"""From here on scripts do not put blanks between words: each character is one."""

Spans: TypeAlias = Sequence[tuple[int, int]]
"""Stretches of characters, from and to, in order and apart from each other."""

Pair: TypeAlias = tuple[int | None, int | None]
"""Positions of a removed and an added line that stand beside each other; None: nothing does."""


def pair_lines(removed: Sequence[str], added: Sequence[str]) -> list[Pair]:
    """Pair removed with added lines, in order; a line without a similar one takes what is left."""
    pairs: list[Pair] = []
    old = new = 0
    for old_at, new_at in [*_matches(removed, added), (len(removed), len(added))]:
        pairs += zip_longest(range(old, old_at), range(new, new_at))
        if old_at < len(removed):
            pairs.append((old_at, new_at))
        old, new = old_at + 1, new_at + 1
    return pairs


def mark_words(old: str, new: str) -> tuple[Spans, Spans]:
    """The stretches of two lines that the other does not have; none if they are too different."""
    if max(len(old), len(new)) > LONGEST_LINE:
        return (), ()
    before, after = _tokens(old), _tokens(new)
    head = common_start(before, after)
    tail = common_start(before[head:][::-1], after[head:][::-1])
    middle = before[head : len(before) - tail], after[head : len(after) - tail]
    old_marks, new_marks = [False] * len(before), [False] * len(after)
    for old_at, old_to, new_at, new_to in _differences(*middle):
        old_marks[head + old_at : head + old_to] = [True] * (old_to - old_at)
        new_marks[head + new_at : head + new_to] = [True] * (new_to - new_at)
    if not (_is_alike(before, old_marks) or _is_alike(after, new_marks)):
        return (), ()
    return _spans(before, old_marks), _spans(after, new_marks)


def _matches(removed: Sequence[str], added: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of similar lines, in order; each is the most similar of the next added ones."""
    if len(removed) + len(added) > LONGEST_STRETCH:
        return []
    words = [_words(line) for line in added]
    matches: list[tuple[int, int]] = []
    free = 0
    for at, line in enumerate(removed):
        mine = _words(line)
        near = range(free, min(free + _LOOKED_AHEAD, len(added)))
        best = max(near, key=lambda other: _share(mine, words[other]), default=None)
        if best is not None and _share(mine, words[best]) >= _ALIKE:
            matches.append((at, best))
            free = best + 1
    return matches


def _words(line: str) -> "Counter[str]":
    """The words of a line; its signs only if it has no words."""
    tokens = _tokens(line) if len(line) <= LONGEST_LINE else []
    words = [token for token in tokens if _is_word(token)]
    return Counter(words or [token for token in tokens if not token.isspace()])


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] == "_"


def _share(mine: "Counter[str]", other: "Counter[str]") -> float:
    whole = mine.total() + other.total()
    return 2 * (mine & other).total() / whole if whole else 0.0


def _tokens(line: str) -> list[str]:
    """Words, blanks and single signs; never less than a whole grapheme."""
    if line.isascii():
        return _TOKEN.findall(line)
    tokens: list[str] = []
    was = ""
    for start, end, _ in split_graphemes(line)[0]:
        first = line[start]
        is_joined = first.isalnum() and first < _FIRST_WIDE
        kind = "word" if is_joined else "blank" if first.isspace() else ""
        if kind and kind == was:
            tokens[-1] += line[start:end]
        else:
            tokens.append(line[start:end])
        was = kind
    return tokens


def _differences(old: list[str], new: list[str]) -> list[tuple[int, int, int, int]]:
    if not old or not new or max(len(old), len(new)) > _MOST_TOKENS:
        return [(0, len(old), 0, len(new))]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    codes = matcher.get_opcodes()
    return [(a, b, c, d) for kind, a, b, c, d in codes if kind != "equal"]


def _is_alike(tokens: Sequence[str], marks: Sequence[bool]) -> bool:
    """Whether enough of the line is unchanged for marked words to be of use."""
    has_words = any(map(_is_word, tokens))
    counts = [not token.isspace() and (_is_word(token) or not has_words) for token in tokens]
    unchanged = sum(is_counted and not mark for is_counted, mark in zip(counts, marks, strict=True))
    return unchanged > 0 and unchanged * 3 >= sum(counts)


def _spans(tokens: Sequence[str], marks: list[bool]) -> Spans:
    """The marked stretches; a blank between two marks is marked, too."""
    for at in range(1, len(tokens) - 1):
        if marks[at - 1] and marks[at + 1] and tokens[at].isspace():
            marks[at] = True
    spans: list[tuple[int, int]] = []
    at = 0
    for token, is_marked in zip(tokens, marks, strict=True):
        if is_marked and spans and spans[-1][1] == at:
            spans[-1] = (spans[-1][0], at + len(token))
        elif is_marked:
            spans.append((at, at + len(token)))
        at += len(token)
    return spans


RowKind = Literal["same", "removed", "added", "name", "gap", "note"]
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line of a diff."""

    kind: RowKind
    """`name`: a file's heading; `gap`: between two hunks; `note`: a line of neither side."""
    text: str = ""
    old: int | None = None
    """Its number on the old side, from 1; None: it is not there."""
    new: int | None = None
    opens: bool = False
    """A hunk begins here; of a file with a heading, at the heading."""


def read_diff(diff: str) -> list[DiffRow]:
    """The rows of a unified diff of one file or several; anything else is taken as notes.

    File headers are left out; where there are several files, or one moves, each has a heading.
    """
    lines = diff.split("\n")
    # Inside a hunk `--- x` is a line that is removed: no `@@` follows the one after it, for what
    # ends a hunk without context ends its file.
    begins = ("--- ", "+++ ", "@@ ")
    headers = {
        at for at in range(len(lines) - 2) if all(map(str.startswith, lines[at : at + 3], begins))
    }
    rows: list[DiffRow] = []
    old = new = 0
    in_hunk = opens = False
    for at, line in enumerate(lines):
        row: DiffRow | None = None
        if at in headers or at - 1 in headers:
            in_hunk = False
            if at in headers:
                path, is_moved = _read_header(line[4:], lines[at + 1][4:])
                if is_moved or len(headers) > 1:
                    row = DiffRow("name", path, opens=True)
        elif hunk := _HUNK.match(line):
            if in_hunk:
                rows.append(DiffRow("gap"))
            old, new, in_hunk = int(hunk[1]), int(hunk[2]), True
            opens = not (rows and rows[-1].kind == "name")
            continue
        elif not in_hunk:
            if line and not line.startswith(("diff ", "index ")):
                row = DiffRow("note", line)
        elif line.startswith("+"):
            row = DiffRow("added", line[1:], new=new, opens=opens)
            new += 1
        elif line.startswith("-"):
            row = DiffRow("removed", line[1:], old=old, opens=opens)
            old += 1
        elif line.startswith("\\"):
            row = DiffRow("note", line)
        elif line or at < len(lines) - 1:
            row = DiffRow("same", line[1:], old=old, new=new, opens=opens)
            old, new = old + 1, new + 1
        if row is not None:
            rows.append(row)
            opens = False
    return rows


def count_changes(diff: str) -> tuple[int, int]:
    """How many lines a unified diff adds and removes."""
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return added, removed


def _read_header(old: str, new: str) -> tuple[str, bool]:
    """The path to show for a file, and whether it moves; git puts `a/` and `b/` before names."""
    if "/dev/null" in (old, new):
        return (old if new == "/dev/null" else new), False
    is_moved = old.removeprefix("a/") != new.removeprefix("b/")
    return (f"{old} → {new}" if is_moved else new), is_moved


DiffLayout: TypeAlias = Literal["auto", "unified", "split"]
_SPLIT_FROM = 140
_MARGINS = 3
"""Columns of the terminal that are not drawn on: blank ones on both sides, and the scrollbar's."""
_NARROWEST_SPLIT = 40
"""Columns below which two sides don't fit, whatever the setting."""
_DIVIDER = " │ "
_SIGNS = {"added": "+", "removed": "-", "same": " "}


@dataclass(frozen=True, slots=True)
class PaintedDiff:
    """The drawn lines, and at which of them a hunk begins."""

    strips: list[Strip]
    hunks: list[int]


def is_split(layout: DiffLayout, width: int) -> bool:
    """Whether the two sides stand side by side where there are `width` columns to draw on."""
    if layout == "auto":
        return width + _MARGINS >= _SPLIT_FROM
    return layout == "split" and width >= _NARROWEST_SPLIT


def paint_diff(
    diff: str,
    width: int,
    styles: Styles,
    *,
    indent: Sequence[Span] = (),
    is_whole: bool = False,
    layout: DiffLayout = "unified",
) -> list[Strip]:
    """The lines of a unified diff; hunks are separated by `⋯`.

    File headers are left out; where there are several files each has its name above its hunks.
    `is_whole`: very long lines are not shortened.
    """
    rows = read_diff(diff)
    return paint_rows(
        rows, width, styles, indent=indent, is_whole=is_whole, split=is_split(layout, width)
    ).strips


def paint_rows(
    rows: Sequence[DiffRow],
    width: int,
    styles: Styles,
    *,
    indent: Sequence[Span] = (),
    is_whole: bool = False,
    split: bool = False,
    muted: bool = False,
    digits: int = 0,
) -> PaintedDiff:
    """Rows as lines of at most `width` cells; of changed pairs of lines the words are marked.

    `muted`: all of it is dim, nothing is marked. `digits`: the least width of line numbers.
    """
    numbers = [number for row in rows for number in (row.old, row.new) if number is not None]
    painter = _Painter(
        width=width,
        styles=styles,
        indent=indent,
        is_whole=is_whole,
        muted=muted,
        digits=max(digits, len(str(max(numbers, default=0)))),
    )
    strips: list[Strip] = []
    hunks: list[int] = []
    for stretch in _stretches(rows):
        if stretch[0].opens:
            hunks.append(len(strips))
        strips += painter.beside(stretch) if split else painter.below(stretch)
    return PaintedDiff(strips, hunks)


def _stretches(rows: Sequence[DiffRow]) -> Iterator[list[DiffRow]]:
    """Removed and added lines that belong together; every other row for itself."""
    stretch: list[DiffRow] = []
    for row in rows:
        is_change = row.kind in ("removed", "added")
        turns_back = row.kind == "removed" and bool(stretch) and stretch[-1].kind == "added"
        if stretch and (not is_change or row.opens or turns_back):
            yield stretch
            stretch = []
        if is_change:
            stretch.append(row)
        else:
            yield [row]
    if stretch:
        yield stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Painter:
    width: int
    styles: Styles
    indent: Sequence[Span]
    is_whole: bool
    muted: bool
    digits: int

    def below(self, rows: Sequence[DiffRow]) -> list[Strip]:
        """Removed lines, then the added ones."""
        marks = _marks(rows) if len(rows) > 1 and not self.muted else {}
        strips: list[Strip] = []
        for at, row in enumerate(rows):
            number = row.old if row.kind == "removed" else row.new
            gutter = [*self.indent, self._gutter(row, number)]
            spans = self._spans(row, marks.get(at, ()))
            strips += fold(spans, self.width, prefix=gutter, is_whole=self.is_whole)
        return strips

    def beside(self, rows: Sequence[DiffRow]) -> list[Strip]:
        """Each removed line beside the added one that replaces it."""
        if rows[0].kind in ("name", "gap", "note"):
            return self.below(rows)
        if rows[0].kind == "same":
            return self._across(rows[0], rows[0], (), ())
        marks = {} if self.muted else _marks(rows)
        strips: list[Strip] = []
        for old, new in _pairs(rows):
            strips += self._across(
                None if old is None else rows[old],
                None if new is None else rows[new],
                marks.get(-1 if old is None else old, ()),
                marks.get(-1 if new is None else new, ()),
            )
        return strips

    def _across(
        self, old: DiffRow | None, new: DiffRow | None, old_marks: Spans, new_marks: Spans
    ) -> list[Strip]:
        indent = sum(cell_len(text) for text, _ in self.indent)
        both = self.width - indent - len(_DIVIDER)
        left = both // 2
        sides = (
            self._side(old, old.old if old else None, old_marks, left),
            self._side(new, new.new if new else None, new_marks, both - left),
        )
        strips: list[Strip] = []
        for mine, theirs in zip_longest(*sides, fillvalue=Strip([])):
            line: Line = [*self.indent, *_cells(mine, self.styles)]
            line.append((" " * (left - mine.cell_length), self.styles.text))
            line += [(_DIVIDER, self.styles.dim), *_cells(theirs, self.styles)]
            strips.append(strip(line))
        return strips

    def _side(
        self, row: DiffRow | None, number: int | None, marks: Spans, width: int
    ) -> list[Strip]:
        if row is None:
            return []
        gutter = [self._gutter(row, number)]
        return fold(self._spans(row, marks), width, prefix=gutter, is_whole=self.is_whole)

    def _gutter(self, row: DiffRow, number: int | None) -> Span:
        shown = "⋯" if row.kind == "gap" else "" if number is None else str(number)
        return (f"{shown:>{self.digits}} ", self.styles.dim)

    def _spans(self, row: DiffRow, marks: Spans) -> Line:
        """The sign and the text, its marked words apart."""
        styles = self.styles
        style = {
            "added": styles.diff.added,
            "removed": styles.diff.removed,
            "same": styles.text,
            "name": styles.strong + styles.text,
        }.get(row.kind, styles.dim)
        if self.muted:
            style = styles.dim
        spans: Line = [(_SIGNS.get(row.kind, ""), style)]
        text = _untabbed(row.text)
        at = 0
        for start, end in marks:
            spans += [(text[at:start], style), (text[start:end], _marked(style))]
            at = end
        return [*spans, (text[at:], style)]


def _marks(rows: Sequence[DiffRow]) -> dict[int, Spans]:
    if len(rows) > LONGEST_STRETCH:
        return {}
    marks: dict[int, Spans] = {}
    for old, new in _pairs(rows):
        if old is not None and new is not None:
            marks[old], marks[new] = mark_words(
                _untabbed(rows[old].text), _untabbed(rows[new].text)
            )
    return marks


def _pairs(rows: Sequence[DiffRow]) -> Iterator[Pair]:
    """Positions of the removed and the added rows that stand beside each other."""
    removed = [at for at, row in enumerate(rows) if row.kind == "removed"]
    added = [at for at, row in enumerate(rows) if row.kind == "added"]
    lines = ([_untabbed(rows[at].text) for at in side] for side in (removed, added))
    for old, new in pair_lines(*lines):
        yield None if old is None else removed[old], None if new is None else added[new]


def _untabbed(text: str) -> str:
    return text.expandtabs(TAB_WIDTH)


def _cells(line: Strip, styles: Styles) -> Line:
    return [(segment.text, segment.style or styles.text) for segment in line]


@lru_cache(maxsize=64)
def _marked(style: Style) -> Style:
    """The style of a word that changed: its ground nearer to its colour, and bold."""
    color, ground = style.color, style.bgcolor
    bold = Style(bold=True)
    if color is None or ground is None or color.is_default or ground.is_default:
        return style + bold + Style(underline=True)
    blended = blend_rgb(ground.get_truecolor(), color.get_truecolor(), 0.25)
    return style + bold + Style(bgcolor=Color.from_triplet(blended))


_ROWS_OF_PIECE = 300


class DiffBlock(TranscriptBlock):
    """Some rows of a diff, one side below the other or beside it."""

    def __init__(
        self, rows: Sequence[DiffRow], *, layout: DiffLayout = "auto", continues: bool = False
    ) -> None:
        """`continues`: it is not the first piece, so no blank line stands before it."""
        super().__init__()
        self.gap = not continues
        self.is_wide = layout != "unified"
        self._rows = rows
        self._layout = layout

    @property
    def text(self) -> str:
        return "\n".join(row.text for row in self._rows)

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        painted = paint_rows(self._rows, width, styles, split=is_split(self._layout, width))
        self.landmarks = painted.hunks or (0,)
        return painted.strips

    def guess_height(self, width: int) -> int:
        return len(self._rows)


def diff_blocks(diff: str, layout: DiffLayout = "auto") -> list[DiffBlock]:
    """A unified diff as blocks, cut where hunks begin if possible."""
    pieces: list[list[DiffRow]] = []
    for row in read_diff(clean(diff).rstrip("\n")):
        size = len(pieces[-1]) if pieces else _ROWS_OF_PIECE * 2
        is_long = size >= _ROWS_OF_PIECE and (row.opens or row.kind in ("name", "gap"))
        if is_long or size >= _ROWS_OF_PIECE * 2:
            pieces.append([])
        pieces[-1].append(row)
    return [DiffBlock(rows, layout=layout, continues=at > 0) for at, rows in enumerate(pieces)]
