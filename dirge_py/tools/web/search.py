"""Web search: sends one query to one service and returns its results.

To add a service, add it to `BACKENDS`, its name to the settings, and the variable of its key to
`extensions/web`.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from dirge_py.lib.lazy import late_pattern
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import clean, one_line
from dirge_py.lib.version import __version__
from dirge_py.tools.web.dns_guard import DnsGuard
from dirge_py.tools.web.url import OutgoingRequest, ParsedUrl, parse_url
from dirge_py.types.errors import ToolFailed

_MAX_BYTES = 2 * 1024 * 1024
_TITLE_CHARS, _SNIPPET_CHARS, _EXCERPT_CHARS = 200, 400, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """One result, as the service describes it."""

    title: str
    url: str
    snippet: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBackend:
    """How one service is called, and how its answer is parsed."""

    name: str
    """Its name in the settings."""
    path: str
    """The path that is appended to an address without one."""
    url: str = ""
    """Its usual address; "" if every user has a different one."""
    on_refusal: str = "The user must look at the key and the account there."
    """What to do when the service denies access."""
    ask: Callable[[str, int, str], tuple[Mapping[str, str], OutgoingRequest]]
    """Returns the fields for the URL, and the rest of the request, for (query, count, key)."""
    hits: Callable[[int, bytes], Sequence[SearchHit]]
    """Returns the results for (success status, body), best first. Raises ToolFailed for a refusal;
    ValueError, KeyError, TypeError or AttributeError for an unexpected format."""


@dataclass(frozen=True, slots=True)
class WebSearch:
    """A search service. The key is only sent to `endpoint`, and appears in no message."""

    backend: SearchBackend
    endpoint: ParsedUrl
    reach: DnsGuard
    key: str = field(default="", repr=False)
    proxy: str | None = field(default=None, repr=False)
    timeout_s: float = 15.0

    @property
    def host(self) -> str:
        return self.endpoint.host

    @property
    def name(self) -> str:
        return self.backend.name

    async def find(self, query: str, count: int) -> Sequence[SearchHit]:
        """Return at most `count` results with usable URLs, best first."""
        try:
            async with asyncio.timeout(self.timeout_s):
                status, body = await self._answer(query, count)
        except TimeoutError:
            raise ToolFailed(
                f"{self.name} took longer than {self.timeout_s:g} s. Try again, or without it.",
                outcome="timeout",
            ) from None
        if status >= 300:
            advice = "Search in other words, or later."
            if status < 400:
                advice = "It has moved: the user must set `search_url` under `[web]`."
            elif status in (401, 402, 403):
                advice = self.backend.on_refusal
            elif status == 429:
                advice = "It is rate limited. Continue without it, or search later."
            said = f": {text}" if (text := self._excerpt(body)) else ""
            raise ToolFailed(f"{self.name} ({self.host}) answered {status}{said}. {advice}")
        try:
            hits = self.backend.hits(status, body)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ToolFailed(
                f"{self.name} ({self.host}) sent an answer that cannot be read: "
                f"{self._excerpt(body)}. Is `search_url` under `[web]` right?"
            ) from None
        return [tidy for hit in hits if (tidy := _clean_hit(hit)) is not None][:count]

    async def _answer(self, query: str, count: int) -> tuple[int, bytes]:
        from dirge_py.tools.web.transport import request

        fields, outgoing = self.backend.ask(query, count, self.key)
        mark = "&" if "?" in self.endpoint.path else "?"
        target = parse_url(self.endpoint.url + (f"{mark}{urlencode(fields)}" if fields else ""))
        status, body, is_whole = await request(
            target, outgoing, self.reach, proxy=self.proxy, max_bytes=_MAX_BYTES
        )
        if not is_whole:
            raise ToolFailed(f"{self.name} sent more than {_MAX_BYTES} bytes. Ask for less.")
        return status, body

    def _excerpt(self, body: bytes) -> str:
        """Return the beginning of the service's answer, without the key."""
        text = body[: 8 * _EXCERPT_CHARS].decode("utf-8", "replace")
        text = text.replace(self.key, "[redacted]") if self.key else text
        is_page = text.lstrip()[:1] == "<"
        return "a web page" if is_page else _line(text, _EXCERPT_CHARS)


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


_HEADERS = {
    "User-Agent": f"Mozilla/5.0 (compatible; dirge/{__version__})",
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
}
_TAG = late_pattern(r"</?[A-Za-z][^<>]{0,200}>")
_EXA_CONTENTS = {"text": {"maxCharacters": 600}}


def _get(fields: Mapping[str, str], **headers: str) -> tuple[Mapping[str, str], OutgoingRequest]:
    return fields, OutgoingRequest(headers={**_HEADERS, **headers})


def _post(
    question: Mapping[str, Any], headers: Mapping[str, str]
) -> tuple[Mapping[str, str], OutgoingRequest]:
    headers = {**_HEADERS, "Content-Type": "application/json", **headers}
    body = json.dumps(question).encode()
    return {}, OutgoingRequest(method="POST", headers=headers, body=body)


def _hits(
    results: Sequence[Any], snippet: str, plain: Callable[[Any], str] = str
) -> Sequence[SearchHit]:
    return [
        SearchHit(
            title=plain(each.get("title") or ""),
            url=str(each["url"]),
            snippet=plain(each.get(snippet) or ""),
        )
        for each in results
    ]


def _without_tags(text: Any) -> str:
    import html

    return html.unescape(_TAG.sub("", str(text)))


_CHALLENGE_STATUS = 202
"""The status of the page that asks for proof of a human."""


def _duckduckgo_hits(status: int, body: bytes) -> Sequence[SearchHit]:
    page = body.decode("utf-8", "replace")
    from justhtml import JustHTML

    document: Any = JustHTML(page, sanitize=False, scripting_enabled=False)
    if status == _CHALLENGE_STATUS or document.query_one(".anomaly-modal__modal, #challenge-form"):
        raise ToolFailed(
            "duckduckgo asks for proof of a human: too many searches came from here. Continue "
            "without it, or search later; the user can choose another service under `[web]`."
        )
    results = document.query(".result")
    if not results:
        raise ValueError("neither results nor the note that there are none")
    hits: list[SearchHit] = []
    for result in results:
        link, snippet = result.query_one("a.result__a"), result.query_one(".result__snippet")
        url = _resolve_redirect((link.attrs.get("href") or "") if link is not None else "")
        if url and "result--ad" not in (result.attrs.get("class") or "").split():
            title, text = (
                str(element.to_text(separator="", strip=False)) if element is not None else ""
                for element in (link, snippet)
            )
            hits.append(SearchHit(title=title, url=url, snippet=text))
    return hits


def _resolve_redirect(href: str) -> str:
    """Return the address behind a click-counting link; "" for advertisements."""
    parts = urlsplit(href)
    if not (parts.hostname or "duckduckgo.com").endswith("duckduckgo.com"):
        return href
    return next(iter(parse_qs(parts.query).get("uddg", ())), "")


BACKENDS: Mapping[str, SearchBackend] = {
    backend.name: backend
    for backend in (
        SearchBackend(
            name="duckduckgo",
            url="https://html.duckduckgo.com/html/",
            path="/html/",
            on_refusal="Continue without it, or search later.",
            ask=lambda query, count, key: _get({"q": query}, Accept="text/html"),
            hits=_duckduckgo_hits,
        ),
        # https://docs.searxng.org/dev/search_api.html
        SearchBackend(
            name="searxng",
            path="/search",
            on_refusal="The user must put `json` into `search.formats` of its settings.yml.",
            ask=lambda query, count, key: _get({"q": query, "format": "json"}),
            hits=lambda status, body: _hits(json.loads(body)["results"], "content"),
        ),
        # https://api-dashboard.search.brave.com/app/documentation/web-search/get-started
        SearchBackend(
            name="brave",
            url="https://api.search.brave.com/res/v1/web/search",
            path="/res/v1/web/search",
            ask=lambda query, count, key: _get(
                {"q": query, "count": str(count), "text_decorations": "false"},
                **{"X-Subscription-Token": key},
            ),
            # Without results there is no `web`.
            hits=lambda status, body: _hits(
                json.loads(body).get("web", {}).get("results", []), "description", _without_tags
            ),
        ),
        # https://docs.exa.ai/reference/search
        SearchBackend(
            name="exa",
            url="https://api.exa.ai/search",
            path="/search",
            ask=lambda query, count, key: _post(
                {"query": query, "numResults": count, "contents": _EXA_CONTENTS}, {"x-api-key": key}
            ),
            hits=lambda status, body: _hits(json.loads(body)["results"], "text"),
        ),
        # https://docs.tavily.com/documentation/api-reference/endpoint/search
        SearchBackend(
            name="tavily",
            url="https://api.tavily.com/search",
            path="/search",
            ask=lambda query, count, key: _post(
                {"query": query, "max_results": count}, {"Authorization": f"Bearer {key}"}
            ),
            hits=lambda status, body: _hits(json.loads(body)["results"], "content"),
        ),
    )
}
