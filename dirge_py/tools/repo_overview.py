"""The `repo_overview` tool: shows a folder with everything below it, a few levels deep.

The tree is cut to a size limit: upper levels first, with equal shares for all folders.
"""

from collections.abc import Iterator, Sequence

from pydantic import Field

from dirge_py.files.walk import FileSearch
from dirge_py.files.workspace import CallFiles
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.lib.text import fair_shares, plural
from dirge_py.tools.base import PathText, PathTool, ToolArgs, ToolContext
from dirge_py.tools.file_edits.document import count_lines
from dirge_py.tools.search.paths import printable_name, walk_folder, withheld_note
from dirge_py.tools.threads import in_thread
from dirge_py.types.errors import FileError
from dirge_py.types.tools import LoopToolResult, text_result


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A file or folder of an outline."""

    path: str
    """Its path, relative to the top."""
    files: int | None = None
    """The number of files below a folder; None for a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoOutline:
    """A tree of files, cut to a size limit."""

    entries: Sequence[OutlineEntry]
    """The shown files and folders in the order of the tree, folders before files."""
    folders: int
    """The number of all folders with files, shown or not."""
    left_out: int
    """The number of files that are not shown."""


def build_outline(paths: Sequence[str], *, max_depth: int, max_nodes: int) -> RepoOutline:
    """Return the tree of these relative file paths, `max_depth` levels deep."""
    files: dict[str, list[str]] = {"": []}
    counts: dict[str, int] = {}
    for path in sorted(paths):
        folder = path.rpartition("/")[0]
        files.setdefault(folder, []).append(path)
        while folder:
            counts[folder] = counts.get(folder, 0) + 1
            folder = folder.rpartition("/")[0]
    # By depth: readers want the upper levels first.
    folders = sorted((_depth(each), each) for each in counts if _depth(each) <= max_depth)
    shown = [folder for _, folder in folders[:max_nodes]]
    expanded = ["", *(each for each in shown if _depth(each) < max_depth)]
    shares = fair_shares([len(files.get(each, ())) for each in expanded], max_nodes - len(shown))
    listed = {
        folder: files.get(folder, [])[:share]
        for folder, share in zip(expanded, shares, strict=True)
    }
    entries = _in_tree_order(shown, counts, listed)
    return RepoOutline(entries=entries, folders=len(counts), left_out=len(paths) - sum(shares))


def _depth(path: str) -> int:
    return path.count("/") + 1


def _in_tree_order(
    folders: Sequence[str], counts: dict[str, int], listed: dict[str, list[str]]
) -> list[OutlineEntry]:
    inner: dict[str, list[str]] = {}
    for folder in sorted(folders):
        inner.setdefault(folder.rpartition("/")[0], []).append(folder)

    def below(folder: str) -> Iterator[OutlineEntry]:
        # At most as deep as the outline.
        for each in inner.get(folder, ()):
            yield OutlineEntry(each, counts[each])
            yield from below(each)
        yield from map(OutlineEntry, listed.get(folder, ()))

    return list(below(""))


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
    outline = build_outline(list(sizes), max_depth=args.max_depth, max_nodes=MAX_NODES)
    folders = plural(outline.folders, "folder")
    lines = [f"{args.path}: {plural(len(sizes), 'file')} in {folders}"]
    for entry in outline.entries:
        indent = "  " * (entry.path.count("/"))
        name = printable_name(entry.path.rpartition("/")[2])
        if entry.files is not None:
            lines.append(f"{indent}{name}/ ({plural(entry.files, 'file')})")
        elif args.include_line_counts and not search.is_aborted():
            path = f"{ctx.absolute(args.path)}/{entry.path}"
            lines.append(indent + name + _line_count(path, sizes[entry.path], ctx.files))
        else:
            lines.append(indent + name)
    if outline.left_out:
        deeper = "" if args.max_depth == 6 else ", or a larger max_depth"
        missing = plural(outline.left_out, "file")
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
