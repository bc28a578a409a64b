"""Every search service against a server that speaks its format."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dirge_py.extensions.web.extension import KEY_VARIABLES
from dirge_py.tools.web.dns_guard import DnsGuard
from dirge_py.tools.web.search import BACKENDS, SearchHit, WebSearch
from dirge_py.tools.web.url import parse_url
from dirge_py.types.errors import ToolFailed
from tests.support.web_site import Reply, Site, moved, serving

KEY = "key-0123456789abcdef"
FOUND = [
    SearchHit(title="First & best", url="https://one.example/a", snippet="What it says."),
    SearchHit(title="Second", url="https://two.example/b?c=d", snippet=""),
]

_DUCKDUCKGO = """<!DOCTYPE html><html><body><div id="links" class="results">
<div class="result results_links results_links_deep result--ad">
 <h2 class="result__title"><a class="result__a"
   href="https://duckduckgo.com/y.js?ad_domain=shop">Buy</a></h2>
 <a class="result__snippet" href="https://duckduckgo.com/y.js?x">now</a></div>
<div class="result results_links results_links_deep web-result">
 <div class="links_main links_deep result__body"><h2 class="result__title">
  <a rel="nofollow" class="result__a"
   href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fone.example%2Fa&amp;rut=f0">First
   &amp; <b>best</b></a></h2>
 <a class="result__snippet" href="//duckduckgo.com/l/?uddg=x">What it <b>says</b>.</a></div></div>
<div class="result results_links web-result">
 <h2 class="result__title"><a class="result__a" href="https://two.example/b?c=d">Second</a></h2></div>
</div></body></html>"""
_NOTHING_FOUND = """<div class="result results_links result--no-result"><div class="links_main">
<div class="no-results__container result__title"><span>No results.</span></div></div></div>"""


def results(snippet: str, **more: Any) -> dict[str, Any]:
    return {
        "results": [
            {"title": "First & best", "url": FOUND[0].url, snippet: FOUND[0].snippet, **more},
            {"title": "Second", "url": FOUND[1].url, snippet: None},
        ]
    }


def as_json(value: Any, status: int = 200) -> Reply:
    return Reply(body=json.dumps(value), type="application/json", status=status)


ANSWERS: Mapping[str, Reply] = {
    "duckduckgo": Reply(body=_DUCKDUCKGO),
    "searxng": as_json({"query": "q", "number_of_results": 2, **results("content", engine="x")}),
    "brave": as_json(
        {
            "type": "search",
            "web": {
                "results": [
                    {
                        "title": "First &amp; <strong>best</strong>",
                        "url": FOUND[0].url,
                        "description": "What it <strong>says</strong>.",
                    },
                    {"title": "Second", "url": FOUND[1].url},
                ]
            },
        }
    ),
    "exa": as_json({"requestId": "r", **results("text", publishedDate="2026-01-01")}),
    "tavily": as_json({"query": "q", "response_time": 1.2, **results("content", score=0.9)}),
}
NONE_FOUND: Mapping[str, Reply] = {
    "duckduckgo": Reply(body=_NOTHING_FOUND),
    "searxng": as_json({"results": []}),
    "brave": as_json({"type": "search", "query": {}}),
    "exa": as_json({"results": []}),
    "tavily": as_json({"results": []}),
}


def search_at(site: Site, name: str) -> WebSearch:
    backend = BACKENDS[name]
    endpoint = parse_url(site.url + backend.path)
    return WebSearch(
        backend,
        endpoint,
        reach=DnsGuard([site.place]),
        key=KEY if backend.name in KEY_VARIABLES else "",
    )


async def refusal(site: Site, name: str) -> str:
    with pytest.raises(ToolFailed) as caught:
        await search_at(site, name).find("q", 10)
    assert KEY not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", BACKENDS)
async def test_search_request_is_sent_and_hits_are_parsed(name: str) -> None:
    async with serving({BACKENDS[name].path: ANSWERS[name]}) as site:
        assert await search_at(site, name).find("a b&c", 10) == FOUND
        assert await search_at(site, name).find("a b&c", 1) == FOUND[:1]
    assert KEY not in site.requests[0].path


@pytest.mark.parametrize("name", BACKENDS)
async def test_search_without_hits_is_no_error(name: str) -> None:
    async with serving({BACKENDS[name].path: NONE_FOUND[name]}) as site:
        assert await search_at(site, name).find("q", 10) == []


async def test_each_search_service_gets_documented_request() -> None:
    seen = {}
    for name, backend in BACKENDS.items():
        async with serving({backend.path: ANSWERS[name]}) as site:
            await search_at(site, name).find("a b", 7)
            seen[name] = site.requests[0]
    assert seen["duckduckgo"].path == "/html/?q=a+b"
    assert seen["searxng"].path == "/search?q=a+b&format=json"
    assert seen["brave"].path == "/res/v1/web/search?q=a+b&count=7&text_decorations=false"
    assert seen["brave"].headers["x-subscription-token"] == KEY
    assert (seen["exa"].method, seen["exa"].headers["x-api-key"]) == ("POST", KEY)
    assert json.loads(seen["exa"].body)["numResults"] == 7
    assert seen["tavily"].headers["authorization"] == f"Bearer {KEY}"
    assert json.loads(seen["tavily"].body) == {"query": "a b", "max_results": 7}


@pytest.mark.parametrize("name", ["brave", "exa", "tavily"])
async def test_rejected_key_error_does_not_show_key(name: str) -> None:
    body = as_json({"detail": {"error": f"Unauthorized: invalid key {KEY}"}}, status=401)
    async with serving({BACKENDS[name].path: body}) as site:
        words = await refusal(site, name)
    assert f"{name} (127.0.0.1) answered 401" in words
    assert "[redacted]" in words
    assert "key and the account" in words


async def test_searxng_without_json_format_error_names_setting() -> None:
    async with serving({"/search": Reply(status=403, body="<h1>Forbidden</h1>")}) as site:
        assert "put `json` into `search.formats`" in await refusal(site, "searxng")


async def test_duckduckgo_challenge_is_reported() -> None:
    challenge = '<form id="challenge-form"><div class="anomaly-modal__modal">Ducks?</div></form>'
    for status in (200, 202):
        async with serving({"/html/": Reply(body=challenge, status=status)}) as site:
            assert "asks for proof of a human" in await refusal(site, "duckduckgo")


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    "body", ["", "<p>Welcome</p>", "[]", "null", '{"results": 3}', '{"results": [{"title": "x"}]}']
)
async def test_unreadable_search_answer_is_error(name: str, body: str) -> None:
    if name == "brave" and body.startswith("{"):
        body = '{"web": {"results": [{}]}}'
    async with serving({BACKENDS[name].path: Reply(body=body)}) as site:
        assert "cannot be read" in await refusal(site, name)


@pytest.mark.parametrize("status", [302, 429, 500])
async def test_search_http_error_is_shown_with_status_and_body(status: int) -> None:
    async with serving({"/search": Reply(status=status, body="oops")}) as site:
        assert f"answered {status}: oops" in await refusal(site, "tavily")


async def test_search_key_is_not_sent_to_redirect_target() -> None:
    async with serving({"/search": ANSWERS["exa"]}) as other, serving({}) as site:
        site.pages["/search"] = moved(f"{other.url}/search", 307)
        assert "set `search_url`" in await refusal(site, "exa")
    assert other.connections == 0


async def test_search_hits_with_unfetchable_urls_are_dropped() -> None:
    odd = [
        "javascript:alert(1)",
        "http://me@x.example/",
        "",
        "http://0x7f.1/",
        "https://ok.example",
    ]
    found = {"results": [{"url": url, "title": "a\x1b[31m\nb" * 200} for url in odd]}
    async with serving({"/search": as_json(found)}) as site:
        (hit,) = await search_at(site, "searxng").find("q", 10)
    assert hit.url == "https://ok.example/"
    assert hit.title.startswith("a ba b")
    assert len(hit.title) == 200


async def test_slow_search_service_times_out() -> None:
    async with serving({"/search": Reply(body="{", stalls=True)}) as site:
        search = WebSearch(
            BACKENDS["searxng"],
            parse_url(f"{site.url}/search"),
            reach=DnsGuard([site.place]),
            timeout_s=0.2,
        )
        with pytest.raises(ToolFailed, match=r"longer than 0\.2 s"):
            await search.find("q", 10)
