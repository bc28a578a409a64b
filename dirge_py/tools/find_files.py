"""The `find_files` tool: finds files by a regular expression on their names."""

from collections.abc import Callable, Sequence

from pydantic import Field

from dirge_py.files.walk import FileSearch
from dirge_py.lib.text import plural
from dirge_py.tools.arguments import PathText, ToolArgs
from dirge_py.tools.base import PathTool, ToolContext
from dirge_py.tools.search.lines import find_ripgrep, search_names
from dirge_py.tools.search.paths import list_found, walk_folder, withheld_note
from dirge_py.tools.search.pattern import portable_pattern
from dirge_py.tools.threads import in_thread
from dirge_py.types.tools import LoopToolResult, text_result

MAX_SHOWN = 200


class FindFilesArgs(ToolArgs):
    pattern: str = Field(description="Regular expression, as for `grep`.", min_length=1)
    path: PathText = "."
    include_hidden: bool = False


class FindFilesTool(PathTool[FindFilesArgs]):
    name = "find_files"
    label = "Find files"
    args = FindFilesArgs
    needs = ("processes",)

    def __init__(self, ripgrep: Callable[[Sequence[str]], str | None] = find_ripgrep) -> None:
        self._find_ripgrep = ripgrep

    async def run(self, args: FindFilesArgs, ctx: ToolContext) -> LoopToolResult:
        assert ctx.services.processes is not None
        pattern = portable_pattern(args.pattern)
        search = FileSearch(root="", include_hidden=args.include_hidden)
        files = await in_thread(ctx.signal, walk_folder, args.path, search, ctx)
        paths = sorted(file.path for file in files)
        positions = await search_names(
            pattern,
            [path.rpartition("/")[2] for path in paths],
            runner=ctx.services.processes,
            signal=ctx.signal,
            ripgrep=self._find_ripgrep(ctx.files.roots),
        )
        if positions:
            shown = [paths[position] for position in positions[:MAX_SHOWN]]
            count = len(positions)
            text = list_found(plural(count, "file"), args.path, shown, count)
        else:
            searched = plural(len(paths), "file")
            text = f"No file name matches {args.pattern} (of {searched})."
        text += withheld_note(search.withheld)
        return text_result(text, path=ctx.absolute(args.path))


TOOL = FindFilesTool()
