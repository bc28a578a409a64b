"""The `memory` tool: keeps notes for later sessions."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from dirge_py.lib.text import clean
from dirge_py.tools.arguments import ToolArgs
from dirge_py.tools.base import Tool, ToolContext
from dirge_py.types.errors import ToolFailed
from dirge_py.types.memory import MemoryUpdate
from dirge_py.types.tools import Claim, LoopToolResult, Preview, text_result

_FILES = {"memory": "MEMORY.md", "user": "USER.md"}
_NAMES = {"target": "store", "text": "content", "old_text": "match", "substring": "match"}


class MemoryArgs(ToolArgs):
    action: Literal["view", "add", "replace", "remove"]
    store: Literal["memory", "user"] = "memory"
    content: str = Field("", max_length=20_000)
    match: str = Field("", max_length=2_000)


class MemoryTool(Tool[MemoryArgs]):
    name = "memory"
    label = "Memory"
    args = MemoryArgs
    other_names = _NAMES
    needs = ("memory",)

    def claims(self, args: MemoryArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("memory", f"{args.action} {args.store}")]

    def preview(self, args: MemoryArgs, ctx: ToolContext) -> Preview | None:
        if args.action == "view":
            return None
        file = _FILES[args.store]
        part = f"the part of {file} with `{args.match}`" if args.match else f"all of {file}"
        if args.action == "remove":
            return Preview(kind="text", text=f"remove {part}")
        heading = f"add to {file}" if args.action == "add" else f"replace {part}"
        return Preview(kind="text", text=f"{heading}:\n{args.content}")

    async def run(self, args: MemoryArgs, ctx: ToolContext) -> LoopToolResult:
        stores = ctx.services.memory
        assert stores is not None
        if args.action == "view":
            text = clean(await stores.read(args.store)).strip()
            return text_result(text or f"{_FILES[args.store]} is empty.", store=args.store)
        if args.action != "remove" and not args.content.strip():
            raise ToolFailed("`content` is missing. Nothing was changed.")
        done = await stores.update(MemoryUpdate(**args.model_dump()))
        text = f"{done} It is in your prompt from the next run on."
        return text_result(text, store=args.store, action=args.action)


TOOL = MemoryTool()
