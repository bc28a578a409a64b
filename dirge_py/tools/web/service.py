"""The web as tools may use it."""

import asyncio
from typing import TYPE_CHECKING

from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.web.dns_guard import DnsGuard, run_in_daemon_thread
from dirge_py.tools.web.url import ParsedUrl, parse_url
from dirge_py.types.errors import ToolFailed

if TYPE_CHECKING:
    import ssl

    from dirge_py.tools.web.fetch import fetch
    from dirge_py.tools.web.page import PageCache, WebPage, page_from
    from dirge_py.tools.web.search import WebSearch
    from dirge_py.tools.web.transport import GuardedTransport
else:
    fetch = late("dirge_py.tools.web.fetch", "fetch")
    PageCache = late("dirge_py.tools.web.page", "PageCache")
    page_from = late("dirge_py.tools.web.page", "page_from")
    GuardedTransport = late("dirge_py.tools.web.transport", "GuardedTransport")


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
        tls: "ssl.SSLContext | None" = None,
    ) -> None:
        self._reach = reach or DnsGuard()
        self._limits = limits or WebLimits()
        self._proxy = proxy
        self._tls = tls
        self._transport: GuardedTransport | None = None
        self._shelf: PageCache | None = None
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
        if self._shelf is None:
            self._shelf = PageCache()
        kept = self._shelf.get(target.url) if is_continued else None
        if kept is not None:
            return kept
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                page = await self._fetched(target)
        except TimeoutError:
            raise ToolFailed(
                f"{target} took longer than {self._limits.timeout_s:g} s. Try another source, or "
                "a smaller page.",
                outcome="timeout",
            ) from None
        self._shelf.put(target.url, page)
        return page

    async def _fetched(self, target: ParsedUrl) -> "WebPage":
        if self._transport is None:
            self._transport = GuardedTransport(
                self._reach, proxy=self._proxy, connect_s=self._limits.connect_s, tls=self._tls
            )
        fetched = await fetch(self._transport, target, max_bytes=self._limits.max_bytes)
        return await run_in_daemon_thread(page_from, fetched)
