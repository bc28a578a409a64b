"""Replace a piece of a file."""

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from dirge_py.calls import LoopToolResult, Preview, text_result
from dirge_py.claims import Claim
from dirge_py.tools.base import PathText, Tool, ToolArgs, ToolContext, in_thread, renamed
from dirge_py.tools.editing.plan import EditPlan, plan_edit


class EditArgs(ToolArgs):
    path: PathText
    old_text: str = Field(description="Text to replace; must occur exactly once.")
    new_text: str
    replace_all: bool = Field(False, description="Replace every occurrence.")


class Edit(Tool[EditArgs]):
    name = "edit"
    label = "Edit"
    args = EditArgs
    mode = "sequential"

    def prepare(self, arguments: Any) -> Any:
        return renamed(
            arguments,
            {"file_path": "path", "old_string": "old_text", "new_string": "new_text"},
        )

    def claims(self, args: EditArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("edit", ctx.absolute(args.path))]

    def preview(self, args: EditArgs, ctx: ToolContext) -> Preview | None:
        path = ctx.absolute(args.path)
        plan = _plan(args, ctx.services.files.for_person().read(path).content)
        return Preview(kind="diff", text=plan.diff.text, path=path)

    async def run(self, args: EditArgs, ctx: ToolContext) -> LoopToolResult:
        path = ctx.absolute(args.path)
        plan = await in_thread(ctx.signal, _apply, args, path, ctx)
        return text_result(
            _report(args, plan),
            path=path,
            diff=plan.diff.text,
            added=plan.diff.added,
            removed=plan.diff.removed,
        )


def _apply(args: EditArgs, path: str, ctx: ToolContext) -> EditPlan:
    files = ctx.files
    before = files.read(path)
    files.check_fresh(args.path, before)
    plan = _plan(args, before.content)
    ctx.stop_if_aborted()
    files.write(path, plan.content, expected=before.identity)
    return plan


def _plan(args: EditArgs, content: bytes) -> EditPlan:
    return plan_edit(
        content, args.old_text, args.new_text, replace_all=args.replace_all, path=args.path
    )


def _report(args: EditArgs, plan: EditPlan) -> str:
    place = f"line {plan.first_line}" if plan.places == 1 else f"{plan.places} places"
    how = "" if plan.strategy == "exact" else f" Matched with {plan.strategy}."
    counts = f"+{plan.diff.added} -{plan.diff.removed} lines"
    return f"Applied edit to {args.path} at {place} ({counts}).{how}\n\n{plan.diff.text}"


TOOL = Edit()
