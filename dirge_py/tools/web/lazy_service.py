"""The web of starts that set nothing about it, made ready when a tool first uses it."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.tools.web.page import WebPage
    from dirge_py.tools.web.service import WebService
    from dirge_py.tools.web.url import ParsedUrl


class LazyWebService:
    """As `service.Web` without a search service. `make` loads all that it takes."""

    search = None
    search_problem = "No search service is chosen: set `search` under `[web]`."

    def __init__(self, make: "Callable[[], WebService]") -> None:
        self._make = make

    @cached_property
    def _made(self) -> "WebService":
        return self._make()

    def target(self, url: str) -> "ParsedUrl":
        """As `WebService.target`."""
        return self._made.target(url)

    async def page(self, target: "ParsedUrl", *, is_continued: bool = False) -> "WebPage":
        """As `WebService.page`."""
        return await self._made.page(target, is_continued=is_continued)
