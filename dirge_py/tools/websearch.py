"""The `websearch` tool: searches the web."""

from collections.abc import Sequence

from pydantic import Field

from dirge_py.tools.arguments import ToolArgs
from dirge_py.tools.base import Hints, Tool, ToolContext
from dirge_py.tools.web.search import WebSearch
from dirge_py.tools.web.service import quote_untrusted
from dirge_py.types.errors import ToolFailed
from dirge_py.types.tools import Claim, LoopToolResult, Preview, text_result

_NAMES = dict.fromkeys(("q", "search_term"), "query")
_NAMES |= dict.fromkeys(("count", "max_results"), "num_results")


class WebsearchArgs(ToolArgs):
    query: str = Field(max_length=400)
    num_results: int = Field(10, ge=1, le=20)


class WebsearchTool(Tool[WebsearchArgs]):
    name = "websearch"
    label = "Search the web"
    args = WebsearchArgs
    other_names = _NAMES
    mode = "parallel"
    needs = ("web",)
    hints = Hints(read_only=True, open_world=True)

    def claims(self, args: WebsearchArgs, ctx: ToolContext) -> Sequence[Claim]:
        web = ctx.services.web
        if web is None or web.search is None:
            return [Claim("meta", self.name)]
        return [Claim("network", web.search.host)]

    def preview(self, args: WebsearchArgs, ctx: ToolContext) -> Preview:
        search = _search(ctx)
        return Preview(kind="text", text=f"{search.name} ({search.host}): {args.query}")

    async def run(self, args: WebsearchArgs, ctx: ToolContext) -> LoopToolResult:
        search = _search(ctx)
        if not args.query.strip():
            raise ToolFailed("The query is empty: give words to search for.")
        hits = await search.find(args.query, args.num_results)
        if not hits:
            return text_result(f"{search.name} found nothing. Try fewer or other words.", hits=0)
        entries = (
            (f"{number}. {hit.title}", hit.url, hit.snippet) for number, hit in enumerate(hits, 1)
        )
        listed = "\n\n".join("\n   ".join(filter(None, entry)) for entry in entries)
        return text_result(quote_untrusted(listed, search.host), hits=len(hits), untrusted=True)


TOOL = WebsearchTool()


def _search(ctx: ToolContext) -> WebSearch:
    web = ctx.services.web
    assert web is not None
    if web.search is None:
        raise ToolFailed(f"{web.search_problem} Continue without searching.")
    return web.search
