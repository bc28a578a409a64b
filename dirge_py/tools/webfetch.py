"""The `webfetch` tool: fetches a page from the web."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from dirge_py.tools.arguments import ToolArgs
from dirge_py.tools.base import Hints, Tool, ToolContext, rename_keys
from dirge_py.tools.web.service import WebService, quote_untrusted
from dirge_py.types.errors import ToolFailed
from dirge_py.types.tools import Claim, LoopToolResult, Preview, text_result


class WebfetchArgs(ToolArgs):
    url: str
    max_chars: int = Field(8000, ge=1, le=50_000)
    offset: int = Field(0, ge=0, description="Character to continue from.")


class WebfetchTool(Tool[WebfetchArgs]):
    name = "webfetch"
    label = "Fetch"
    args = WebfetchArgs
    mode = "parallel"
    needs = ("web",)
    hints = Hints(read_only=True, open_world=True)

    def prepare(self, arguments: Any) -> Any:
        names = {"max_length": "max_chars", "start_index": "offset"}
        arguments = rename_keys(arguments, names | dict.fromkeys(("uri", "urls", "link"), "url"))
        if isinstance(arguments, dict) and isinstance(arguments.get("prompt"), str):
            # Claude Code asks a model about the page; here the model reads the page itself.
            arguments = {name: value for name, value in arguments.items() if name != "prompt"}
        if isinstance(arguments, dict) and isinstance(arguments.get("url"), list):
            urls = arguments["url"]
            return {**arguments, "url": urls[0]} if len(urls) == 1 else arguments
        return arguments

    def claims(self, args: WebfetchArgs, ctx: ToolContext) -> Sequence[Claim]:
        try:
            return [Claim("network", _web(ctx).target(args.url).host)]
        except ToolFailed:
            # Nothing will be fetched: the result of the call says why.
            return [Claim("meta", self.name)]

    def preview(self, args: WebfetchArgs, ctx: ToolContext) -> Preview:
        return Preview(kind="text", text=_web(ctx).target(args.url).url)

    async def run(self, args: WebfetchArgs, ctx: ToolContext) -> LoopToolResult:
        web = _web(ctx)
        page = await web.page(web.target(args.url), is_continued=args.offset > 0)
        if page.moved_to is not None:
            return text_result(
                f"{page.target} redirects to another host: {page.moved_to}\n"
                "To follow it, fetch that URL.",
                url=str(page.target),
                moved_to=str(page.moved_to),
            )
        total = len(page.text)
        if args.offset >= total:
            raise ToolFailed(f"{page.target} has {total} characters: use a smaller offset.")
        end = min(total, args.offset + args.max_chars)
        if end < total:
            # At the last line end in the last fifth, if there is one.
            line_end = page.text.rfind("\n", end - args.max_chars // 5, end)
            end = line_end + 1 if line_end > args.offset else end
        heading = f"# {page.title}\n\n" if page.title and not args.offset else ""
        notes = [quote_untrusted(heading + page.text[args.offset : end], page.target.url)]
        if end < total:
            notes.append(f"Characters {args.offset} to {end} of {total}. To read on: offset={end}.")
        elif not page.is_whole:
            notes.append("The page is too long to be read whole; its end was left off.")
        return text_result(
            "\n".join(notes),
            url=page.target.url,
            media_type=page.media_type,
            offset=args.offset,
            end=end,
            total_chars=total,
            is_whole=page.is_whole and end == total,
            untrusted=True,
        )


TOOL = WebfetchTool()


def _web(ctx: ToolContext) -> WebService:
    assert ctx.services.web is not None
    return ctx.services.web
