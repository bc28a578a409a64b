"""The `write` tool: creates a file, replaces its whole content, or appends to it."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, Literal

from pydantic import Field

from dirge_py.files.workspace import CallFiles
from dirge_py.tools.arguments import PathText, ToolArgs
from dirge_py.tools.base import Tool, ToolContext
from dirge_py.tools.file_edits.diff import diff_of_texts
from dirge_py.tools.file_edits.document import count_lines, encode_text, require_utf8
from dirge_py.tools.file_edits.file_changes import (
    AppliedChanges,
    PlannedChange,
    apply_changes,
    preview_changes,
)
from dirge_py.tools.threads import in_thread
from dirge_py.types.errors import FileError
from dirge_py.types.tools import Claim, LoopToolResult, Preview


class WriteArgs(ToolArgs):
    path: PathText
    content: str = Field(description="The whole new content, or what to append.")
    mode: Literal["overwrite", "append"] = "overwrite"


class WriteTool(Tool[WriteArgs]):
    name = "write"
    label = "Write"
    args = WriteArgs
    other_names: ClassVar = {"file_path": "path"}

    def claims(self, args: WriteArgs, ctx: ToolContext) -> Sequence[Claim]:
        path = ctx.absolute(args.path)
        # The replaced file is read, to show the difference and to detect changes.
        return [*([Claim("read", path)] if os.path.lexists(path) else []), Claim("edit", path)]

    def preview(self, args: WriteArgs, ctx: ToolContext) -> Preview | None:
        files = ctx.services.files.for_person()
        return preview_changes([_plan_change(args, ctx.absolute(args.path), files)])

    async def run(self, args: WriteArgs, ctx: ToolContext) -> LoopToolResult:
        path = ctx.absolute(args.path)
        applied = await in_thread(ctx.signal, _apply, args, path, ctx)
        # The model knows its own text: only other changes are reported.
        return applied.result(_report(args, applied), with_diff=bool(applied.notes), path=path)


def _apply(args: WriteArgs, path: str, ctx: ToolContext) -> AppliedChanges:
    planned = _plan_change(args, path, ctx.files)
    before = planned.before
    was_known = before is None
    if before is not None:
        with suppress(FileError):
            ctx.files.ledger.check_fresh(args.path, before)
            was_known = True
    applied = apply_changes([planned], ctx)
    if before is not None and not was_known:
        # The model has not seen the text before the appended one, so the file does not count as
        # known: it could not replace anything in it.
        ctx.files.ledger.forget(before.real)
    return applied


def _plan_change(args: WriteArgs, path: str, files: CallFiles) -> PlannedChange:
    content = encode_text(args.content)
    if files.locate(path).kind == "dir":
        raise FileError(f"{args.path} is a folder.", hint="Give the path of a file in it.")
    before = files.read_if_there(path)
    if before is not None and args.mode == "append":
        require_utf8(before.content, args.path)
        content = before.content + content
    elif before is not None:
        files.ledger.check_fresh(args.path, before)
    diff = diff_of_texts(before.content if before else None, content, path=args.path)
    return PlannedChange(path=path, shown=args.path, before=before, after=content, diff=diff)


def _report(args: WriteArgs, applied: AppliedChanges) -> str:
    if not applied.files:
        return f"Did not write {args.path}."
    file = applied.files[0]
    content, old = file.after or b"", file.old
    if old is None or args.mode == "overwrite":
        return f"{'Created' if old is None else 'Wrote'} {args.path}: {_size_of(content)}."
    if file.is_chosen:
        return f"Changed {args.path}: {_size_of(content)}."
    text = f"Appended to {args.path}: {_size_of(content[len(old) :])}."
    if old and not old.endswith(b"\n"):
        text += " The file did not end with a newline, so the new text continues its last line."
    return text


def _size_of(content: bytes) -> str:
    return f"{len(content)} bytes ({count_lines(content)} lines)"


TOOL = WriteTool()
