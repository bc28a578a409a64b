"""DuckDuckGo's page for browsers without scripts, as hits."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from justhtml import JustHTML

from dirge_py.tools.web.search import Hit
from dirge_py.types.errors import ToolFailed

_ACCEPTED = 202
"""The status of the page that asks whether a person is there."""


def hits_on(status: int, page: str) -> Sequence[Hit]:
    """The results on a page, without advertisements.

    Raises:
        ToolFailed: it wants to see a person.
        ValueError: it is not a page of results.
    """
    document: Any = JustHTML(page, sanitize=False, scripting_enabled=False)
    if status == _ACCEPTED or document.query_one(".anomaly-modal__modal, #challenge-form"):
        raise ToolFailed(
            "duckduckgo wants to see a person first: too many searches came from here. Go on "
            "without, or search later; the user can choose another service under `[web]`."
        )
    results = document.query(".result")
    if not results:
        raise ValueError("no results, and no words about that")
    return [hit for each in results if (hit := _hit(each)) is not None]


def _hit(result: Any) -> Hit | None:
    link = result.query_one("a.result__a")
    classes = (result.attrs.get("class") or "").split()
    url = _leads_to((link.attrs.get("href") or "") if link is not None else "")
    if not url or "result--ad" in classes:
        return None
    snippet = result.query_one(".result__snippet")
    return Hit(title=_text(link), url=url, snippet=_text(snippet) if snippet is not None else "")


def _text(element: Any) -> str:
    return str(element.to_text(separator="", strip=False))


def _leads_to(href: str) -> str:
    """The address behind a link, which may count clicks on its way; empty for advertisements."""
    parts = urlsplit(href)
    if not (parts.hostname or "duckduckgo.com").endswith("duckduckgo.com"):
        return href
    return next(iter(parse_qs(parts.query).get("uddg", ())), "")
