"""The `glob` tool: finds files by their path."""

import heapq

from pydantic import Field

from dirge_py.files.walk import FileSearch
from dirge_py.lib.text import plural
from dirge_py.tools.arguments import PathText, ToolArgs
from dirge_py.tools.base import PathTool, ToolContext
from dirge_py.tools.search.paths import list_found, walk_folder, withheld_note
from dirge_py.tools.search.pattern import mentions_hidden, path_matcher
from dirge_py.tools.threads import in_thread
from dirge_py.types.tools import LoopToolResult, text_result

MAX_SHOWN = 200


class GlobArgs(ToolArgs):
    pattern: str = Field(description="Such as `src/**/*.py`, `*.{js,ts}`.", min_length=1)
    path: PathText = Field(".", description="Folder to search.")


class GlobTool(PathTool[GlobArgs]):
    name = "glob"
    label = "Find files"
    args = GlobArgs

    async def run(self, args: GlobArgs, ctx: ToolContext) -> LoopToolResult:
        text = await in_thread(ctx.signal, _find, args, ctx)
        return text_result(text, path=ctx.absolute(args.path))


def _find(args: GlobArgs, ctx: ToolContext) -> str:
    search = FileSearch(
        root="", wanted=path_matcher(args.pattern), include_hidden=mentions_hidden(args.pattern)
    )
    files = walk_folder(args.path, search, ctx)
    if not files:
        return f"No files match {args.pattern}.{withheld_note(search.withheld)}"
    newest = heapq.nsmallest(MAX_SHOWN, files, key=lambda each: (-each.mtime_ns, each.path))
    title = f"{plural(len(files), 'file')}, newest first"
    listed = list_found(title, args.path, [each.path for each in newest], len(files))
    return listed + withheld_note(search.withheld)


TOOL = GlobTool()
