"""Show what is in a folder."""

from collections.abc import Sequence

from dirge_py.calls import LoopToolResult, text_result
from dirge_py.claims import Claim
from dirge_py.errors import FileError
from dirge_py.files.walk import Entry
from dirge_py.files.workspace import CallFiles
from dirge_py.tools.base import PathText, Tool, ToolArgs, ToolContext, in_thread
from dirge_py.tools.searching.places import counted, printable

MAX_SHOWN = 200


class ListDirArgs(ToolArgs):
    path: PathText = "."


class ListDir(Tool[ListDirArgs]):
    name = "list_dir"
    label = "List"
    args = ListDirArgs

    def claims(self, args: ListDirArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("read", ctx.absolute(args.path))]

    async def run(self, args: ListDirArgs, ctx: ToolContext) -> LoopToolResult:
        path = ctx.absolute(args.path)
        text = await in_thread(ctx.signal, _list, args.path, path, ctx.files)
        return text_result(text, path=path)


def _list(shown: str, path: str, files: CallFiles) -> str:
    kind = files.locate(path).kind
    if kind != "dir":
        problem = "does not exist" if kind == "missing" else "is not a folder; use `read`"
        raise FileError(f"{shown} {problem}.")
    entries = files.entries(path)
    folders = [entry for entry in entries if entry.kind == "dir"]
    others = [entry for entry in entries if entry.kind != "dir"]
    lines = [f"{shown}: {counted(len(folders), 'folder')}, {counted(len(others), 'file')}"]
    lines += [printable(_line(entry)) for entry in (folders + others)[:MAX_SHOWN]]
    if len(entries) > MAX_SHOWN:
        lines.append(f"… {len(entries) - MAX_SHOWN} more; narrow them down with `glob`.")
    return "\n".join(lines)


def _line(entry: Entry) -> str:
    if entry.kind == "dir":
        return f"{entry.name}/"
    if entry.link is not None:
        return f"{entry.name} -> {entry.link}"
    if entry.kind == "other":
        return f"{entry.name} (special file)"
    return f"{entry.name} ({human_size(entry.size)})"


def human_size(size: int) -> str:
    """`size` in the largest unit that leaves at least 1, such as `1.5 KiB`."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} TiB"


TOOL = ListDir()
