"""bash: run a command line."""

import signal
from collections.abc import Sequence

from pydantic import Field

from dirge_py.calls import LoopToolResult, Preview, ToolOutcome, text_result
from dirge_py.claims import Claim, Command
from dirge_py.errors import ToolFailed
from dirge_py.processes.excerpt import excerpt
from dirge_py.processes.runner import MAX_TIMEOUT_S
from dirge_py.processes.running import Finished
from dirge_py.tools.base import Tool, ToolArgs, ToolContext


class BashArgs(ToolArgs):
    command: str = Field(description="The command line.", min_length=1)
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=MAX_TIMEOUT_S,
        description="Seconds after which the command is stopped.",
    )


class Bash(Tool[BashArgs]):
    name = "bash"
    label = "Run"
    args = BashArgs
    mode = "sequential"
    needs = ("processes",)

    def claims(self, args: BashArgs, ctx: ToolContext) -> Sequence[Claim]:
        return [Claim("execute", Command(args.command, ctx.cwd))]

    def preview(self, args: BashArgs, ctx: ToolContext) -> Preview:
        return Preview(kind="command", text=args.command)

    async def run(self, args: BashArgs, ctx: ToolContext) -> LoopToolResult:
        if ctx.services.processes is None:
            raise ToolFailed("Commands cannot be run here. Use the file tools.")

        def show(tail: str, _total_bytes: int) -> None:
            ctx.on_update(text_result(tail))

        timeout_s = args.timeout or ctx.services.command_timeout_s
        finished = await ctx.services.processes.run(
            args.command,
            cwd=ctx.cwd,
            timeout_s=timeout_s,
            call_id=ctx.call_id,
            signal=ctx.signal,
            on_output=show,
            outputs=ctx.services.outputs,
        )
        return _result(args.command, finished, timeout_s)


TOOL = Bash()


def _result(command: str, finished: Finished, timeout_s: float) -> LoopToolResult:
    """The answer to the call. A command that failed is a result, not an error of the tool:

    `outcome="failed_command"` says it to whoever counts, the last line to the model.
    """
    code = _exit_code(finished)
    outcome = _outcome(finished, code)
    output = excerpt(finished.output).removesuffix("\n")
    parts = [output or "(no output)", *_notes(finished, timeout_s)]
    if outcome == "failed_command":
        parts.append(f"Exit code: {code}")
    return text_result(
        "\n".join(parts),
        outcome=outcome,
        is_error=outcome not in ("ok", "failed_command"),
        command=command,
        exit_code=code,
        duration_ms=round(finished.duration_s * 1000),
        timed_out=finished.timed_out,
        output_path=finished.output.path,
    )


def _exit_code(finished: Finished) -> int | None:
    """As a shell would report it; None if we ended the command ourselves."""
    if finished.timed_out or finished.aborted:
        return None
    return finished.exit_code if finished.signal is None else 128 + finished.signal


def _outcome(finished: Finished, code: int | None) -> ToolOutcome:
    if finished.timed_out:
        return "timeout"
    if finished.aborted:
        return "aborted"
    if code is None:
        return "error"
    return "ok" if code == 0 else "failed_command"


def _notes(finished: Finished, timeout_s: float) -> list[str]:
    notes = []
    if finished.timed_out:
        notes.append(
            f"The command timed out after {timeout_s:g} s and was stopped with all its"
            " processes. What it did until then stays done. Narrow it, or give a longer `timeout`."
        )
    elif finished.aborted:
        notes.append("The command was aborted. What it did until then stays done.")
    elif finished.signal is not None:
        notes.append(f"The command was ended by {_signal_name(finished.signal)}.")
    if finished.stopped:
        processes = "process was" if finished.stopped == 1 else "processes were"
        notes.append(
            f"{finished.stopped} background {processes} stopped: none outlives its command."
        )
    if finished.left:
        notes.append(f"{finished.left} of its processes could not be stopped.")
    return notes


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
