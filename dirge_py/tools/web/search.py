"""Web search: sends one query to one service and returns its results.

To add a service, write a class here, add it to `BACKENDS`, and add its name to the settings.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

from dirge_py.lib.lazy import late
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, one_line
from dirge_py.lib.version import __version__
from dirge_py.tools.web.dns_guard import DnsGuard
from dirge_py.tools.web.url import OutgoingRequest, ParsedUrl, parse_url
from dirge_py.types.errors import ToolFailed

if TYPE_CHECKING:
    from justhtml import JustHTML

    from dirge_py.tools.web.transport import request
else:
    JustHTML = late("justhtml", "JustHTML")
    request = late("dirge_py.tools.web.transport", "request")

_MAX_BYTES = 2 * 1024 * 1024
_TITLE_CHARS, _SNIPPET_CHARS, _SAID_CHARS = 200, 400, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """One result, as the service describes it."""

    title: str
    url: str
    snippet: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """The request for a query: `fields` go into the URL, `outgoing` is the rest."""

    fields: Mapping[str, str]
    outgoing: OutgoingRequest


class SearchBackend(Protocol):
    """How one service is called, and how its answer is parsed.

    `url` is its usual address, "" if every user has a different one; `path` is appended to an
    address without one. `key_env` is the usual variable of its key, "" if it needs none.
    `on_refusal` says what the user should check when the service denies access.
    """

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def key_env(self) -> str: ...
    @property
    def on_refusal(self) -> str: ...

    def ask(self, query: str, count: int, key: str) -> SearchRequest: ...

    def hits(self, status: int, body: bytes) -> Sequence[SearchHit]:
        """Return the results in the body of an answer with this success status, best first.

        Raises:
            ToolFailed: the answer says that the service refuses.
            ValueError, KeyError, TypeError, AttributeError: the answer has an unexpected format.
        """


class WebSearch:
    """A search service. The key is only sent to `endpoint`, and appears in no message."""

    def __init__(
        self,
        backend: SearchBackend,
        endpoint: ParsedUrl,
        *,
        reach: DnsGuard,
        key: str = "",
        proxy: str | None = None,
        timeout_s: float = 15.0,
    ) -> None:
        self._backend = backend
        self._endpoint = endpoint
        self._reach = reach
        self._key = key
        self._proxy = proxy
        self._timeout_s = timeout_s

    @property
    def host(self) -> str:
        return self._endpoint.host

    @property
    def name(self) -> str:
        return self._backend.name

    async def find(self, query: str, count: int) -> Sequence[SearchHit]:
        """Return at most `count` results with usable URLs, best first.

        Raises:
            ToolFailed: the service cannot be reached, or did not answer the query.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                status, body = await self._answer(query, count)
        except TimeoutError:
            raise ToolFailed(
                f"{self.name} took longer than {self._timeout_s:g} s. Try again, or without it.",
                outcome="timeout",
            ) from None
        if status >= 300:
            raise ToolFailed(self._refused(status, body))
        try:
            hits = self._backend.hits(status, body)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ToolFailed(
                f"{self.name} ({self.host}) sent an answer that cannot be read: "
                f"{self._said(body)}. Is `search_url` under `[web]` right?"
            ) from None
        return [tidy for hit in hits if (tidy := _clean_hit(hit)) is not None][:count]

    async def _answer(self, query: str, count: int) -> tuple[int, bytes]:
        asked = self._backend.ask(query, count, self._key)
        mark = "&" if "?" in self._endpoint.path else "?"
        fields = f"{mark}{urlencode(asked.fields)}" if asked.fields else ""
        target = parse_url(self._endpoint.url + fields)
        status, body, is_whole = await request(
            target, asked.outgoing, self._reach, proxy=self._proxy, max_bytes=_MAX_BYTES
        )
        if not is_whole:
            raise ToolFailed(f"{self.name} sent more than {_MAX_BYTES} bytes. Ask for less.")
        return status, body

    def _refused(self, status: int, body: bytes) -> str:
        said = self._said(body)
        words = f"{self.name} ({self.host}) answered {status}{f': {said}' if said else ''}. "
        if status < 400:
            return words + "It has moved: the user must set `search_url` under `[web]`."
        if status in (401, 402, 403):
            return words + self._backend.on_refusal
        if status == 429:
            return words + "It is rate limited. Continue without it, or search later."
        return words + "Search in other words, or later."

    def _said(self, body: bytes) -> str:
        """Return the beginning of the service's answer, without the key."""
        text = body[: 8 * _SAID_CHARS].decode("utf-8", "replace")
        text = text.replace(self._key, "[redacted]") if self._key else text
        is_page = text.lstrip()[:1] == "<"
        return "a web page" if is_page else _line(text, _SAID_CHARS)


def _clean_hit(hit: SearchHit) -> SearchHit | None:
    """Return `hit` with one-line texts; None if its URL cannot be fetched."""
    try:
        url = parse_url(hit.url.strip()).url
    except ToolFailed:
        return None
    title = _line(hit.title, _TITLE_CHARS)
    return SearchHit(title=title or url, url=url, snippet=_line(hit.snippet, _SNIPPET_CHARS))


def _line(text: str, most: int) -> str:
    return one_line(clean(text[: 8 * most]), most)


_AGENT = {"User-Agent": f"Mozilla/5.0 (compatible; dirge/{__version__})"}
_JSON = {**_AGENT, "Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_EXA_SNIPPET_CHARS = 600
_NO_ENTRY = "The user must look at the key and the account there."


class DuckDuckGo:
    name = "duckduckgo"
    url = "https://html.duckduckgo.com/html/"
    path = "/html/"
    key_env = ""
    on_refusal = "Continue without it, or search later."

    def ask(self, query: str, count: int, key: str) -> SearchRequest:
        headers = {**_AGENT, "Accept": "text/html", "Accept-Encoding": "gzip, deflate"}
        return SearchRequest(fields={"q": query}, outgoing=OutgoingRequest(headers=headers))

    def hits(self, status: int, body: bytes) -> Sequence[SearchHit]:
        return parse_duckduckgo(status, body.decode("utf-8", "replace"))


class SearXNG:
    """https://docs.searxng.org/dev/search_api.html"""

    name = "searxng"
    url = ""
    path = "/search"
    key_env = ""
    on_refusal = "The user must put `json` into `search.formats` of its settings.yml."

    def ask(self, query: str, count: int, key: str) -> SearchRequest:
        return SearchRequest(
            fields={"q": query, "format": "json"}, outgoing=OutgoingRequest(headers=_JSON)
        )

    def hits(self, status: int, body: bytes) -> Sequence[SearchHit]:
        return _hits(json.loads(body)["results"], snippet="content")


class Brave:
    """https://api-dashboard.search.brave.com/app/documentation/web-search/get-started"""

    name = "brave"
    url = "https://api.search.brave.com/res/v1/web/search"
    path = "/res/v1/web/search"
    key_env = "BRAVE_API_KEY"
    on_refusal = _NO_ENTRY

    def ask(self, query: str, count: int, key: str) -> SearchRequest:
        fields = {"q": query, "count": str(count), "text_decorations": "false"}
        return SearchRequest(
            fields=fields, outgoing=OutgoingRequest(headers={**_JSON, "X-Subscription-Token": key})
        )

    def hits(self, status: int, body: bytes) -> Sequence[SearchHit]:
        # Without results there is no `web`.
        found = json.loads(body)
        return _hits(found.get("web", {}).get("results", []), snippet="description", is_html=True)


class Exa:
    """https://docs.exa.ai/reference/search"""

    name = "exa"
    url = "https://api.exa.ai/search"
    path = "/search"
    key_env = "EXA_API_KEY"
    on_refusal = _NO_ENTRY

    def ask(self, query: str, count: int, key: str) -> SearchRequest:
        contents = {"text": {"maxCharacters": _EXA_SNIPPET_CHARS}}
        return _post_request(
            {"query": query, "numResults": count, "contents": contents}, {"x-api-key": key}
        )

    def hits(self, status: int, body: bytes) -> Sequence[SearchHit]:
        return _hits(json.loads(body)["results"], snippet="text")


class Tavily:
    """https://docs.tavily.com/documentation/api-reference/endpoint/search"""

    name = "tavily"
    url = "https://api.tavily.com/search"
    path = "/search"
    key_env = "TAVILY_API_KEY"
    on_refusal = _NO_ENTRY

    def ask(self, query: str, count: int, key: str) -> SearchRequest:
        return _post_request(
            {"query": query, "max_results": count}, {"Authorization": f"Bearer {key}"}
        )

    def hits(self, status: int, body: bytes) -> Sequence[SearchHit]:
        return _hits(json.loads(body)["results"], snippet="content")


BACKENDS: Mapping[str, SearchBackend] = {
    backend.name: backend for backend in (DuckDuckGo(), SearXNG(), Brave(), Exa(), Tavily())
}


def _post_request(question: Mapping[str, Any], headers: Mapping[str, str]) -> SearchRequest:
    return SearchRequest(
        fields={},
        outgoing=OutgoingRequest(
            method="POST",
            headers={**_JSON, "Content-Type": "application/json", **headers},
            body=json.dumps(question).encode(),
        ),
    )


def _hits(results: Sequence[Any], *, snippet: str, is_html: bool = False) -> Sequence[SearchHit]:
    plain = _without_tags if is_html else str
    return [
        SearchHit(
            title=plain(each.get("title") or ""),
            url=str(each["url"]),
            snippet=plain(each.get(snippet) or ""),
        )
        for each in results
    ]


def _without_tags(text: Any) -> str:
    import html  # noqa: PLC0415  (only Brave sends HTML)

    return html.unescape(_TAG.sub("", str(text)))


_CHALLENGE_STATUS = 202
"""The status of the page that asks for proof of a human."""


def parse_duckduckgo(status: int, page: str) -> Sequence[SearchHit]:
    """Return the results on a page, without advertisements.

    Raises:
        ToolFailed: it asks for proof of a human.
        ValueError: it is not a page of results.
    """
    document: Any = JustHTML(page, sanitize=False, scripting_enabled=False)
    if status == _CHALLENGE_STATUS or document.query_one(".anomaly-modal__modal, #challenge-form"):
        raise ToolFailed(
            "duckduckgo asks for proof of a human: too many searches came from here. Continue "
            "without it, or search later; the user can choose another service under `[web]`."
        )
    results = document.query(".result")
    if not results:
        raise ValueError("no results, and no words about that")
    return [hit for each in results if (hit := _duckduckgo_hit(each)) is not None]


def _duckduckgo_hit(result: Any) -> SearchHit | None:
    link = result.query_one("a.result__a")
    classes = (result.attrs.get("class") or "").split()
    url = _resolve_redirect((link.attrs.get("href") or "") if link is not None else "")
    if not url or "result--ad" in classes:
        return None
    snippet = result.query_one(".result__snippet")
    return SearchHit(
        title=_element_text(link),
        url=url,
        snippet=_element_text(snippet) if snippet is not None else "",
    )


def _element_text(element: Any) -> str:
    return str(element.to_text(separator="", strip=False))


def _resolve_redirect(href: str) -> str:
    """Return the address behind a click-counting link; "" for advertisements."""
    parts = urlsplit(href)
    if not (parts.hostname or "duckduckgo.com").endswith("duckduckgo.com"):
        return href
    return next(iter(parse_qs(parts.query).get("uddg", ())), "")
