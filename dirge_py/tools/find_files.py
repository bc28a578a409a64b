"""The `find_files` tool: finds files by a regular expression on their names."""

from collections.abc import Callable, Sequence

from pydantic import Field

from dirge_py.files.walk import FileSearch
from dirge_py.files.workspace import CallFiles
from dirge_py.tools.base import Hints, PathText, PathTool, ToolArgs, ToolContext, in_thread
from dirge_py.tools.search.lines import find_ripgrep, search_names
from dirge_py.tools.search.paths import count_noun, list_found, withheld_note
from dirge_py.tools.search.pattern import portable_pattern
from dirge_py.types.errors import FileError, ToolFailed
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
    hints = Hints(read_only=True)

    def __init__(self, ripgrep: Callable[[Sequence[str]], str | None] = find_ripgrep) -> None:
        self._find_ripgrep = ripgrep

    async def run(self, args: FindFilesArgs, ctx: ToolContext) -> LoopToolResult:
        if ctx.services.processes is None:
            raise ToolFailed("Searching needs to start a program, and none may be started here.")
        pattern = portable_pattern(args.pattern)
        path = ctx.absolute(args.path)
        search = FileSearch(
            root="", include_hidden=args.include_hidden, is_aborted=lambda: ctx.signal.aborted
        )
        paths = await in_thread(ctx.signal, _paths, args, path, ctx.files, search)
        found = await search_names(
            pattern,
            [each.rpartition("/")[2] for each in paths],
            runner=ctx.services.processes,
            signal=ctx.signal,
            ripgrep=self._find_ripgrep(ctx.files.roots),
        )
        if found:
            shown = [paths[position] for position in found[:MAX_SHOWN]]
            text = list_found(count_noun(len(found), "file"), args.path, shown, len(found))
        else:
            searched = count_noun(len(paths), "file")
            text = f"No file name matches {args.pattern} (of {searched})."
        return text_result(text + withheld_note(search), path=path)


def _paths(args: FindFilesArgs, path: str, files: CallFiles, search: FileSearch) -> list[str]:
    located = files.locate(path)
    if located.kind != "dir":
        raise FileError(f"{args.path} is not a folder.", hint="Give the folder to search.")
    search.root = located.real
    return sorted(found.path for found in files.walk(search))


TOOL = FindFilesTool()
