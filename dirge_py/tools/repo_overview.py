"""Show a folder with everything below it, a few levels deep."""

from collections.abc import Sequence

from pydantic import Field

from dirge_py.files.walk import FileSearch
from dirge_py.files.workspace import CallFiles
from dirge_py.tools.base import Hints, PathText, Tool, ToolArgs, ToolContext, in_thread
from dirge_py.tools.searching.outline import Outline, outline_of
from dirge_py.tools.searching.places import counted, printable, withheld_note
from dirge_py.types.errors import FileError
from dirge_py.types.tools import Claim, LoopToolResult, text_result

MAX_NODES = 400
COUNTED_BYTES = 10 * 1024 * 1024


class RepoOverviewArgs(ToolArgs):
    path: PathText = "."
    max_depth: int = Field(3, ge=1, le=6)
    include_line_counts: bool = False


class RepoOverview(Tool[RepoOverviewArgs]):
    name = "repo_overview"
    label = "Overview"
    args = RepoOverviewArgs
    hints = Hints(read_only=True)

    def claims(self, args: RepoOverviewArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("read", ctx.absolute(args.path))]

    async def run(self, args: RepoOverviewArgs, ctx: ToolContext) -> LoopToolResult:
        path = ctx.absolute(args.path)
        search = FileSearch(root="", is_aborted=lambda: ctx.signal.aborted)
        text = await in_thread(ctx.signal, _overview, args, path, ctx.files, search)
        return text_result(text + withheld_note(search), path=path)


def _overview(args: RepoOverviewArgs, path: str, files: CallFiles, search: FileSearch) -> str:
    located = files.locate(path)
    if located.kind != "dir":
        problem = "does not exist" if located.kind == "missing" else "is not a folder; use `read`"
        raise FileError(f"{args.path} {problem}.")
    search.root = located.real
    sizes = {found.path: found.size for found in files.walk(search)}
    outline = outline_of(list(sizes), max_depth=args.max_depth, max_nodes=MAX_NODES)
    folders = counted(outline.folders, "folder")
    lines = [f"{args.path}: {counted(len(sizes), 'file')} in {folders}"]
    for entry in outline.entries:
        indent = "  " * (entry.path.count("/"))
        name = printable(entry.path.rpartition("/")[2])
        if entry.files is not None:
            lines.append(f"{indent}{name}/ ({counted(entry.files, 'file')})")
        elif args.include_line_counts and not search.is_aborted():
            lines.append(
                indent + name + _lines_of(f"{path}/{entry.path}", sizes[entry.path], files)
            )
        else:
            lines.append(indent + name)
    return "\n".join(lines + _rest(args, outline))


def _rest(args: RepoOverviewArgs, outline: Outline) -> list[str]:
    if not outline.left_out:
        return []
    deeper = "" if args.max_depth == 6 else ", or a larger max_depth"
    return [f"… {counted(outline.left_out, 'file')} not shown; give the path of a folder{deeper}."]


def _lines_of(path: str, size: int, files: CallFiles) -> str:
    """How many lines a file has, in brackets; nothing if it is large, no text, or gone."""
    if size > COUNTED_BYTES:
        return ""
    try:
        with files.open(path) as (stream, _, _):
            content = stream.read(COUNTED_BYTES)
    except FileError:
        return ""
    if b"\0" in content:
        return ""
    lines = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    return f" ({counted(lines, 'line')})"


TOOL = RepoOverview()
