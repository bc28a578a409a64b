"""kill_shell: end a background command."""

from collections.abc import Sequence

from pydantic import Field

from dirge_py.tools.base import Tool, ToolArgs, ToolContext
from dirge_py.tools.command_results import describe_shell, shell_details
from dirge_py.types.errors import ToolFailed
from dirge_py.types.tools import Claim, LoopToolResult, text_result


class KillShellArgs(ToolArgs):
    id: str = Field(description="Such as `sh1`.")


class KillShellTool(Tool[KillShellArgs]):
    name = "kill_shell"
    label = "Stop"
    args = KillShellArgs
    mode = "sequential"
    needs = ("shells",)

    def claims(self, args: KillShellArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("meta", "kill_shell")]

    async def run(self, args: KillShellArgs, ctx: ToolContext) -> LoopToolResult:
        if ctx.services.shells is None:
            raise ToolFailed("Nothing runs in the background here.")
        state = await ctx.services.shells.kill(args.id)
        return text_result(describe_shell(state), **shell_details(state))


TOOL = KillShellTool()
