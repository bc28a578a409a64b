"""The `apply_patch` tool: changes several files together (create, update, delete, rename)."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import model_validator

from dirge_py.tools.arguments import PathText, ToolArgs, check_path_text
from dirge_py.tools.base import Tool, ToolContext, rename_keys
from dirge_py.tools.file_edits.file_changes import AppliedChanges, apply_changes, preview_changes
from dirge_py.tools.file_edits.patch import PatchOperation, parse_patch
from dirge_py.tools.file_edits.patch_plan import PatchPlanner
from dirge_py.tools.file_edits.text_edits import TextEdit
from dirge_py.tools.threads import in_thread
from dirge_py.types.tools import Claim, LoopToolResult, Preview

_NAMES = {
    "type": "action",
    "op": "action",
    "file_path": "path",
    "old_string": "old_text",
    "new_string": "new_text",
    "move_to": "new_path",
}
_ACTIONS = {
    "add": "create",
    "edit": "update",
    "modify": "update",
    "remove": "delete",
    "move": "rename",
}


class OperationArgs(ToolArgs):
    action: Literal["create", "update", "delete", "rename"]
    path: PathText
    content: str | None = None
    old_text: str | None = None
    new_text: str | None = None
    new_path: PathText | None = None

    @model_validator(mode="after")
    def _complete(self) -> "OperationArgs":
        has_texts = self.old_text is not None and self.new_text is not None
        match self.action:
            case "create" if self.content is None:
                raise ValueError("create needs content")
            case "update" if has_texts == (self.content is not None):
                raise ValueError("update needs old_text and new_text, or the whole content")
            case "rename" if self.new_path is None:
                raise ValueError("rename needs new_path")
        return self

    def operation(self) -> PatchOperation:
        edits = []
        if self.action != "create" and self.old_text is not None and self.new_text is not None:
            edits = [TextEdit(old=self.old_text, new=self.new_text)]
        moves = self.action in ("update", "rename")
        return PatchOperation(
            action="update" if self.action == "rename" and edits else self.action,
            path=self.path,
            content=self.content,
            new_path=self.new_path if moves else None,
            edits=edits,
        )


class ApplyPatchArgs(ToolArgs):
    patch: str | None = None
    operations: list[OperationArgs] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> "ApplyPatchArgs":
        if bool(self.patch) == bool(self.operations):
            raise ValueError("give patch or operations")
        paths = [path for each in self.each() for path in (each.path, each.new_path)]
        for path in filter(None, paths):
            try:
                check_path_text(path)
            except ValueError:
                raise ValueError(f"no file can be called {path!r}") from None
        return self

    def each(self) -> Sequence[PatchOperation]:
        """Return the operations, in order. Raises ValueError if the patch is invalid."""
        if self.operations:
            return [each.operation() for each in self.operations]
        return parse_patch(self.patch or "")


class ApplyPatchTool(Tool[ApplyPatchArgs]):
    name = "apply_patch"
    label = "Patch"
    args = ApplyPatchArgs

    def prepare(self, arguments: Any) -> Any:
        if isinstance(arguments, str):
            return {"patch": arguments}
        arguments = rename_keys(arguments, {"input": "patch", "patch_text": "patch"})
        if not isinstance(arguments, dict):
            return arguments
        if isinstance(operations := arguments.get("operations"), list):
            normalized = [_normalize_operation(each) for each in operations]
            arguments = {**arguments, "operations": normalized}
        return arguments

    def claims(self, args: ApplyPatchArgs, ctx: ToolContext) -> Sequence[Claim]:
        claims: dict[Claim, None] = {}
        for each in args.each():
            path = ctx.absolute(each.path)
            if each.action != "create":
                claims[Claim("read", path)] = None
            removes = each.action == "delete" or each.new_path is not None
            claims[Claim("edit", path, removes=removes)] = None
            if each.new_path is not None:
                claims[Claim("edit", ctx.absolute(each.new_path))] = None
        return list(claims)

    def preview(self, args: ApplyPatchArgs, ctx: ToolContext) -> Preview | None:
        files = ctx.services.files.for_person()
        return preview_changes(PatchPlanner(files, ctx.cwd, is_call=False).plan(args.each())[0])

    async def run(self, args: ApplyPatchArgs, ctx: ToolContext) -> LoopToolResult:
        report, applied = await in_thread(ctx.signal, _apply, args, ctx)
        paths = [each.path for each in applied.files]
        first = paths[0] if paths else ""
        return applied.result(report, path=first, paths=tuple(paths))


def _normalize_operation(operation: Any) -> Any:
    operation = rename_keys(operation, _NAMES)
    if isinstance(operation, dict) and operation.get("action") in _ACTIONS:
        return {**operation, "action": _ACTIONS[operation["action"]]}
    return operation


def _apply(args: ApplyPatchArgs, ctx: ToolContext) -> tuple[str, AppliedChanges]:
    """Apply the patch; return a line for each operation, and what was written."""
    planned, lines = PatchPlanner(ctx.files, ctx.cwd, is_call=True).plan(args.each())
    applied = apply_changes(planned, ctx)
    if list(applied.files) != planned:
        # Changes by the user are shown only in the diff.
        return f"{len(applied.files)} of {len(planned)} files were changed.", applied
    return "\n".join(f"{line[:1].upper()}{line[1:]}" for line in lines), applied


TOOL = ApplyPatchTool()
