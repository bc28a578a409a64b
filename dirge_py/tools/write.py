"""Create a file, or replace all of one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from dirge_py.calls import LoopToolResult, Preview
from dirge_py.claims import Claim
from dirge_py.errors import FileError
from dirge_py.files.workspace import CallFiles
from dirge_py.lib.late import late
from dirge_py.tools.base import PathText, Tool, ToolArgs, ToolContext, in_thread, renamed

if TYPE_CHECKING:
    from dirge_py.tools.editing.diff import diff_of_texts
    from dirge_py.tools.editing.document import encoded
    from dirge_py.tools.editing.landing import Landed, Planned, land, preview_of
else:
    diff_of_texts = late("dirge_py.tools.editing.diff", "diff_of_texts")
    encoded = late("dirge_py.tools.editing.document", "encoded")
    Planned = late("dirge_py.tools.editing.landing", "Planned")
    land = late("dirge_py.tools.editing.landing", "land")
    preview_of = late("dirge_py.tools.editing.landing", "preview_of")


class WriteArgs(ToolArgs):
    path: PathText
    content: str = Field(description="The whole new content.")


class Write(Tool[WriteArgs]):
    name = "write"
    label = "Write"
    args = WriteArgs
    mode = "sequential"

    def prepare(self, arguments: Any) -> Any:
        return renamed(arguments, {"file_path": "path"})

    def claims(self, args: WriteArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("edit", ctx.absolute(args.path))]

    def preview(self, args: WriteArgs, ctx: ToolContext) -> Preview | None:
        path = ctx.absolute(args.path)
        return preview_of([_planned(args, path, ctx.services.files.for_person())])

    async def run(self, args: WriteArgs, ctx: ToolContext) -> LoopToolResult:
        path = ctx.absolute(args.path)
        landed = await in_thread(ctx.signal, _apply, args, path, ctx)
        # The model wrote all of it: only what it did not write is news.
        return landed.result(_report(args, landed), with_diff=bool(landed.notes), path=path)


def _apply(args: WriteArgs, path: str, ctx: ToolContext) -> "Landed":
    planned = _planned(args, path, ctx.files)
    if planned.before is not None:
        ctx.files.check_fresh(args.path, planned.before)
    return land([planned], ctx)


def _planned(args: WriteArgs, path: str, files: CallFiles) -> "Planned":
    content = encoded(args.content)
    if files.locate(path).kind == "dir":
        raise FileError(f"{args.path} is a folder.", hint="Give the path of a file in it.")
    before = files.read_if_there(path)
    diff = diff_of_texts(before.content if before else None, content, path=args.path)
    return Planned(path=path, shown=args.path, before=before, after=content, diff=diff)


def _report(args: WriteArgs, landed: "Landed") -> str:
    if not landed.files:
        return f"Did not write {args.path}."
    content = landed.files[0].after or b""
    lines = content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
    verb = "Created" if landed.files[0].before is None else "Wrote"
    return f"{verb} {args.path}: {len(content)} bytes ({lines} lines)."


TOOL = Write()
