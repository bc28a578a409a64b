"""The `bash_output` tool: returns the output and state of a background command."""

from pydantic import Field

from dirge_py.tools.arguments import ToolArgs
from dirge_py.tools.base import SessionTool, ToolContext
from dirge_py.tools.bash import shell_result
from dirge_py.types.tools import LoopToolResult

_MAX_WAIT_S = 60.0


class BashOutputArgs(ToolArgs):
    id: str = Field(description="Such as `sh1`.")
    wait: float = Field(
        default=0.0, ge=0, le=_MAX_WAIT_S, description="Seconds to wait for new output or the end."
    )


class BashOutputTool(SessionTool[BashOutputArgs]):
    name = "bash_output"
    label = "Output"
    args = BashOutputArgs
    needs = ("shells",)
    polls = True

    async def run(self, args: BashOutputArgs, ctx: ToolContext) -> LoopToolResult:
        assert ctx.services.shells is not None
        new = await ctx.services.shells.new_output(args.id, wait_s=args.wait, signal=ctx.signal)
        return shell_result(new)


TOOL = BashOutputTool()
