"""Find files by a regular expression on their names."""

from collections.abc import Callable, Sequence

from pydantic import Field

from dirge_py.files.walk import FileSearch
from dirge_py.files.workspace import CallFiles
from dirge_py.tools.base import Hints, PathText, PathTool, ToolArgs, ToolContext, in_thread
from dirge_py.tools.search.lines import find_ripgrep, search_names
from dirge_py.tools.search.paths import count_noun, path_below, withheld_note
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
        text = _report(args, [paths[position] for position in found], len(paths))
        return text_result(text + withheld_note(search), path=path)


def _paths(args: FindFilesArgs, path: str, files: CallFiles, search: FileSearch) -> list[str]:
    located = files.locate(path)
    if located.kind != "dir":
        raise FileError(f"{args.path} is not a folder.", hint="Give the folder to search.")
    search.root = located.real
    return sorted(found.path for found in files.walk(search))


def _report(args: FindFilesArgs, found: Sequence[str], searched: int) -> str:
    if not found:
        return f"No file name matches {args.pattern} (of {count_noun(searched, 'file')})."
    more = len(found) - MAX_SHOWN
    title = count_noun(len(found), "file")
    lines = [
        f"{title} ({MAX_SHOWN} shown):" if more > 0 else f"{title}:",
        *(path_below(args.path, each) for each in found[:MAX_SHOWN]),
    ]
    if more > 0:
        lines.append(f"… {more} more; narrow the pattern or the path.")
    return "\n".join(lines)


TOOL = FindFilesTool()
