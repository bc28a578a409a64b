"""Tools with the claims of real ones, and runs of the loop under guards."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dirge_py.agent_loop import Hooks, compose
from dirge_py.testing import ScriptedModel
from dirge_py.tools.base import NO_HINTS, Hints
from dirge_py.types.messages import Message, ToolResultMessage, UserMessage, user_text
from dirge_py.types.tools import Claim, LoopToolResult, ShellCommand, ToolCall, text_result
from tests.support.loop_runs import LoopRun, Tool, run_loop


@dataclass
class ClaimingTool(Tool):
    """A tool whose claims `claimed` computes from its arguments."""

    claimed: Callable[[Any], Sequence[Claim]] = lambda arguments: ()
    hints: Hints = NO_HINTS

    def claims(self, arguments: Any) -> Sequence[Claim]:
        return self.claimed(arguments)


async def _run(_id: str, arguments: Any, *_: Any) -> LoopToolResult:
    """End as the command says: with the exit code, or by timeout."""
    code = arguments.get("exit", 0)
    if arguments.get("times_out"):
        return text_result("The command timed out.", outcome="timeout", is_error=True)
    output = arguments.get("output", "some output")
    if code:
        return text_result(f"{output}\nExit code: {code}", outcome="failed_command")
    return text_result(output)


async def _fail(_id: str, arguments: Any, *_: Any) -> LoopToolResult:
    outcome = arguments.get("outcome", "error")
    return text_result(arguments.get("text", "it broke"), outcome=outcome, is_error=outcome != "ok")


def bash() -> ClaimingTool:
    return ClaimingTool(
        name="bash",
        body=_run,
        execution_mode="sequential",
        claimed=lambda given: [Claim("execute", ShellCommand(given["command"], "/w"))],
    )


def edit() -> ClaimingTool:
    return ClaimingTool(name="edit", claimed=lambda given: [Claim("edit", f"/w/{given['path']}")])


def read() -> ClaimingTool:
    return ClaimingTool(
        name="read",
        claimed=lambda given: [Claim("read", f"/w/{given['path']}")],
        hints=Hints(read_only=True),
    )


def patch() -> ClaimingTool:
    """Edits several files in one call."""
    return ClaimingTool(
        name="patch", claimed=lambda given: [Claim("edit", f"/w/{path}") for path in given["files"]]
    )


def faulty() -> ClaimingTool:
    """Fail as its arguments say."""
    return ClaimingTool(name="faulty", body=_fail)


def tools() -> list[ClaimingTool]:
    return [bash(), edit(), read(), patch(), faulty(), ClaimingTool(name="todo")]


async def run_guarded(
    model: ScriptedModel, *bundles: Hooks, prompt: str = "go", **more: Any
) -> LoopRun:
    """A run of `model` with these guards and all the tools."""
    return await run_loop(model, prompt, tools=tools(), config=compose(*bundles), **more)


def nudges(run: LoopRun) -> list[str]:
    """The harness messages of the run."""
    return [
        each.text for each in run.new if isinstance(each, UserMessage) and each.origin == "harness"
    ]


def result(
    outcome: str = "error", text: str = "it broke", *, tool: str = "edit", synthetic: str = ""
) -> ToolResultMessage:
    details = {"outcome": outcome} | ({"synthetic": synthetic} if synthetic else {})
    is_error = outcome not in ("ok", "failed_command")
    content = user_text(text).content
    return ToolResultMessage(
        tool_call_id="x", tool_name=tool, content=content, details=details, is_error=is_error
    )


def call(tool: ClaimingTool, **arguments: Any) -> ToolCall:
    return ToolCall(id="x", name=tool.name, arguments=arguments, tool=tool)


def says(*texts: str) -> Hooks:
    """Follow-ups by another hook, one whenever the agent would stop."""
    waiting = [user_text(text, origin="follow_up") for text in texts]

    def get_followup_messages(_info: Any, _so_far: Any) -> list[Message]:
        return [waiting.pop(0)] if waiting else []

    return Hooks(name="somebody", get_followup_messages=get_followup_messages)
