"""Draws Markdown, which markdown-it parses, as lines.

Nothing is fetched and nothing is hidden: a link shows its target, and an image its address.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import zip_longest
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.ui.theme.styles import Styles
from dirge_py.ui.transcript.diff import is_diff_language, paint_fenced
from dirge_py.ui.transcript.lines import Line, Span, fold, strip, wrap
from dirge_py.ui.transcript.syntax import highlight

PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_BULLETS = ("•", "◦", "▪")
_NARROWEST = 12
"""Cells for text at any depth of nesting."""


def paint_markdown(
    source: str, width: int, styles: Styles, *, plain_code: bool = False
) -> list[Strip]:
    """Draw `source`, without highlighting if `plain_code`, as code that is still streamed."""
    painter = _Painter(width=max(4, width), styles=styles, plain_code=plain_code)
    painter.paint(PARSER.parse(source))
    return painter.strips


@dataclass(slots=True)
class _Painter:
    width: int
    styles: Styles
    plain_code: bool
    strips: list[Strip] = field(default_factory=list)
    _indents: list[Span] = field(default_factory=list)
    _marker: Span | None = None
    _lists: list[int | None] = field(default_factory=list)
    """The number of the next item of each open list; None for bullets."""
    _wants_gap: bool = False

    def paint(self, tokens: Sequence[Token]) -> None:
        stream = iter(tokens)
        for token in stream:
            match token.type:
                case "heading_open":
                    self._heading(token, next(stream))
                case "paragraph_open":
                    self._paragraph(next(stream), is_tight=token.hidden)
                case "fence" | "code_block":
                    self._code(token.content, token.info.split(" ")[0].strip())
                case "bullet_list_open":
                    self._open_list(None)
                case "ordered_list_open":
                    self._open_list(int(token.attrs.get("start", 1)))
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                    self._wants_gap = True
                case "list_item_open":
                    self._open_item()
                case "list_item_close" | "blockquote_close":
                    if self._marker is not None:
                        self._add([strip(self._prefix())])
                    self._indents.pop()
                case "blockquote_open":
                    self._gap()
                    self._indents.append(("▌ ", self.styles.markdown.line))
                case "hr":
                    self._gap()
                    rule = ("─" * self._text_width(), self.styles.markdown.line)
                    self._add([strip([*self._prefix(), rule])])
                case "table_open":
                    self._table(stream)
                case _ if token.content:
                    self._gap()
                    self._add(self._wrap([(token.content.rstrip("\n"), self.styles.dim)]))

    def _heading(self, opening: Token, inline: Token) -> None:
        self._gap()
        looks = {"h1": self.styles.markdown.title, "h2": self.styles.heading}
        minor = self.styles.heading + self.styles.markdown.emphasis
        self._add(self._wrap(self._inline(inline, looks.get(opening.tag, minor))))

    def _paragraph(self, inline: Token, *, is_tight: bool) -> None:
        if not is_tight:
            self._gap()
        self._add(self._wrap(self._inline(inline, self.styles.text)), wants_gap=not is_tight)

    def _code(self, content: str, language: str) -> None:
        self._gap()
        prefix = [*self._prefix(), ("  ", self.styles.text)]
        code = content.removesuffix("\n")
        if is_diff_language(language):
            self._add(paint_fenced(code, self.width, self.styles, indent=prefix))
            return
        lines = highlight(code, "" if self.plain_code else language, self.styles)
        self._add([part for line in lines for part in fold(line, self.width, prefix=prefix)])

    def _open_list(self, number: int | None) -> None:
        if not self._lists:
            self._gap()
        self._wants_gap = False
        self._lists.append(number)

    def _open_item(self) -> None:
        number = self._lists[-1]
        if number is None:
            mark = _BULLETS[min(len(self._lists), len(_BULLETS)) - 1] + " "
        else:
            mark = f"{number}. "
            self._lists[-1] = number + 1
        # The mark of an item that begins with another item gets a line of its own.
        if self._marker is not None:
            self._add([strip(self._prefix())])
        if self._text_width() <= _NARROWEST:
            mark = mark[:1] + " "
        self._indents.append((" " * len(mark), self.styles.text))
        self._marker = (mark, self.styles.accent)

    def _table(self, stream: Iterator[Token]) -> None:
        self._gap()
        rows: list[list[Line]] = []
        aligns: list[str] = []
        for token in stream:
            if token.type == "table_close":
                break
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                aligns.append(str(token.attrs.get("style", "")).removeprefix("text-align:"))
            elif token.type == "inline":
                style = self.styles.heading if len(rows) == 1 else self.styles.text
                rows[-1].append(self._inline(token, style))
        prefix = self._prefix()
        lines = paint_table(rows, aligns, width=self._text_width(), styles=self.styles)
        self._add([strip([*prefix, *line]) for line in lines])

    def _inline(self, token: Token, base: Style) -> Line:
        # The source was cleaned, but `&#x202e;` and `%E2%80%AE` become characters only here.
        spans: Line = []
        nested = [base]
        target, begin = "", 0
        look = self.styles.markdown
        added = {"strong": self.styles.strong, "em": look.emphasis, "s": look.strike}
        for child in token.children or ():
            match child.type:
                case "strong_open" | "em_open" | "s_open":
                    nested.append(nested[-1] + added[child.type.removesuffix("_open")])
                case "link_open":
                    target, begin = clean(str(child.attrs.get("href", ""))), len(spans)
                    nested.append(look.link)
                case "link_close":
                    nested.pop()
                    spans[begin:] = show_link(spans[begin:], target, self.styles)
                case "strong_close" | "em_close" | "s_close":
                    nested.pop()
                case "code_inline":
                    spans.append((clean(child.content), look.code))
                case "softbreak" | "hardbreak":
                    # Models break lines on purpose, so they aren't joined.
                    spans.append(("\n", nested[-1]))
                case "image":
                    source = clean(str(child.attrs.get("src", "")))
                    spans.append((f"[image: {clean(child.content)}] {source}", self.styles.dim))
                case _:
                    spans.append((clean(child.content), nested[-1]))
        return spans

    def _prefix(self) -> list[Span]:
        prefix = list(self._indents)
        if self._marker is not None:
            prefix[-1] = self._marker
            self._marker = None
        return prefix

    def _text_width(self) -> int:
        return max(_NARROWEST, self.width - sum(len(text) for text, _ in self._indents))

    def _wrap(self, spans: Line) -> list[Strip]:
        return wrap(spans, self.width, first=self._prefix(), rest=self._indents)

    def _gap(self) -> None:
        if self._wants_gap and self._marker is None:
            self.strips.append(strip(self._indents))
        self._wants_gap = False

    def _add(self, strips: list[Strip], *, wants_gap: bool = True) -> None:
        self.strips.extend(strips)
        self._wants_gap = wants_gap


_GAP = " │ "
_NARROWEST_COLUMN = 3


def paint_table(
    rows: Sequence[Sequence[Line]], aligns: Sequence[str], *, width: int, styles: Styles
) -> list[Line]:
    """Draw a table whose first row is its heading; on a narrow screen its columns shrink."""
    widths: list[int] = []
    for row in rows:
        sizes = [max(1, cell_len("".join(text for text, _ in cell))) for cell in row]
        widths = [max(pair) for pair in zip_longest(widths, sizes, fillvalue=1)]
    if not widths:
        return []
    left = width - len(_GAP) * (len(widths) - 1)
    widths = [min(size, max(_NARROWEST_COLUMN, left)) for size in widths]
    while sum(widths) > left and max(widths) > _NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    lines: list[Line] = []
    for index, row in enumerate(rows):
        lines.extend(_paint_row(row, widths, aligns, styles))
        if index == 0:
            lines.append([("─┼─".join("─" * size for size in widths), styles.markdown.line)])
    return lines


def _paint_row(
    row: Sequence[Line], widths: Sequence[int], aligns: Sequence[str], styles: Styles
) -> list[Line]:
    cells = [wrap(cell, size) for cell, size in zip(row, widths, strict=False)]
    cells += [[]] * (len(widths) - len(row))
    lines: list[Line] = []
    for level in zip_longest(*cells, fillvalue=Strip([])):
        line: Line = []
        for piece, size, align in zip_longest(level, widths, aligns):
            blank = size - piece.cell_length
            before = {"right": blank, "center": blank // 2}.get(align, 0)
            line += [(_GAP, styles.markdown.line)] if line else []
            line.append((" " * before, styles.text))
            line += [(segment.text, segment.style or styles.text) for segment in piece]
            line.append((" " * (blank - before), styles.text))
        lines.append(line)
    return lines


_SAFE = late_pattern(r"https?://[!-~]{1,2000}", re.IGNORECASE)
"""Links for the terminal: http(s) and plain ASCII, which can't end the escape sequence."""
_LIKE_ADDRESS = late_pattern(
    r"(?:[a-z][a-z0-9+.-]*://|(?=www\.))(?:[^\s/?#@]*@)?(?P<host>[^\s/?#:@]+)\S*"
    r"|(?P<bare>(?:[\w-]+\.)+(?:com|org|net|io|dev|app|ai|co|edu|gov|info))(?:[:/?#]\S*)?",
    re.IGNORECASE,
)
"""Without a scheme only the best known top level domains count, not `os.path` or `notes.md`."""


def show_link(label: Line, target: str, styles: Styles) -> Line:
    """Return the label with its target, and a warning if the label names another host."""
    text = "".join(piece for piece, _ in label).strip()
    linked = Style(link=target) if _SAFE.fullmatch(target) else Style.null()
    if target in (text, f"mailto:{text}"):
        return [(piece, style + linked) for piece, style in label]
    if _is_false(text, target):
        plain: Line = [(piece, styles.dim) for piece, _ in label]
        return [*plain, (" → really ", styles.warning), (target, styles.warning + linked)]
    shown: Line = [(piece, style + linked) for piece, style in label]
    return [*shown, (" (", styles.dim), (target, styles.dim + linked), (")", styles.dim)]


def _is_false(label: str, target: str) -> bool:
    named = _LIKE_ADDRESS.match(label)
    try:
        host = (urlsplit(target).hostname or "").lower()
    except ValueError:
        host = ""
    if named is None or not host:
        return False
    shown = (named["host"] or named["bare"]).lower()
    return shown.removeprefix("www.") != host.removeprefix("www.")
