from pathlib import Path

from dirge_py.files.workspace import Workspace
from dirge_py.tools.base import ToolServices
from dirge_py.tools.toolbox import Toolbox
from dirge_py.tools.web.dns_guard import DnsGuard
from dirge_py.tools.web.search import BACKENDS, WebSearch
from dirge_py.tools.web.service import WebService
from dirge_py.tools.web.url import parse_url
from dirge_py.tools.websearch import TOOL
from dirge_py.types.abort import AbortSignal
from dirge_py.types.tools import Claim, Preview
from tests.support.web_site import Site, serving
from tests.tools.test_webfetch import quotation

FOUND = """{"results": [
 {"title": "One", "url": "https://one.example/a", "content": "says\\nthis"},
 {"title": "Two", "url": "https://two.example/"}]}"""


def services_for(folder: Path, site: Site | None) -> ToolServices:
    if site is None:
        web = WebService(search_problem="brave needs a key: set BRAVE_API_KEY in the environment.")
    else:
        endpoint = parse_url(f"{site.url}/search")
        web = WebService(
            search=WebSearch(BACKENDS["searxng"], endpoint, reach=DnsGuard([site.place]))
        )
    unavailable = {"websearch": web.search_problem}
    return ToolServices(files=Workspace([folder], folder), web=web, unavailable=unavailable)


async def call(services: ToolServices, **arguments: object):
    toolbox = Toolbox([TOOL], services, "/")
    (tool,) = toolbox.loop_tools
    valid = toolbox.validate(tool, tool.prepare_arguments(arguments))
    return await tool.execute("c", valid, AbortSignal(), lambda partial: None)


async def test_websearch_hits_are_quoted_as_untrusted(tmp_path):
    async with serving({"/search": FOUND}) as site:
        result = await call(services_for(tmp_path, site), q="a query", max_results=5)
    assert quotation(result) == (
        "1. One\n   https://one.example/a\n   says this\n\n2. Two\n   https://two.example/"
    )
    assert result.details == {"outcome": "ok", "hits": 2, "untrusted": True}


async def test_websearch_without_hits_suggests_other_words(tmp_path):
    async with serving({"/search": '{"results": []}'}) as site:
        result = await call(services_for(tmp_path, site), query="x")
    assert result.text == "searxng found nothing. Try fewer or other words."
    assert not result.is_error


async def test_websearch_claims_service_host_and_previews_query(tmp_path):
    async with serving({}) as site:
        (tool,) = Toolbox([TOOL], services_for(tmp_path, site), "/").loop_tools
        assert tool.claims({"query": "x"}) == [Claim("network", "127.0.0.1")]
        assert tool.preview({"query": "my words"}) == Preview(
            kind="text", text="searxng (127.0.0.1): my words"
        )
        assert (await call(services_for(tmp_path, site), query=" ")).is_error
    assert site.connections == 0


async def test_unavailable_websearch_names_missing_key(tmp_path):
    services = services_for(tmp_path, None)
    assert "set BRAVE_API_KEY" in TOOL.unavailable(services)
    async with serving({}) as site:
        assert TOOL.unavailable(services_for(tmp_path, site)) == ""
