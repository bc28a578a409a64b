"""The web of starts that set nothing about it, made ready when a tool first uses it."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dirge_py.tools.web.page import Page
    from dirge_py.tools.web.service import Web
    from dirge_py.tools.web.url import Target


class LateWeb:
    """As `service.Web` without a search service. `make` loads all that it takes."""

    search = None
    search_problem = "No search service is chosen: set `search` under `[web]`."

    def __init__(self, make: "Callable[[], Web]") -> None:
        self._make = make

    @cached_property
    def _made(self) -> "Web":
        return self._make()

    def target(self, url: str) -> "Target":
        """As `Web.target`."""
        return self._made.target(url)

    async def page(self, target: "Target", *, is_continued: bool = False) -> "Page":
        """As `Web.page`."""
        return await self._made.page(target, is_continued=is_continued)
