"""The `list_dir` tool: lists a folder."""

from collections.abc import Callable

from pydantic import Field

from dirge_py.files.walk import DirectoryEntry
from dirge_py.files.workspace import CallFiles
from dirge_py.tools.base import PathText, PathTool, ToolArgs, ToolContext, in_thread
from dirge_py.tools.search.paths import (
    count_noun,
    folder_error,
    human_size,
    printable_name,
    withheld_count,
)
from dirge_py.types.errors import FileError
from dirge_py.types.tools import LoopToolResult, text_result

MAX_SHOWN = 200


class ListDirArgs(ToolArgs):
    path: PathText = "."
    offset: int = Field(0, ge=0, description="Entries to skip.")


class ListDirTool(PathTool[ListDirArgs]):
    name = "list_dir"
    label = "List"
    args = ListDirArgs

    async def run(self, args: ListDirArgs, ctx: ToolContext) -> LoopToolResult:
        path = ctx.absolute(args.path)
        withheld = ctx.services.files.withheld
        text = await in_thread(ctx.signal, _list, args, path, ctx.files, withheld)
        return text_result(text, path=path)


def _list(
    args: ListDirArgs, path: str, files: CallFiles, is_withheld: Callable[[str], bool]
) -> str:
    located = files.locate(path)
    if located.kind != "dir":
        raise folder_error(args.path, located.kind)
    listed = files.entries(path)
    entries = [e for e in listed if e.kind != "file" or not is_withheld(f"{located.real}/{e.name}")]
    entries.sort(key=lambda entry: entry.kind != "dir")
    folders = sum(entry.kind == "dir" for entry in entries)
    counts = f"{count_noun(folders, 'folder')}, {count_noun(len(entries) - folders, 'file')}"
    if args.offset and args.offset >= len(entries):
        raise FileError(
            f"{args.path} has {len(entries)} entries; offset {args.offset} is behind the last.",
            hint="Give a smaller offset.",
        )
    kept = entries[args.offset : args.offset + MAX_SHOWN]
    lines = [f"{args.path}: {counts}", *(printable_name(_line(entry)) for entry in kept)]
    end = args.offset + len(kept)
    if end < len(entries):
        lines.append(f"… {len(entries) - end} more; continue with offset={end}.")
    return "\n".join(lines) + withheld_count(len(listed) - len(entries))


def _line(entry: DirectoryEntry) -> str:
    if entry.kind == "dir":
        return f"{entry.name}/"
    if entry.link is not None:
        return f"{entry.name} -> {entry.link}"
    if entry.kind == "other":
        return f"{entry.name} (special file)"
    return f"{entry.name} ({human_size(entry.size)})"


TOOL = ListDirTool()
