"""The `repo_overview` tool: shows a folder with everything below it, a few levels deep.

The tree is cut to a size limit: upper levels first, with equal shares for all folders.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from pydantic import Field

from dirge_py.files.walk import FileSearch
from dirge_py.files.workspace import CallFiles
from dirge_py.lib.text import fair_shares, plural
from dirge_py.tools.arguments import PathText, ToolArgs
from dirge_py.tools.base import PathTool, ToolContext
from dirge_py.tools.file_edits.document import count_lines
from dirge_py.tools.search.paths import printable_name, walk_folder, withheld_note
from dirge_py.tools.threads import in_thread
from dirge_py.types.errors import FileError
from dirge_py.types.tools import LoopToolResult, text_result


def build_outline(
    paths: Sequence[str], *, max_depth: int, max_nodes: int
) -> tuple[dict[str, int | None], int]:
    """Return what is shown of the tree of these relative file paths, and how many folders it has.

    The shown files and folders are at most `max_depth` levels deep and in the order of the tree,
    folders before files; with each folder is the number of files below it, with a file None.
    """
    files: dict[str, list[str]] = {"": []}
    counts: dict[str, int] = {}
    for path in sorted(paths):
        folder = path.rpartition("/")[0]
        files.setdefault(folder, []).append(path)
        while folder:
            counts[folder] = counts.get(folder, 0) + 1
            folder = folder.rpartition("/")[0]
    # By depth: readers want the upper levels first.
    folders = sorted((each.count("/") + 1, each) for each in counts)
    shown = [(depth, folder) for depth, folder in folders if depth <= max_depth][:max_nodes]
    expanded = ["", *(folder for depth, folder in shown if depth < max_depth)]
    shares = fair_shares([len(files.get(each, ())) for each in expanded], max_nodes - len(shown))
    entries: dict[str, int | None] = {folder: counts[folder] for _, folder in shown}
    for folder, share in zip(expanded, shares, strict=True):
        entries |= dict.fromkeys(files.get(folder, [])[:share])
    in_order = sorted(entries, key=partial(_place, entries))
    return {path: entries[path] for path in in_order}, len(counts)


def _place(entries: Mapping[str, int | None], path: str) -> list[tuple[bool, str]]:
    """Return a key that sorts a path into the tree, folders before files."""
    *folders, name = path.split("/")
    return [*((False, folder) for folder in folders), (entries[path] is None, name)]


MAX_NODES = 400
COUNTED_BYTES = 10 * 1024 * 1024


class RepoOverviewArgs(ToolArgs):
    path: PathText = "."
    max_depth: int = Field(3, ge=1, le=6)
    include_line_counts: bool = False


class RepoOverviewTool(PathTool[RepoOverviewArgs]):
    name = "repo_overview"
    label = "Overview"
    args = RepoOverviewArgs

    async def run(self, args: RepoOverviewArgs, ctx: ToolContext) -> LoopToolResult:
        text = await in_thread(ctx.signal, _overview, args, ctx)
        return text_result(text, path=ctx.absolute(args.path))


def _overview(args: RepoOverviewArgs, ctx: ToolContext) -> str:
    search = FileSearch(root="")
    sizes = {file.path: file.size for file in walk_folder(args.path, search, ctx)}
    outline, folder_count = build_outline(
        list(sizes), max_depth=args.max_depth, max_nodes=MAX_NODES
    )
    folders = plural(folder_count, "folder")
    lines = [f"{args.path}: {plural(len(sizes), 'file')} in {folders}"]
    for entry, files in outline.items():
        indent = "  " * entry.count("/")
        name = printable_name(entry.rpartition("/")[2])
        if files is not None:
            lines.append(f"{indent}{name}/ ({plural(files, 'file')})")
        elif args.include_line_counts and not search.is_aborted():
            path = f"{ctx.absolute(args.path)}/{entry}"
            lines.append(indent + name + _line_count(path, sizes[entry], ctx.files))
        else:
            lines.append(indent + name)
    if left_out := len(sizes) - list(outline.values()).count(None):
        deeper = "" if args.max_depth == 6 else ", or a larger max_depth"
        missing = plural(left_out, "file")
        lines.append(f"… {missing} not shown; give the path of a folder{deeper}.")
    return "\n".join(lines) + withheld_note(search.withheld)


def _line_count(path: str, size: int, files: CallFiles) -> str:
    """Return a file's number of lines in brackets; "" if it is large, not text, or gone."""
    try:
        with files.open(path) as (stream, _, _):
            content = stream.read(COUNTED_BYTES) if size <= COUNTED_BYTES else b"\0"
    except FileError:
        return ""
    return "" if b"\0" in content else f" ({plural(count_lines(content), 'line')})"


TOOL = RepoOverviewTool()
