"""The `glob` tool: finds files by their path."""

import heapq
from collections.abc import Callable

from pydantic import Field

from dirge_py.files.walk import FileSearch
from dirge_py.files.workspace import CallFiles
from dirge_py.tools.base import PathText, PathTool, ToolArgs, ToolContext, in_thread
from dirge_py.tools.search.paths import count_noun, list_found, withheld_note
from dirge_py.tools.search.pattern import mentions_hidden, path_matcher
from dirge_py.types.errors import FileError
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
        path = ctx.absolute(args.path)
        text = await in_thread(ctx.signal, _find, args, path, ctx.files, lambda: ctx.signal.aborted)
        return text_result(text, path=path)


def _find(args: GlobArgs, path: str, files: CallFiles, is_aborted: Callable[[], bool]) -> str:
    located = files.locate(path)
    if located.kind != "dir":
        raise FileError(f"{args.path} is not a folder.", hint="Give the folder to search.")
    search = FileSearch(
        root=located.real,
        wanted=path_matcher(args.pattern),
        include_hidden=mentions_hidden(args.pattern),
        is_aborted=is_aborted,
    )
    found = list(files.walk(search))
    if not found:
        return f"No files match {args.pattern}.{withheld_note(search)}"
    newest = heapq.nsmallest(MAX_SHOWN, found, key=lambda each: (-each.mtime_ns, each.path))
    title = f"{count_noun(len(found), 'file')}, newest first"
    listed = list_found(title, args.path, [each.path for each in newest], len(found))
    return listed + withheld_note(search)


TOOL = GlobTool()
