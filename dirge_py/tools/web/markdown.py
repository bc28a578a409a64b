"""Converts a web page to Markdown: the text that a person would read on it, with its links.

Nothing is fetched and nothing is run. Hidden text is removed, because that is where a page puts
instructions to programs.
"""

import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from justhtml import JustHTML, Text

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.web.url import ParsedUrl, parse_reference
from dirge_py.types.errors import ToolFailed

MAX_CHARS = 500_000
MAX_ELEMENTS = 30_000
"""The rest of a page is not parsed: this much takes a second or two, and 40 MB at the worst."""
_PROGRAMS = ("script", "style", "noscript", "template", "iframe", "object", "embed", "dialog")
_PICTURES = ("svg", "math", "canvas", "audio", "video", "map")
_CONTROLS = ("button", "select", "input", "textarea", "datalist")
_LEFT_OUT = frozenset((*_PROGRAMS, *_PICTURES, *_CONTROLS, "nav", "footer", "#comment"))
_HIDING_STYLE = late_pattern(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
# The parser takes quadratic time for a text full of these.
_ELEMENT = late_pattern(r"<[A-Za-z]")
_LOOSE_BRACKET = late_pattern(r"<(?![A-Za-z/!?])")
_PROGRAM = late_pattern(r"<(script|style)\b.*?(?:</\1[^>]{0,100}>|\Z)", re.IGNORECASE | re.DOTALL)
_EMPTY_LINES = late_pattern(r"\n(?:[ \t]*\n){2,}")
_MAIN_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """The content of a page. `is_whole` is False if its end was not parsed."""

    title: str
    text: str
    is_whole: bool = True


def html_to_markdown(html: str, source: ParsedUrl) -> Article:
    """Return the readable part of a page from `source`, with absolute links. Use a thread."""
    # Scripts and styles are most of many long pages.
    full = _PROGRAM.sub("", html) if len(html) > MAX_CHARS else html
    start = full[:MAX_CHARS]
    if too_many := next(islice(_ELEMENT.finditer(start), MAX_ELEMENTS, None), None):
        start = start[: too_many.start()]
    page: Any = JustHTML(_LOOSE_BRACKET.sub("&lt;", start), sanitize=False, scripting_enabled=False)
    title = page.query_one("title")
    heading = " ".join(title.to_text().split()) if title is not None else ""
    base, base_element = source, page.query_one("base")
    if base_element is not None and base_element.attrs.get("href"):
        with suppress(ToolFailed):
            base = parse_reference(base_element.attrs["href"], source)
    converter = TableConverter()
    tables: list[Any] = []
    outer_tables: set[int] = set()
    for element, outer_table in _visible(page.root):
        if element.name == "a":
            _make_absolute(element, base)
        elif element.name == "img":
            words = " ".join((element.attrs.get("alt") or "").split())
            element.name, element.attrs = "span", {}
            if words:
                shown = Text(f"(image: {words})")
                shown.parent = element
                element.children = [shown]
        elif element.name == "table":
            tables.append(element)
            outer_tables.add(id(outer_table))
    for table in tables:
        converter.extract(table, holds_tables=id(table) in outer_tables)
    text = converter.restore(_main_part(page).to_markdown())
    text = _EMPTY_LINES.sub("\n\n", text).strip()
    return Article(title=heading, text=text, is_whole=len(start) == len(full))


def _visible(root: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the visible elements, each with the table around it; remove invisible ones."""
    waiting: list[tuple[Any, Any]] = [(root, None)]
    while waiting:
        node, table = waiting.pop()
        if node.children:
            node.children = [child for child in node.children if _is_shown(child)]
            inner = node if node.name == "table" else table
            elements = [child for child in node.children if child.name != "#text"]
            waiting += [(child, inner) for child in reversed(elements)]
        yield node, table


def _is_shown(node: Any) -> bool:
    if node.name in _LEFT_OUT:
        return False
    attributes = getattr(node, "attrs", None) or {}
    return not (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or _HIDING_STYLE.search(attributes.get("style") or "")
    )


def _make_absolute(link: Any, base: ParsedUrl) -> None:
    """Make a link's URL absolute; replace a link within the page by its text."""
    href = (link.attrs.get("href") or "").strip()
    fragment = href.partition("#")[2]
    try:
        target = parse_reference(href, base) if href and not href.startswith("#") else None
    except ToolFailed:
        target = None
    if target is None:
        link.name, link.attrs = "span", {}
        return
    is_plain = re.fullmatch(r"[A-Za-z0-9._~:/?@!$&'*+,;=%-]{1,200}", fragment)
    link.attrs = {"href": f"{target}#{fragment}" if is_plain else str(target)}


def _main_part(page: Any) -> Any:
    candidates = page.query("main") or page.query('[role="main"]') or page.query("article")
    if len(candidates) == 1 and len(candidates[0].to_text()) >= _MAIN_CHARS:
        return candidates[0]
    return page.query_one("body") or page.root


_MAX_COLUMNS = 100
_BLOCKS = "pre, ul, ol, blockquote, h1, h2, h3"


class TableConverter:
    """Converts a page's tables; meanwhile a random mark that no page can guess stands for each."""

    def __init__(self) -> None:
        self._secret = secrets.token_hex(8)
        self._rendered: list[str] = []

    def extract(self, table: Any, *, holds_tables: bool) -> None:
        """Replace the content of `table` by its mark; turn a layout table into `div` elements."""
        rows = list(_table_rows(table))
        width = min(max((len(cells) for _, cells in rows), default=0), _MAX_COLUMNS)
        if holds_tables or width < 2 or table.query_one(_BLOCKS) is not None:
            _dissolve(table, rows)
            return
        lines = []
        for cells in filter(None, (cells for _, cells in rows)):
            texts = [" ".join(cell.to_markdown().split()).replace("|", r"\|") for cell in cells]
            texts += [""] * (width - len(texts))
            lines.append(f"| {' | '.join(texts[:width])} |")
        lines.insert(1, "|" + " --- |" * width)
        self._rendered.append("\n".join(lines))
        mark = Text(f"t{self._secret}n{len(self._rendered) - 1}n")
        mark.parent = table
        table.name, table.attrs, table.children = "p", {}, [mark]

    def restore(self, markdown: str) -> str:
        """Return `markdown` with the tables in place of their marks."""
        return re.sub(
            rf"t{self._secret}n([0-9]+)n", lambda mark: self._rendered[int(mark[1])], markdown
        )


def _table_rows(table: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield (row, its cells) of the table itself, not of tables in it."""
    for part in table.children or ():
        rows = part.children or () if part.name in ("thead", "tbody", "tfoot") else (part,)
        for row in rows:
            if row.name == "tr":
                yield row, [cell for cell in row.children or () if cell.name in ("td", "th")]


def _dissolve(table: Any, rows: list[tuple[Any, list[Any]]]) -> None:
    cells = [cell for _, of_row in rows for cell in of_row]
    for part in (table, *(table.children or ()), *(row for row, _ in rows), *cells):
        if part.name != "#text":
            part.name = "div"
