"""The search services there are. Adding one is a class here and its word in the settings."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dirge_py.lib.lazy import late
from dirge_py.lib.version import __version__
from dirge_py.tools.web.outgoing import Outgoing
from dirge_py.tools.web.search import Ask, Hit, SearchBackend

if TYPE_CHECKING:
    from dirge_py.tools.web.duckduckgo import hits_on
else:
    hits_on = late("dirge_py.tools.web.duckduckgo", "hits_on")

_AGENT = {"User-Agent": f"Mozilla/5.0 (compatible; dirge/{__version__})"}
_JSON = {**_AGENT, "Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_SNIPPET_CHARS = 600
_NO_ENTRY = "The user must look at the key and the account there."


class DuckDuckGo:
    name = "duckduckgo"
    url = "https://html.duckduckgo.com/html/"
    path = "/html/"
    key_env = ""
    on_refusal = "Go on without, or search later."

    def ask(self, query: str, count: int, key: str) -> Ask:
        headers = {**_AGENT, "Accept": "text/html", "Accept-Encoding": "gzip, deflate"}
        return Ask(fields={"q": query}, outgoing=Outgoing(headers=headers))

    def hits(self, status: int, body: bytes) -> Sequence[Hit]:
        return hits_on(status, body.decode("utf-8", "replace"))


class SearXNG:
    """https://docs.searxng.org/dev/search_api.html"""

    name = "searxng"
    url = ""
    path = "/search"
    key_env = ""
    on_refusal = "The user must put `json` into `search.formats` of its settings.yml."

    def ask(self, query: str, count: int, key: str) -> Ask:
        return Ask(fields={"q": query, "format": "json"}, outgoing=Outgoing(headers=_JSON))

    def hits(self, status: int, body: bytes) -> Sequence[Hit]:
        return _hits(json.loads(body)["results"], snippet="content")


class Brave:
    """https://api-dashboard.search.brave.com/app/documentation/web-search/get-started"""

    name = "brave"
    url = "https://api.search.brave.com/res/v1/web/search"
    path = "/res/v1/web/search"
    key_env = "BRAVE_API_KEY"
    on_refusal = _NO_ENTRY

    def ask(self, query: str, count: int, key: str) -> Ask:
        fields = {"q": query, "count": str(count), "text_decorations": "false"}
        return Ask(fields=fields, outgoing=Outgoing(headers={**_JSON, "X-Subscription-Token": key}))

    def hits(self, status: int, body: bytes) -> Sequence[Hit]:
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

    def ask(self, query: str, count: int, key: str) -> Ask:
        contents = {"text": {"maxCharacters": _SNIPPET_CHARS}}
        return _posted(
            {"query": query, "numResults": count, "contents": contents}, {"x-api-key": key}
        )

    def hits(self, status: int, body: bytes) -> Sequence[Hit]:
        return _hits(json.loads(body)["results"], snippet="text")


class Tavily:
    """https://docs.tavily.com/documentation/api-reference/endpoint/search"""

    name = "tavily"
    url = "https://api.tavily.com/search"
    path = "/search"
    key_env = "TAVILY_API_KEY"
    on_refusal = _NO_ENTRY

    def ask(self, query: str, count: int, key: str) -> Ask:
        return _posted({"query": query, "max_results": count}, {"Authorization": f"Bearer {key}"})

    def hits(self, status: int, body: bytes) -> Sequence[Hit]:
        return _hits(json.loads(body)["results"], snippet="content")


BACKENDS: Mapping[str, SearchBackend] = {
    backend.name: backend for backend in (DuckDuckGo(), SearXNG(), Brave(), Exa(), Tavily())
}


def _posted(question: Mapping[str, Any], headers: Mapping[str, str]) -> Ask:
    return Ask(
        fields={},
        outgoing=Outgoing(
            method="POST",
            headers={**_JSON, "Content-Type": "application/json", **headers},
            body=json.dumps(question).encode(),
        ),
    )


def _hits(results: Sequence[Any], *, snippet: str, is_html: bool = False) -> Sequence[Hit]:
    plain = _without_tags if is_html else str
    return [
        Hit(
            title=plain(each.get("title") or ""),
            url=str(each["url"]),
            snippet=plain(each.get(snippet) or ""),
        )
        for each in results
    ]


def _without_tags(text: Any) -> str:
    return html.unescape(_TAG.sub("", str(text)))
