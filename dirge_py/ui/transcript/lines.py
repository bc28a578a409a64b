"""Wraps styled text into lines of a given width, and restores the text from the lines.

Cell widths come from Rich, as Textual uses it too: two measures that disagree about an emoji would
shift the rest of the line.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from dirge_py.lib.lazy import late_pattern
from dirge_py.ui.theme.styles import Styles

Span: TypeAlias = tuple[str, Style]
"""A piece of text and its style."""
Line: TypeAlias = list[Span]
TAB_WIDTH = 4
LONGEST_LINE = 8192
"""Characters that are shown of one line."""
_MARGIN = late_pattern(r"[ ›∴▌│»·✓✗!+]*")
"""Blanks and marks in front of a text, which a copy leaves out."""

# East Asian wide characters may break anywhere, so each counts as a word.
_ATOMS = late_pattern(
    r"\n| +|[\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]"
    r"|[^ \n\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]+"
)


def wrap(
    spans: Iterable[Span],
    width: int,
    *,
    first: Sequence[Span] = (),
    rest: Sequence[Span] = (),
    indent: Span | None = None,
) -> list[Strip]:
    """Wrap `spans` at blanks and newlines into lines of at most `width` cells.

    `first` precedes the first line and `rest` the others; `indent` replaces both. They aren't part
    of the text, except for a `first` with more than marks in it, such as the number of an item.
    """
    if indent is not None:
        first = rest = (indent,)
    lines = _wrap(_joined(spans), max(1, width - _cells(first)), max(1, width - _cells(rest)))
    mark = "".join(text for text, _ in first)
    margins = [len(mark) if _MARGIN.fullmatch(mark) else 0, sum(len(text) for text, _ in rest)]
    return [
        strip([*(rest if at else first), *line], margin=margins[min(at, 1)], joint=joint)
        for at, (joint, line) in enumerate(lines)
    ]


def fold(
    spans: Sequence[Span],
    width: int,
    *,
    prefix: Sequence[Span] = (),
    rest: Sequence[Span] | None = None,
    is_whole: bool = False,
) -> list[Strip]:
    """Wrap a line of code or output, at a blank if one is near the end of the line.

    `prefix` precedes the first line and `rest`, or else `prefix`, the others. Unless `is_whole`, a
    very long line is truncated.
    """
    later = prefix if rest is None else rest
    line = [
        (text.expandtabs(TAB_WIDTH) if is_whole else truncate(text), style)
        for text, style in _joined(spans)
    ]
    text = "".join(piece for piece, _ in line)
    left, later_left = max(1, width - _cells(prefix)), max(1, width - _cells(later))
    strips: list[Strip] = []
    end = 0
    for begin, stop in _cut_at_blanks(text, left, later_left):
        head, joint = (later, text[end:begin]) if strips else (prefix, None)
        margin = sum(len(piece) for piece, _ in head)
        shown = line if (begin, stop) == (0, len(text)) else _part(line, begin, stop)
        strips.append(strip([*head, *shown], margin=margin, joint=joint))
        end = stop
    return strips


def _part(line: Sequence[Span], begin: int, end: int) -> Line:
    """Return the spans of the characters from `begin` to `end`."""
    part: Line = []
    at = 0
    for text, style in line:
        piece = text[max(0, begin - at) : max(0, end - at)]
        if piece:
            part.append((piece, style))
        at += len(text)
    return part


def _cut_at_blanks(text: str, width: int, later_width: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each line; a blank at which a line ends exactly is left out."""
    begin = 0
    if text.isascii():
        while len(text) - begin > width:
            edge = begin + width
            end = edge
            if text[edge] != " ":
                end = text.rfind(" ", begin + width // 2, edge) + 1 or edge
            yield begin, end
            begin, width = end + (end == edge and text[edge] == " "), later_width
        if begin < len(text) or not text:
            yield begin, len(text)
        return
    used = blank = 0
    for start, stop, size in split_graphemes(text)[0]:
        # Twice if what is behind the blank does not fit into a narrower later line.
        while used + size > width and start > begin:
            is_blank = text[start:stop] == " "
            end = blank if blank > begin and not is_blank else start
            yield begin, end
            begin, width = (stop if is_blank else end), later_width
            used, blank = cell_len(text[begin:start]), 0
            if is_blank:
                break
        else:
            used += size
            if (size > 1 or text[start:stop] == " ") and used > width // 2:
                blank = stop
    if begin < len(text):
        yield begin, len(text)


def strip(spans: Iterable[Span], *, margin: int = 0, joint: str | None = None) -> Strip:
    """Return a drawn line; for `margin` and `joint` see `PaintedLine`."""
    segments = [Segment(text, style) for text, style in _joined(spans)]
    return PaintedLine(segments, margin=margin, joint=joint)


def behind(mark: Span, line: Strip) -> Strip:
    """Return the line with a mark in front that isn't part of its text."""
    more, line = len(mark[0]), _painted(line)
    margin, size = more + line.margin, more + line.size
    return PaintedLine([Segment(*mark), *line], margin=margin, joint=line.joint, size=size)


def pad(line: Strip, width: int, style: Style) -> Strip:
    """Return the line with blanks at its end, `width` cells long."""
    missing = width - line.cell_length
    if missing <= 0:
        return line
    spans = [(segment.text, segment.style or style) for segment in line]
    segments = [Segment(text, look) for text, look in _joined([*spans, (" " * missing, style)])]
    line = _painted(line)
    return PaintedLine(segments, margin=line.margin, joint=line.joint, size=line.size)


def selected_row(line: Strip, width: int, style: Style) -> Strip:
    """Return the line as the selected row of a list: reversed, `width` cells long."""
    row = style + Style(reverse=True)
    return strip([(pad(line, width, style).text, row)])


class LinesWidget(Widget, can_focus=False):
    """A widget that draws lines of styled text."""

    def __init__(self, styles: Styles, name: str) -> None:
        super().__init__(id=name)
        self._styles = styles

    def line_at(self, y: int) -> Line:
        """Return the line in row `y`."""
        raise NotImplementedError

    def use_styles(self, styles: Styles) -> None:
        self._styles = styles
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return strip(self.line_at(y)).crop_extend(0, self.size.width, self._styles.text)


def truncate(line: str) -> str:
    """Return a line cut to `LONGEST_LINE`, with blanks for tabs."""
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]}… ({len(line) - LONGEST_LINE} more characters)"
    return line.expandtabs(TAB_WIDTH)


def chop(text: str, width: int) -> list[str]:
    """Cut `text` into pieces of at most `width` cells, never inside a grapheme."""
    if text.isascii():
        return [text[at : at + width] for at in range(0, len(text), width)]
    pieces: list[str] = []
    begin = used = 0
    for start, _end, size in split_graphemes(text)[0]:
        if used + size > width and start > begin:
            pieces.append(text[begin:start])
            begin, used = start, 0
        used += size
    return [*pieces, text[begin:]] if begin < len(text) else pieces


def clip(text: str, width: int) -> str:
    """Return the first line of `text` in at most `width` cells; `…` stands for the rest."""
    head, newline, _ = text.partition("\n")
    head = truncate(head)
    if not newline and cell_len(head) <= width:
        return head
    pieces = chop(head, max(1, width - 1))
    return (pieces[0] if pieces else "") + "…"


def clip_words(text: str, width: int) -> str:
    """Return `text` like `clip`, but without the last word if that is cut."""
    clipped = clip(text, width)
    head, _, word = clipped.rpartition(" ")
    is_cut = clipped.endswith("…") and not text.startswith(clipped)
    return f"{head.rstrip()} …" if is_cut and word != "…" and len(head) > width // 2 else clipped


HINT_JOINT = " · "


def pack_hints(hints: Sequence[str], width: int) -> list[str]:
    """Return rows of hints between ` · `, none of which is split."""
    rows: list[str] = []
    for hint in hints:
        if rows and cell_len(rows[-1] + HINT_JOINT + hint) <= width:
            rows[-1] += HINT_JOINT + hint
        else:
            rows.append(hint)
    return rows


def _cells(spans: Sequence[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def _joined(spans: Iterable[Span]) -> Line:
    """Join neighbours of the same style: fewer bytes to send, and no grapheme is in two spans."""
    joined: Line = []
    for text, style in spans:
        if joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + text, style)
        elif text:
            joined.append((text, style))
    return joined


def _wrap(spans: Iterable[Span], width: int, later_width: int) -> list[tuple[str | None, Line]]:
    """Fill lines greedily, and return each with its joint; `later_width`: from the second on."""
    lines: list[tuple[str | None, Line]] = []
    line: Line = []
    joint: str | None = None
    used = 0
    gap: Span | None = None
    for word in _words(spans):
        text, style = word[0]
        if text == "\n":
            lines.append((joint, line))
            line, used, gap, width, joint = [], 0, None, later_width, None
            continue
        if text[0] == " ":
            gap = (text, style)
            continue
        size = sum(cell_len(piece) for piece, _ in word)
        blank = len(gap[0]) if gap else 0
        # A word that has to be cut anyway fills the line behind a short label.
        is_cut = size > later_width and used + blank <= width // 2
        if used and used + blank + size > width and not is_cut:
            lines.append((joint, line))
            joint = gap[0] if gap else ""
            line, used, gap, width = [], 0, None, later_width
        elif gap and blank < width:
            line.append(gap)
            used += blank
        gap = None
        if used + size <= width:
            line.extend(word)
            used += size
            continue
        for piece, piece_style in word:
            for part in _chop_into(piece, width - used, later_width):
                if used and used + cell_len(part) > width:
                    lines.append((joint, line))
                    line, used, width, joint = [], 0, later_width, ""
                line.append((part, piece_style))
                used += cell_len(part)
    lines.append((joint, line))
    return lines


def _chop_into(text: str, left: int, width: int) -> Iterator[str]:
    """Yield pieces of a long word; the first one fills the current line with `left` cells."""
    if 0 < left < cell_len(text):
        head = chop(text, left)[0]
        if cell_len(head) <= left:
            yield head
            text = text[len(head) :]
    yield from chop(text, width)


def _words(spans: Iterable[Span]) -> Iterator[Line]:
    """Yield words, which may have several spans, and blanks and newlines one by one."""
    word: Line = []
    for text, style in spans:
        # A tab would make the terminal jump.
        for match in _ATOMS.finditer(text.replace("\t", " " * TAB_WIDTH)):
            atom = match[0]
            is_breakable = atom[0] in " \n" or (len(atom) == 1 and "\u2e80" <= atom <= "\uff60")
            if not is_breakable:
                word.append((atom, style))
                continue
            if word:
                yield word
                word = []
            yield [(atom, style)]
    if word:
        yield word


class PaintedLine(Strip):
    """One line of a block.

    `margin`: characters at its start that painting added. `joint`: the text between the line above
    and this one if wrapping separated them, else None. `size`: characters without padding.
    """

    __slots__ = ("joint", "margin", "size")

    def __init__(
        self,
        segments: Iterable[Segment],
        *,
        margin: int = 0,
        joint: str | None = None,
        size: int | None = None,
    ) -> None:
        super().__init__(segments)
        self.joint = joint
        self.size = sum(len(segment.text) for segment in self) if size is None else size
        self.margin = min(margin, self.size)


_WORD_OF_TEXT = late_pattern(r"[\w./~@:+%#=\-]+")
"""What a double click selects: a name, path, number or address."""


class LogicalText:
    """The text of a block before it was wrapped; offsets count its characters."""

    def __init__(self, strips: Sequence[Strip]) -> None:
        self._strips = [_painted(strip) for strip in strips]
        self._starts: list[int] = []
        self._matches: tuple[re.Pattern[str] | None, list[tuple[int, int]]] = (None, [])
        parts: list[str] = []
        at = 0
        for line, strip in enumerate(self._strips):
            text = strip.text[strip.margin : strip.size]
            continues = line + 1 < len(self._strips) and self._strips[line + 1].joint is not None
            text = text if continues else text.rstrip()
            before = "\n" if strip.joint is None and line else strip.joint or ""
            self._starts.append(at + len(before))
            parts += (before, text)
            at += len(before) + len(text)
        self.text = "".join(parts)

    def line_of(self, offset: int) -> int:
        """Return the drawn line of a character."""
        return max(0, bisect_right(self._starts, offset) - 1)

    def start_of(self, line: int) -> int:
        """Return the offset at which a drawn line begins; that of the end beyond the last."""
        return self._starts[line] if line < len(self._starts) else len(self.text)

    def end_of(self, line: int) -> int:
        """Return the offset behind the last character of a drawn line."""
        if line + 1 >= len(self._starts):
            return len(self.text)
        joint = self._strips[line + 1].joint
        return self._starts[line + 1] - (1 if joint is None else len(joint))

    def offset_at(self, line: int, cell: int) -> int:
        """Return the offset of the character in a column, or of the start or end of its line."""
        if not 0 <= line < len(self._strips):
            return 0 if line < 0 else len(self.text)
        margin, text = self._strips[line].margin, self._strips[line].text
        start, end = self._starts[line], self.end_of(line)
        left = cell - cell_len(text[:margin])
        if left <= 0:
            return start
        shown = text[margin : margin + end - start]
        if shown.isascii():
            return min(start + left, end)
        for begin, _, size in split_graphemes(shown)[0]:
            if left < size:
                return start + begin
            left -= size
        return end

    def cells_of(self, line: int, begin: int, end: int) -> tuple[int, int] | None:
        """Return the columns of a drawn line that show the text from `begin` to `end`."""
        start, stop = self._starts[line], self.end_of(line)
        first, last = max(begin, start), min(end, stop)
        if first > last or (first == last and begin != end):
            return None
        margin, text = self._strips[line].margin, self._strips[line].text
        head = margin + first - start
        left = cell_len(text[:head])
        return left, left + cell_len(text[head : margin + last - start])

    def line_around(self, offset: int) -> tuple[int, int]:
        """Return start and end of the unwrapped line at `offset`."""
        end = self.text.find("\n", offset)
        return self.text.rfind("\n", 0, offset) + 1, end if end >= 0 else len(self.text)

    def word_around(self, offset: int) -> tuple[int, int]:
        """Return start and end of the word, or of the single sign, at `offset`."""
        begin, end = self.line_around(offset)
        for word in _WORD_OF_TEXT.finditer(self.text, begin, end):
            if word.start() <= offset < word.end():
                return word.start(), word.end()
        return offset, min(offset + 1, end)

    def matches(self, pattern: re.Pattern[str]) -> Sequence[tuple[int, int]]:
        """Return start and end of each match; cached for the last pattern."""
        if self._matches[0] is not pattern:
            self._matches = (pattern, [match.span() for match in pattern.finditer(self.text)])
        return self._matches[1]


def _painted(line: Strip) -> PaintedLine:
    return line if isinstance(line, PaintedLine) else PaintedLine(line)
