"""The web as tools may use it."""

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.web.dns_guard import DnsGuard
from dirge_py.tools.web.url import ParsedUrl, parse_url
from dirge_py.types.errors import ToolFailed

if TYPE_CHECKING:
    from dirge_py.tools.web.page import WebPage, fetch_page
    from dirge_py.tools.web.search import WebSearch
    from dirge_py.tools.web.transport import GuardedTransport
else:
    fetch_page = late("dirge_py.tools.web.page", "fetch_page")
    GuardedTransport = late("dirge_py.tools.web.transport", "GuardedTransport")

_KEPT_PAGES = 4
_KEPT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebLimits:
    """`timeout_s` is for one page with all its redirects, `max_bytes` for what it unpacks to."""

    timeout_s: float = 15.0
    connect_s: float = 5.0
    max_bytes: int = 5 * 1024 * 1024


class WebService:
    """Fetching pages and searching, for one conversation. Costs nothing until it is used.

    `search` is None where there is none; `search_problem` then says why, and what to do.
    """

    def __init__(
        self,
        reach: DnsGuard | None = None,
        *,
        limits: WebLimits | None = None,
        proxy: str | None = None,
        search: "WebSearch | None" = None,
        search_problem: str = "",
    ) -> None:
        self._reach = reach or DnsGuard()
        self._limits = limits or WebLimits()
        self._proxy = proxy
        self._transport: GuardedTransport | None = None
        self._pages = PageCache()
        self.search = search
        self.search_problem = search_problem

    def target(self, url: str) -> ParsedUrl:
        """What `url` names, as far as that can be judged without asking anybody.

        Raises:
            ToolFailed: it would not be fetched.
        """
        target = parse_url(url)
        self._reach.admit(target)
        return target

    async def page(self, target: ParsedUrl, *, is_continued: bool = False) -> "WebPage":
        """The page at `target`; when continued, as it was fetched before, if that is not long ago.

        Raises:
            ToolFailed: it may not be reached, cannot be, or holds no text.
        """
        kept = self._pages.get(target.url) if is_continued else None
        if kept is not None:
            return kept
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                page = await self._fetch(target)
        except TimeoutError:
            raise ToolFailed(
                f"{target} took longer than {self._limits.timeout_s:g} s. Try another source, or "
                "a smaller page.",
                outcome="timeout",
            ) from None
        self._pages.put(target.url, page)
        return page

    async def _fetch(self, target: ParsedUrl) -> "WebPage":
        if self._transport is None:
            self._transport = GuardedTransport(
                self._reach, proxy=self._proxy, connect_s=self._limits.connect_s
            )
        return await fetch_page(self._transport, target, max_bytes=self._limits.max_bytes)


class PageCache:
    """The last few pages, for a while, so that reading on reads on in the same text."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, tuple[float, WebPage]] = OrderedDict()

    def put(self, url: str, page: "WebPage") -> None:
        self._pages.pop(url, None)
        self._pages[url] = (time.monotonic(), page)
        while len(self._pages) > _KEPT_PAGES:
            self._pages.popitem(last=False)

    def get(self, url: str) -> "WebPage | None":
        put_at, page = self._pages.get(url, (0.0, None))
        return page if page is not None and time.monotonic() - put_at < _KEPT_S else None
