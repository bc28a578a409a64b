"""The `list_dir` tool: lists a folder."""

from pydantic import Field

from dirge_py.files.walk import DirectoryEntry
from dirge_py.lib.text import plural
from dirge_py.tools.arguments import PathText, ToolArgs
from dirge_py.tools.base import PathTool, ToolContext
from dirge_py.tools.search.paths import human_size, printable_name, require_folder, withheld_note
from dirge_py.tools.threads import in_thread
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
        text = await in_thread(ctx.signal, _list, args, ctx)
        return text_result(text, path=ctx.absolute(args.path))


def _list(args: ListDirArgs, ctx: ToolContext) -> str:
    folder, is_withheld = require_folder(args.path, ctx), ctx.services.files.withheld
    listed = ctx.files.entries(ctx.absolute(args.path))
    entries = [e for e in listed if e.kind != "file" or not is_withheld(f"{folder}/{e.name}")]
    entries.sort(key=lambda entry: entry.kind != "dir")
    folders = sum(entry.kind == "dir" for entry in entries)
    counts = f"{plural(folders, 'folder')}, {plural(len(entries) - folders, 'file')}"
    if args.offset and args.offset >= len(entries):
        raise FileError(
            f"{args.path} has {len(entries)} entries; offset {args.offset} is past the last.",
            hint="Give a smaller offset.",
        )
    kept = entries[args.offset : args.offset + MAX_SHOWN]
    lines = [f"{args.path}: {counts}", *(printable_name(_line(entry)) for entry in kept)]
    end = args.offset + len(kept)
    if end < len(entries):
        lines.append(f"… {len(entries) - end} more; continue with offset={end}.")
    return "\n".join(lines) + withheld_note(len(listed) - len(entries))


def _line(entry: DirectoryEntry) -> str:
    if entry.kind == "dir":
        return f"{entry.name}/"
    if entry.link is not None:
        return f"{entry.name} -> {entry.link}"
    if entry.kind == "other":
        return f"{entry.name} (special file)"
    return f"{entry.name} ({human_size(entry.size)})"


TOOL = ListDirTool()
