"""bash: run a command line."""

from collections.abc import Sequence

from pydantic import Field

from dirge_py.calls import LoopToolResult, Preview, text_result
from dirge_py.claims import Claim, Command
from dirge_py.errors import ToolFailed
from dirge_py.processes.runner import MAX_TIMEOUT_S
from dirge_py.processes.running import Finished
from dirge_py.processes.shell import NewOutput, Shell
from dirge_py.processes.shells import BACKGROUND_TIMEOUT_S
from dirge_py.processes.watch import Watching
from dirge_py.tools.base import Tool, ToolArgs, ToolContext
from dirge_py.tools.commands.results import finished_result, shell_result

_MAX_INPUT_CHARS = 16_000
_LOOK_S = 0.5
"""How long a background command is looked at: one that fails at once is told of at once."""


class BashArgs(ToolArgs):
    command: str = Field(description="The command line.", min_length=1)
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Seconds after which the command is stopped.",
    )
    background: bool = Field(default=False, description="Return at once; it goes on.")
    input: str | None = Field(
        default=None, max_length=_MAX_INPUT_CHARS, description="Text for its stdin."
    )


class Bash(Tool[BashArgs]):
    name = "bash"
    label = "Run"
    args = BashArgs
    mode = "sequential"
    needs = ("processes",)

    def claims(self, args: BashArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("execute", Command(_as_typed(args), ctx.cwd))]

    def preview(self, args: BashArgs, ctx: ToolContext) -> Preview:
        note = "in the background" if args.background else ""
        return Preview(kind="command", text=_as_typed(args), note=note)

    async def run(self, args: BashArgs, ctx: ToolContext) -> LoopToolResult:
        if args.background:
            return await _start(args, ctx)
        timeout_s = args.timeout or ctx.services.command_timeout_s
        ended = await _run(args, ctx, timeout_s)
        if isinstance(ended, Finished):
            return finished_result(args.command, ended, timeout_s)
        moved = NewOutput(output=ended.output, state=ended.state)
        return shell_result(moved, "The user moved the command to the background. It goes on.")


TOOL = Bash()


def _as_typed(args: BashArgs) -> str:
    """The command line that does the same, with the input in it.

    What stands in the input can be as much of a command as the command itself (`bash`, `python`),
    so it is judged and shown like one.
    """
    if args.input is None:
        return args.command
    lines = args.input.split("\n")
    end = "INPUT"
    while end in lines:
        end += "_"
    body = args.input if args.input.endswith("\n") or not args.input else f"{args.input}\n"
    return f"{{ {args.command}\n}} <<'{end}'\n{body}{end}"


async def _run(args: BashArgs, ctx: ToolContext, timeout_s: float) -> Finished | Shell:
    services = ctx.services
    runner = services.shells or services.processes
    if runner is None:
        raise ToolFailed("Commands cannot be run here. Use the file tools.")

    def show(tail: str, _total_bytes: int) -> None:
        ctx.on_update(text_result(tail))

    def tell_quiet(tail: str, quiet_s: float) -> None:
        ctx.on_update(text_result(tail, quiet_s=round(quiet_s)))

    return await runner.run(
        args.command,
        cwd=ctx.cwd,
        timeout_s=timeout_s,
        call_id=ctx.call_id,
        signal=ctx.signal,
        on_output=show,
        outputs=services.outputs,
        stdin_text=args.input,
        watching=Watching(quiet_s=services.quiet_s, on_quiet=tell_quiet),
    )


async def _start(args: BashArgs, ctx: ToolContext) -> LoopToolResult:
    if ctx.services.shells is None:
        raise ToolFailed("Nothing can go on in the background here. Run it without `background`.")
    shell = ctx.services.shells.start(
        args.command,
        cwd=ctx.cwd,
        timeout_s=args.timeout or BACKGROUND_TIMEOUT_S,
        call_id=ctx.call_id,
        outputs=ctx.services.outputs,
        stdin_text=args.input,
    )
    await shell.end_within(_LOOK_S)
    return shell_result(shell.take_new())
