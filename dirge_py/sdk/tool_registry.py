"""`ToolRegistry`: the tools of an agent, which a program may extend and call itself."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.nearest import nearest
from dirge_py.sdk.threads import OpenThread, Threads
from dirge_py.tools.base import Tool
from dirge_py.types.errors import ConfigError, UsageError
from dirge_py.types.events import Sink
from dirge_py.types.tools import LoopTool, LoopToolResult


class ToolRegistry:
    """The tools of an `Agent`, in a fixed order: given and built-in ones, then registered ones.

        agent.tools.register(lookup)
        result = await agent.tools.execute("lookup", {"key": "a"})

    Reading it opens the agent's own thread. Raises ConfigError: the agent's model can't be used.
    """

    def __init__(self, open_thread: OpenThread, *, are_shared: bool) -> None:
        self._registered: dict[str, Tool[Any] | LoopTool] = {}
        self._open_thread = open_thread
        self.threads = Threads(self._opened, are_shared=are_shared)
        """The conversations of the agent; all of them have the registered tools."""

    def register(self, tool: Tool[Any] | LoopTool, *, replace: bool = False) -> None:
        """Add a tool for runs that start from now on, in all threads.

        With `replace` it takes the place of the tool of its name. Raises ConfigError: there is one
        already.
        """
        if not replace and tool.name in self:
            raise ConfigError(
                f"There is a tool `{tool.name}` already.",
                hint="Give it another name, or replace it with `replace=True`.",
            )
        self._registered[tool.name] = tool
        for conversation in self.threads.opened:
            conversation.put_tool(tool)

    def get(self, name: str) -> LoopTool | None:
        """The tool of that name; None if there is none."""
        return next((tool for tool in self if tool.name == name), None)

    def __iter__(self) -> Iterator[LoopTool]:
        return iter(self.threads.open(None).tools)

    def __len__(self) -> int:
        return len(self.threads.open(None).tools)

    def __contains__(self, name: object) -> bool:
        return any(tool.name == name for tool in self)

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """Each tool as JSON with MCP's names: `name`, `title`, `description`, `inputSchema`, and

        `outputSchema` and `annotations` if it has them. Equal tools give equal JSON.
        """
        return [_definition(tool) for tool in self]

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        thread: str | None = None,
        on_event: Sink | None = None,
    ) -> LoopToolResult:
        """Call a tool outside of runs; the model doesn't see the call, and no session stores it.

        The call is checked like a model's: arguments, hooks of plugins and programs, permission
        with the rules, mode and grants of the thread, interceptors, guardrails. What fails or is
        denied is a result with `is_error`, and `details["outcome"]` says how. There are no limits
        on repetition, no repair of arguments, and no snapshot for `/undo`. `on_event` gets its
        events. Cancelling this aborts the call. Raises UsageError: there is no such tool;
        DirgeError: a run of the thread is in progress.
        """
        conversation = self.threads.open(thread)
        try:
            tool = next((tool for tool in conversation.tools if tool.name == name), None)
            if tool is None:
                names = conversation.tool_names
                near = nearest(name, names)
                hint = f"Did you mean `{near}`?" if near else f"Tools: {', '.join(names)}."
                raise UsageError(f"There is no tool `{name}`.", hint=hint)
            return await conversation.call_tool(
                tool, dict(arguments or {}), on_event or (lambda event: None)
            )
        finally:
            self.threads.release(thread)
            await asyncio.shield(self.threads.wait_released(thread))

    def _opened(self, name: str | None) -> Conversation:
        conversation = self._open_thread(name)
        for tool in self._registered.values():
            conversation.put_tool(tool)
        return conversation


def _definition(tool: LoopTool) -> Mapping[str, Any]:
    definition: dict[str, Any] = {
        "name": tool.name,
        "title": tool.label,
        "description": tool.description,
        "inputSchema": tool.parameters,
    }
    if (schema := getattr(tool, "output_schema", None)) is not None:
        definition["outputSchema"] = schema
    hints = getattr(tool, "hints", None)
    known = {_HINTS[name]: value for name, value in asdict(hints).items()} if hints else {}
    annotations = {name: value for name, value in known.items() if value is not None}
    return {**definition, **({"annotations": annotations} if annotations else {})}


_HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
