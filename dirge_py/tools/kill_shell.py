"""The `kill_shell` tool: ends a background command."""

from pydantic import Field

from dirge_py.tools.arguments import ToolArgs
from dirge_py.tools.base import SessionTool, ToolContext
from dirge_py.tools.bash import describe_shell, shell_details
from dirge_py.types.tools import LoopToolResult, text_result


class KillShellArgs(ToolArgs):
    id: str = Field(description="Such as `sh1`.")


class KillShellTool(SessionTool[KillShellArgs]):
    name = "kill_shell"
    label = "Stop"
    args = KillShellArgs
    mode = "sequential"
    needs = ("shells",)

    async def run(self, args: KillShellArgs, ctx: ToolContext) -> LoopToolResult:
        assert ctx.services.shells is not None
        state = await ctx.services.shells.kill(args.id)
        return text_result(describe_shell(state), **shell_details(state))


TOOL = KillShellTool()
