"""Create a file, or replace all of one."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from dirge_py.calls import LoopToolResult, Preview, text_result
from dirge_py.claims import Claim
from dirge_py.errors import FileError
from dirge_py.files.identity import FileContent
from dirge_py.files.workspace import CallFiles
from dirge_py.lib.lean_dataclass import dataclass
from dirge_py.tools.base import PathText, Tool, ToolArgs, ToolContext, in_thread, renamed
from dirge_py.tools.editing.diff import Diff, diff_of_texts
from dirge_py.tools.editing.document import encoded


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
        plan = _plan(args, path, ctx.services.files.for_person())
        return Preview(kind="diff", text=plan.diff.text, path=path)

    async def run(self, args: WriteArgs, ctx: ToolContext) -> LoopToolResult:
        path = ctx.absolute(args.path)
        plan = await in_thread(ctx.signal, _apply, args, path, ctx)
        return text_result(
            _report(args, plan),
            path=path,
            diff=plan.diff.text,
            added=plan.diff.added,
            removed=plan.diff.removed,
        )


@dataclass(frozen=True, slots=True)
class _WritePlan:
    """`before` is None where the file will be created."""

    content: bytes
    before: FileContent | None
    diff: Diff


def _apply(args: WriteArgs, path: str, ctx: ToolContext) -> _WritePlan:
    files = ctx.files
    plan = _plan(args, path, files)
    if plan.before is not None:
        files.check_fresh(args.path, plan.before)
    ctx.stop_if_aborted()
    expected = plan.before.identity if plan.before else None
    files.write(path, plan.content, expected=expected)
    return plan


def _plan(args: WriteArgs, path: str, files: CallFiles) -> _WritePlan:
    content = encoded(args.content)
    located = files.locate(path)
    if located.kind == "dir":
        raise FileError(f"{args.path} is a folder.", hint="Give the path of a file in it.")
    before = files.read(path) if located.exists else None
    diff = diff_of_texts(
        before.content if before else b"", content, path=args.path, created=before is None
    )
    return _WritePlan(content, before, diff)


def _report(args: WriteArgs, plan: _WritePlan) -> str:
    lines = plan.content.count(b"\n") + (not plan.content.endswith(b"\n") and plan.content != b"")
    verb = "Created" if plan.before is None else "Wrote"
    return f"{verb} {args.path}: {len(plan.content)} bytes ({lines} lines)."


TOOL = Write()
