"""Unified diffs: parsed into rows, and drawn as blocks with colours, in one column or two."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest
from typing import Literal, TypeAlias

from rich.cells import cell_len, split_graphemes
from rich.color import Color, blend_rgb
from rich.style import Style
from textual.strip import Strip

from dirge_py.lib.hunks import common_start
from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.blocks import TranscriptBlock
from dirge_py.ui.transcript.lines import TAB_WIDTH, Line, Span, fold, pad, strip
from dirge_py.ui.transcript.syntax import CodeLine, code_lines, language_of, style_of

LONGEST_LINE = 500
"""Characters of a line beyond which its words aren't compared."""

LONGEST_STRETCH = 200
"""Changed lines in a row beyond which lines aren't paired by similarity."""

_MOST_TOKENS = 64
"""Tokens beyond which everything between the first and the last difference is marked."""

_LOOKED_AHEAD = 10
_ALIKE = 0.5
"""Share of common words from which two lines count as one changed line."""

_TOKEN = late_pattern(r"\w+|\s+|[^\w\s]")
_FIRST_WIDE = "\u2e80"
"""Scripts from here on have no blanks between words, so each character counts as a word."""

Spans: TypeAlias = Sequence[tuple[int, int]]
"""Start and end of ranges of characters, in order and not adjacent."""

Pair: TypeAlias = tuple[int | None, int | None]
"""Positions of a removed and an added line that are shown side by side; None for no line."""


def pair_lines(removed: Sequence[str], added: Sequence[str]) -> list[Pair]:
    """Pair similar lines in order, and the lines between them one by one."""
    pairs: list[Pair] = []
    old = new = 0
    for old_at, new_at in [*_matches(removed, added), (len(removed), len(added))]:
        pairs += zip_longest(range(old, old_at), range(new, new_at))
        if old_at < len(removed):
            pairs.append((old_at, new_at))
        old, new = old_at + 1, new_at + 1
    return pairs


def mark_words(old: str, new: str) -> tuple[Spans, Spans]:
    """Return the ranges of each line that the other lacks; none if the lines differ too much."""
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
    """Pair each removed line with the most similar of the next added ones, in order."""
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
    tokens = _tokens(line) if len(line) <= LONGEST_LINE else []
    words = [token for token in tokens if _is_word(token)]
    return Counter(words or [token for token in tokens if not token.isspace()])


def _is_word(token: str) -> bool:
    return token[0].isalnum() or token[0] == "_"


def _share(mine: "Counter[str]", other: "Counter[str]") -> float:
    whole = mine.total() + other.total()
    return 2 * (mine & other).total() / whole if whole else 0.0


def _tokens(line: str) -> list[str]:
    """Split a line into words, blanks and single signs, never inside a grapheme."""
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
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(a, b, c, d) for kind, a, b, c, d in codes if kind != "equal"]


def _is_alike(tokens: Sequence[str], marks: Sequence[bool]) -> bool:
    has_words = any(map(_is_word, tokens))
    counts = [not token.isspace() and (_is_word(token) or not has_words) for token in tokens]
    unchanged = sum(is_counted and not mark for is_counted, mark in zip(counts, marks, strict=True))
    return unchanged > 0 and unchanged * 3 >= sum(counts)


def _spans(tokens: Sequence[str], marks: list[bool]) -> Spans:
    """Return the ranges of marked tokens, with the blanks between two marks."""
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
_PATHS = late_pattern(r"^--- ([^\t\n]*).*\n\+\+\+ ([^\t\n]*)", re.MULTILINE)
_HUNK = late_pattern(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line of a diff."""

    kind: RowKind
    """`name`: heading of a file; `gap`: between two hunks; `note`: part of neither side."""
    text: str = ""
    old: int | None = None
    """Its number on the old side, from 1; None if it isn't there."""
    new: int | None = None
    """Its number on the new side."""
    opens: bool = False
    """A hunk begins here, or at this heading."""


def read_diff(diff: str) -> list[DiffRow]:
    """Parse a unified diff; lines outside of hunks become notes, and several files get headings."""
    lines = diff.split("\n")
    # Three lines make a header: inside a hunk, `--- x` is a removed line.
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


def path_in(diff: str) -> str:
    """Return the path of the first file of a unified diff; "" if it names none."""
    paths = _PATHS.search(diff)
    if paths is None:
        return ""
    return (paths[1] if paths[2] == "/dev/null" else paths[2]).strip()


def count_changes(diff: str) -> tuple[int, int]:
    """Count the lines that a unified diff adds and removes."""
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return added, removed


def _read_header(old: str, new: str) -> tuple[str, bool]:
    """Return the path to show for a file, and whether the file moves."""
    if "/dev/null" in (old, new):
        return (old if new == "/dev/null" else new), False
    is_moved = old.removeprefix("a/") != new.removeprefix("b/")
    return (f"{old} → {new}" if is_moved else new), is_moved


DiffLayout: TypeAlias = Literal["auto", "unified", "split"]
_SPLIT_FROM = 140
_MARGINS = 3
"""Columns of the terminal that are never drawn on: the margins and the scrollbar."""
_NARROWEST_SPLIT = 40
"""Columns below which two sides don't fit."""
_DIVIDER = " │ "
_GROUNDED = ("added", "removed")
"""Kinds of rows with a background of their own, which reaches to the end of the row."""
_SIGNS = {"added": "+", "removed": "-", "same": " "}


def is_split(layout: DiffLayout, width: int) -> bool:
    """Whether the two sides are drawn side by side in `width` columns."""
    if layout == "auto":
        return width + _MARGINS >= _SPLIT_FROM
    return layout == "split" and width >= _NARROWEST_SPLIT


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
    path: str = "",
) -> tuple[list[Strip], list[int]]:
    """Draw rows, with marked changed words; return the lines, and those at which a hunk begins.

    `muted`: everything is dim and nothing is marked. `digits`: the least width of line numbers.
    `path`: the file up to the first heading, whose name tells the language of the code.
    """
    numbers = [number for row in rows for number in (row.old, row.new) if number is not None]
    digits = max(digits, len(str(max(numbers, default=0))))
    code = {} if muted else _code_of(rows, path)
    painter = _Painter(width, styles, indent, is_whole, muted, digits, code)
    strips: list[Strip] = []
    hunks: list[int] = []
    for stretch in _stretches(rows):
        if stretch[0].opens:
            hunks.append(len(strips))
        strips += painter.beside(stretch) if split else painter.below(stretch)
    return strips, hunks


def _stretches(rows: Sequence[DiffRow]) -> Iterator[list[DiffRow]]:
    """Group removed lines with the added ones behind them; other rows stay single."""
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


@dataclass(frozen=True, slots=True)
class _Painter:
    width: int
    styles: Styles
    indent: Sequence[Span]
    is_whole: bool
    muted: bool
    digits: int
    code: Mapping[int, CodeLine]
    """The pieces of each row's line, by the row's id; without those that have no colours."""

    def below(self, rows: Sequence[DiffRow]) -> list[Strip]:
        """Draw removed lines, then the added ones."""
        marks = _marks(rows) if len(rows) > 1 and not self.muted else {}
        strips: list[Strip] = []
        for at, row in enumerate(rows):
            number = row.old if row.kind == "removed" else row.new
            strips += self._fold(row, number, marks.get(at, ()), self.width, self.indent)
        return strips

    def beside(self, rows: Sequence[DiffRow]) -> list[Strip]:
        """Draw each removed line beside the added one that replaces it."""
        if rows[0].kind in ("name", "gap", "note"):
            return self.below(rows)
        if rows[0].kind == "same":
            return self._across(rows[0], rows[0], (), ())
        marks: dict[int | None, Spans] = {} if self.muted else _marks(rows)
        strips: list[Strip] = []
        for old, new in _pairs(rows):
            left = None if old is None else rows[old]
            right = None if new is None else rows[new]
            strips += self._across(left, right, marks.get(old, ()), marks.get(new, ()))
        return strips

    def _across(
        self, old: DiffRow | None, new: DiffRow | None, old_marks: Spans, new_marks: Spans
    ) -> list[Strip]:
        indent = sum(cell_len(text) for text, _ in self.indent)
        both = self.width - indent - len(_DIVIDER)
        left = both // 2
        before = self._fold(old, old.old, old_marks, left) if old else []
        after = self._fold(new, new.new, new_marks, both - left) if new else []
        strips: list[Strip] = []
        # A side that wraps into fewer lines ends with its ground.
        empty = [self._ground(row) for row in (old, new)]
        for at in range(max(len(before), len(after))):
            mine = pad(before[at] if at < len(before) else Strip([]), left, empty[0])
            theirs = pad(after[at] if at < len(after) else Strip([]), both - left, empty[1])
            line: Line = [*self.indent, *_cells(mine, self.styles)]
            line += [(_DIVIDER, self.styles.dim), *_cells(theirs, self.styles)]
            strips.append(strip(line))
        return strips

    def _fold(
        self, row: DiffRow, number: int | None, marks: Spans, width: int, head: Sequence[Span] = ()
    ) -> list[Strip]:
        shown = "⋯" if row.kind == "gap" else "" if number is None else str(number)
        ground = self._ground(row)
        number_style = self.styles.dim
        if row.kind in _GROUNDED:
            number_style = _colored(ground, number_style)
        gutter = [*head, (f"{shown:>{self.digits}} ", number_style)]
        # Further lines of a long row begin below its text.
        rest = [*head, (" " * (self.digits + 1 + (row.kind in _SIGNS)), number_style)]
        spans = self._spans(row, marks)
        lines = fold(spans, width, prefix=gutter, rest=rest, is_whole=self.is_whole)
        return [pad(line, width, ground) for line in lines] if row.kind in _GROUNDED else lines

    def _ground(self, row: DiffRow | None) -> Style:
        """Return the style of the row's blanks, which reach to its end."""
        styles = self.styles
        grounds = {"added": styles.diff.added, "removed": styles.diff.removed}
        if row is None or self.muted:
            return styles.text
        return grounds.get(row.kind, styles.text)

    def _spans(self, row: DiffRow, marks: Spans) -> Line:
        styles = self.styles
        looks = {"same": styles.text, "name": styles.strong + styles.text}
        style = self._ground(row)
        if self.muted or row.kind not in _SIGNS:
            style = styles.dim if self.muted else looks.get(row.kind, styles.dim)
        text = _untabbed(row.text)
        spans: Line = [(_SIGNS.get(row.kind, ""), style)]
        at = 0
        for piece, role in self.code.get(id(row), ((text, ""),)):
            look = _colored(style, style_of(role, styles)) if role else style
            for begin, end, is_marked in _cut(at, at + len(piece), marks):
                spans.append((text[begin:end], _marked(style, look) if is_marked else look))
            at += len(piece)
        return spans


_LONGEST_CODE = 100_000
"""Characters beyond which the code of a diff has no syntax colours."""


def _code_of(rows: Sequence[DiffRow], path: str) -> dict[int, CodeLine]:
    """Split the code of both sides, hunk by hunk; returns the pieces by the id of the row."""
    if sum(len(row.text) for row in rows) > _LONGEST_CODE:
        return {}
    code: dict[int, CodeLine] = {}
    language = language_of(path)
    hunk: list[DiffRow] = []
    for row in (*rows, DiffRow("gap")):
        if row.kind in ("name", "gap") or row.opens:
            for side in ("removed", "added") if language else ():
                code |= _code_of_side([r for r in hunk if r.kind in ("same", side)], language)
            hunk = []
        if row.kind == "name":
            language = language_of(row.text)
        hunk.append(row)
    return code


def _code_of_side(rows: Sequence[DiffRow], language: str) -> dict[int, CodeLine]:
    texts = [_untabbed(row.text) for row in rows]
    lines = code_lines("\n".join(texts), language) if texts else None
    return {
        id(row): line
        for row, text, line in zip(rows, texts, lines or (), strict=False)
        if "".join(piece for piece, _ in line) == text
    }


def _cut(begin: int, end: int, marks: Spans) -> Iterator[tuple[int, int, bool]]:
    """Yield the ranges of a piece, and whether each is marked."""
    at = begin
    for start, stop in marks:
        start, stop = max(start, at), min(stop, end)
        if start < stop:
            if at < start:
                yield at, start, False
            yield start, stop, True
            at = stop
    if at < end:
        yield at, end, False


@lru_cache(maxsize=128)
def _colored(ground: Style, style: Style) -> Style:
    """Return a style on the background of another one."""
    return style + Style(bgcolor=ground.bgcolor)


_DIFF_LANGUAGES = ("diff", "patch", "udiff")
_LINE_KINDS: Mapping[str, RowKind] = {"+": "added", "-": "removed"}


def is_diff_language(language: str | None) -> bool:
    """Whether the language of a fence is that of diffs."""
    return language in _DIFF_LANGUAGES


def paint_fenced(text: str, width: int, styles: Styles, *, indent: Sequence[Span]) -> list[Strip]:
    """Draw the diff of a fenced block line by line, as a model may write one without a header."""
    grounds = {"+": styles.diff.added, "-": styles.diff.removed}
    strips: list[Strip] = []
    for line in text.split("\n"):
        style = grounds.get(line[:1], styles.dim if line.startswith("@@") else styles.text)
        if line.startswith(("+++ ", "--- ")):
            style = styles.text + styles.strong
        painted = fold([(line, style)], width, prefix=indent)
        strips += [pad(part, width, style) for part in painted] if line[:1] in grounds else painted
    return strips


def _marks(rows: Sequence[DiffRow]) -> dict[int | None, Spans]:
    if len(rows) > LONGEST_STRETCH:
        return {}
    marks: dict[int | None, Spans] = {}
    for old, new in _pairs(rows):
        if old is not None and new is not None:
            marks[old], marks[new] = mark_words(*(_untabbed(rows[at].text) for at in (old, new)))
    return marks


def _pairs(rows: Sequence[DiffRow]) -> Iterator[Pair]:
    """Yield the positions of removed and added rows that are shown side by side."""
    removed = [at for at, row in enumerate(rows) if row.kind == "removed"]
    added = [at for at, row in enumerate(rows) if row.kind == "added"]
    lines = ([_untabbed(rows[at].text) for at in side] for side in (removed, added))
    for old, new in pair_lines(*lines):
        yield None if old is None else removed[old], None if new is None else added[new]


def _untabbed(text: str) -> str:
    return text.expandtabs(TAB_WIDTH)


def _cells(line: Strip, styles: Styles) -> Line:
    return [(segment.text, segment.style or styles.text) for segment in line]


@lru_cache(maxsize=128)
def _marked(line: Style, style: Style) -> Style:
    """Return the style of a changed word; `line` is that of its line."""
    color, ground = line.color, line.bgcolor
    bold = Style(bold=True)
    if color is None or ground is None or color.is_default or ground.is_default:
        return style + bold + Style(underline=True)
    blended = blend_rgb(ground.get_truecolor(), color.get_truecolor(), 0.2)
    return style + bold + Style(bgcolor=Color.from_triplet(blended))


_ROWS_OF_PIECE = 300


class DiffBlock(TranscriptBlock):
    """Some rows of a diff; without a blank line above if it continues another block."""

    def __init__(
        self,
        rows: Sequence[DiffRow],
        *,
        layout: DiffLayout = "auto",
        continues: bool = False,
        path: str = "",
    ) -> None:
        super().__init__("\n".join(row.text for row in rows))
        self._path = path
        self.gap = not continues
        self.is_wide = layout != "unified"
        self._rows = rows
        self._layout = layout

    def paint(self, width: int, styles: Styles, *, expanded: bool) -> list[Strip]:
        split = is_split(self._layout, width)
        strips, hunks = paint_rows(self._rows, width, styles, split=split, path=self._path)
        self.landmarks = hunks or (0,)
        return strips


def diff_blocks(diff: str, layout: DiffLayout = "auto") -> list[DiffBlock]:
    """Return blocks for a unified diff, cut between hunks if possible."""
    pieces: list[list[DiffRow]] = []
    paths, path = [], path_in(diff)
    for row in read_diff(clean(diff).rstrip("\n")):
        size = len(pieces[-1]) if pieces else _ROWS_OF_PIECE * 2
        is_long = size >= _ROWS_OF_PIECE and (row.opens or row.kind in ("name", "gap"))
        if is_long or size >= _ROWS_OF_PIECE * 2:
            pieces.append([])
            paths.append(path)
        if row.kind == "name":
            path = row.text
        pieces[-1].append(row)
    return [
        DiffBlock(rows, layout=layout, continues=at > 0, path=paths[at])
        for at, rows in enumerate(pieces)
    ]
