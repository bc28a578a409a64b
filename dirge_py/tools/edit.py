"""The `edit` tool: replaces pieces of a file."""

from collections.abc import Sequence
from typing import Any

from pydantic import model_validator

from dirge_py.files.workspace import CallFiles
from dirge_py.tools.arguments import PathText, ToolArgs
from dirge_py.tools.base import Tool, ToolContext, rename_keys
from dirge_py.tools.file_edits.file_changes import (
    AppliedChanges,
    PlannedChange,
    apply_changes,
    preview_changes,
)
from dirge_py.tools.file_edits.text_edits import EditPlan, TextEdit, plan_edits, plan_for_model
from dirge_py.tools.threads import in_thread
from dirge_py.types.tools import Claim, LoopToolResult, Preview

_NAMES = {"file_path": "path", "old_string": "old_text", "new_string": "new_text"}


class OneEditArgs(ToolArgs):
    old_text: str
    new_text: str
    replace_all: bool = False


class EditToolArgs(ToolArgs):
    path: PathText
    old_text: str | None = None
    new_text: str | None = None
    replace_all: bool = False
    edits: list[OneEditArgs] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> "EditToolArgs":
        has_single = self.old_text is not None and self.new_text is not None
        if (self.old_text is None) != (self.new_text is None) or has_single == bool(self.edits):
            raise ValueError("give old_text and new_text, or edits")
        return self

    def each(self) -> Sequence[TextEdit]:
        """Return the edits, in order."""
        if not self.edits:
            old, new = self.old_text or "", self.new_text or ""
            return [TextEdit(old=old, new=new, replace_all=self.replace_all)]
        return [
            TextEdit(
                old=each.old_text,
                new=each.new_text,
                replace_all=each.replace_all or self.replace_all,
                prefix=f"edits[{number}]: ",
            )
            for number, each in enumerate(self.edits)
        ]


class EditTool(Tool[EditToolArgs]):
    name = "edit"
    label = "Edit"
    args = EditToolArgs

    def prepare(self, arguments: Any) -> Any:
        arguments = rename_keys(arguments, _NAMES)
        if not isinstance(arguments, dict):
            return arguments
        if isinstance(edits := arguments.get("edits"), list):
            arguments = {**arguments, "edits": [rename_keys(each, _NAMES) for each in edits]}
        # Some models fill in every field: an empty form beside a full one is dropped.
        unused: set[str] = set()
        if arguments.get("edits") and not (arguments.get("old_text") or arguments.get("new_text")):
            unused = {"old_text", "new_text"}
        elif arguments.get("edits") == [] and "old_text" in arguments:
            unused = {"edits"}
        return {key: value for key, value in arguments.items() if key not in unused}

    def claims(self, args: EditToolArgs, ctx: ToolContext) -> Sequence[Claim]:
        path = ctx.absolute(args.path)
        return [Claim("read", path), Claim("edit", path)]

    def preview(self, args: EditToolArgs, ctx: ToolContext) -> Preview | None:
        return preview_changes([_plan(args, ctx, ctx.services.files.for_person())[1]])

    async def run(self, args: EditToolArgs, ctx: ToolContext) -> LoopToolResult:
        plan, applied = await in_thread(ctx.signal, _apply, args, ctx)
        return applied.result(_report(args, plan, applied), path=ctx.absolute(args.path))


def _plan(
    args: EditToolArgs, ctx: ToolContext, files: CallFiles, *, is_call: bool = False
) -> tuple[EditPlan, PlannedChange]:
    path, shown = ctx.absolute(args.path), args.path
    before = files.read(path)

    def plan_change() -> EditPlan:
        return plan_edits(before.content, args.each(), path=shown)

    plan = plan_for_model(files, shown, before, plan_change, real=before.real, is_call=is_call)
    after, diff = plan.content, plan.diff
    return plan, PlannedChange(path=path, shown=shown, before=before, after=after, diff=diff)


def _apply(args: EditToolArgs, ctx: ToolContext) -> tuple[EditPlan, AppliedChanges]:
    plan, change = _plan(args, ctx, ctx.files, is_call=True)
    return plan, apply_changes([change], ctx)


def _report(args: EditToolArgs, plan: EditPlan, applied: AppliedChanges) -> str:
    if any(each.is_chosen for each in applied.files) or not applied.files:
        return f"{'Changed' if applied.files else 'Did not change'} {args.path}."
    place = f"line {plan.first_line}" if plan.places == 1 else f"{plan.places} places"
    how = f" Matched with {', '.join(plan.strategies)}." if plan.strategies else ""
    counts = f"+{plan.diff.added} -{plan.diff.removed} lines"
    return f"Applied edit to {args.path} at {place} ({counts}).{how}"


TOOL = EditTool()
