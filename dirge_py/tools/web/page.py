"""What a target says, as text to read on in."""

import time
from collections import OrderedDict

from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean
from dirge_py.tools.web.charset import decoded
from dirge_py.tools.web.fetch import Fetched
from dirge_py.tools.web.markdown import as_markdown
from dirge_py.tools.web.url import Target
from dirge_py.types.errors import ToolFailed

_MAX_CHARS = 2_000_000
_KEPT = 4
_KEPT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that was read. `is_whole` is False where its end was never looked at.

    `moved_to` is the other host it redirects to; there is no text then.
    """

    target: Target
    media_type: str = ""
    title: str = ""
    text: str = ""
    is_whole: bool = True
    moved_to: Target | None = None


def as_page(fetched: Fetched) -> Page:
    """What was fetched as text without controls; HTML as Markdown. Takes its time.

    Raises:
        ToolFailed: there is nothing to read.
    """
    if fetched.moved_to is not None:
        return Page(target=fetched.target, moved_to=fetched.moved_to)
    text = decoded(
        fetched.body, fetched.charset, is_html=fetched.is_html, is_whole=fetched.is_whole
    )
    title, is_whole = "", fetched.is_whole
    if fetched.is_html:
        article = as_markdown(text, fetched.target)
        title, text = article.title, article.text
        is_whole = is_whole and article.is_whole
    shown = clean(text[:_MAX_CHARS])
    if not shown.strip():
        raise ToolFailed(
            f"{fetched.target} holds no text. It may be made by a script; look for another source."
        )
    return Page(
        target=fetched.target,
        media_type=fetched.media_type,
        title=clean(title)[:300],
        text=shown,
        is_whole=is_whole and len(text) <= _MAX_CHARS,
    )


class Shelf:
    """The last few pages, for a while, so that reading on reads on in the same text."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, tuple[float, Page]] = OrderedDict()

    def put(self, url: str, page: Page) -> None:
        self._pages.pop(url, None)
        self._pages[url] = (time.monotonic(), page)
        while len(self._pages) > _KEPT:
            self._pages.popitem(last=False)

    def get(self, url: str) -> Page | None:
        put_at, page = self._pages.get(url, (0.0, None))
        return page if page is not None and time.monotonic() - put_at < _KEPT_S else None
