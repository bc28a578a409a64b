"""The `bash` tool: runs a command line. Also builds the results of all tools that run commands."""

import os.path
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from dirge_py.lib.shell_lexer import line_of_words
from dirge_py.lib.text import plural
from dirge_py.processes.output import excerpt
from dirge_py.processes.runner import BACKGROUND_TIMEOUT_S, MAX_TIMEOUT_S, NewOutput, ShellState
from dirge_py.processes.running_command import CommandResult
from dirge_py.processes.watch import WatchSettings
from dirge_py.tools.arguments import PathText, ToolArgs
from dirge_py.tools.base import Tool, ToolContext, rename_keys
from dirge_py.types.errors import FileError, ToolFailed
from dirge_py.types.tools import (
    Claim,
    LoopToolResult,
    Preview,
    ShellCommand,
    ToolOutcome,
    command_in_folder,
    text_result,
)

_MAX_INPUT_CHARS = 16_000
_LOOK_S = 0.5
"""How long a background command is watched at its start, so that an early failure is reported."""
_OTHER_NAMES = {
    "workdir": "cwd directory dir dir_path working_directory working_dir workingDir"
    " workingDirectory",
    "background": "run_in_background runInBackground is_background isBackground",
    "timeout_ms": "timeoutMs",
}
_NAMES = {other: name for name, others in _OTHER_NAMES.items() for other in others.split()}
"""Names that other agents use for these properties."""
_MIN_MS, _MAX_MS = 10_000, MAX_TIMEOUT_S * 1000
"""Whole thousands in this range must be milliseconds; other numbers are seconds."""


class BashArgs(ToolArgs):
    command: str = Field(description="The command line.", min_length=1)
    timeout: float | None = Field(
        None, gt=0, le=MAX_TIMEOUT_S, description="Seconds after which the command is stopped."
    )
    workdir: PathText | None = Field(
        None, description="Folder to start in, instead of the working directory."
    )
    background: bool = Field(False, description="Return at once; it keeps running.")
    input: str | None = Field(None, max_length=_MAX_INPUT_CHARS, description="Text for its stdin.")


class BashTool(Tool[BashArgs]):
    name = "bash"
    label = "Run"
    args = BashArgs
    needs = ("processes",)
    timeout_s = 0.0  # each call has its own limit

    def prepare(self, arguments: Any) -> Any:
        return _in_seconds(_in_one_line(rename_keys(arguments, _NAMES)))

    def claims(self, args: BashArgs, ctx: ToolContext) -> Sequence[Claim]:
        command = ShellCommand(_as_typed(args, ctx), ctx.cwd)
        claims = [Claim("execute", command, in_background=args.background)]
        folder = _folder(args, ctx)
        # Claimed as a path as well, so that the judged folder is the one it starts in.
        return claims if folder == ctx.cwd else [*claims, Claim("read", folder)]

    def preview(self, args: BashArgs, ctx: ToolContext) -> Preview:
        note = "in the background" if args.background else ""
        return Preview(kind="command", text=_as_typed(args, ctx), note=note)

    async def run(self, args: BashArgs, ctx: ToolContext) -> LoopToolResult:
        folder = _physical_folder(args, ctx)
        result = await (_start if args.background else _finish)(args, folder, ctx)
        if folder == ctx.cwd:
            return result
        return replace(result, details={**result.details, "workdir": folder})


TOOL = BashTool()


def _in_one_line(arguments: Any) -> Any:
    """Return `arguments` with a command that is a list of words, as Codex sends it, as a line."""
    words = arguments.get("command") if isinstance(arguments, dict) else None
    if not isinstance(words, list) or not words or not all(type(word) is str for word in words):
        return arguments
    return {**arguments, "command": line_of_words(words)}


def _in_seconds(arguments: Any) -> Any:
    if not isinstance(arguments, dict):
        return arguments
    timeout_ms, timeout = _number(arguments.get("timeout_ms")), _number(arguments.get("timeout"))
    if timeout_ms is not None and "timeout" not in arguments:
        arguments = {**arguments, "timeout": timeout_ms / 1000}
        del arguments["timeout_ms"]
        return arguments
    if timeout is not None and _MIN_MS <= timeout <= _MAX_MS and timeout % 1000 == 0:
        return {**arguments, "timeout": timeout / 1000}
    return arguments


def _number(value: Any) -> float | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


def _folder(args: BashArgs, ctx: ToolContext) -> str:
    """Return the absolute folder to start in. As with `cd`, `LINK/..` is where the link is."""
    if args.workdir is None:
        return ctx.cwd
    folder = os.path.normpath(ctx.absolute(args.workdir))
    return ctx.cwd if folder == os.path.normpath(ctx.cwd) else folder


def _physical_folder(args: BashArgs, ctx: ToolContext) -> str:
    """Return the physical folder to start in. Raises FileError if it isn't the judged one."""
    folder = _folder(args, ctx)
    if folder == ctx.cwd:
        return folder
    located = ctx.files.locate(folder)
    if located.kind == "dir":
        return located.real
    problem, hint = f"{args.workdir} is not a folder", "Give the folder to start in as `workdir`."
    if not located.exists:
        problem = f"There is no folder {args.workdir}"
        hint = "Create it first, or give another `workdir`."
    raise FileError(f"{problem}, so the command was not run.", hint=hint)


def _as_typed(args: BashArgs, ctx: ToolContext) -> str:
    """Return the command line with its folder, and its input: that is judged too, as commands."""
    command = args.command
    if args.input is not None:
        end = "INPUT"
        while end in args.input.split("\n"):
            end += "_"
        body = args.input if args.input.endswith("\n") or not args.input else f"{args.input}\n"
        command = f"{{ {command}\n}} <<'{end}'\n{body}{end}"
    return command_in_folder(command, _folder(args, ctx), ctx.cwd)


async def _finish(args: BashArgs, folder: str, ctx: ToolContext) -> LoopToolResult:
    services = ctx.services
    timeout_s = args.timeout or services.limits.command_timeout_s
    runner = services.shells or services.processes
    assert runner is not None
    ended = await runner.run(
        args.command,
        cwd=folder,
        timeout_s=timeout_s,
        call_id=ctx.call_id,
        signal=ctx.signal,
        on_output=lambda tail, _total_bytes: ctx.on_update(text_result(tail)),
        outputs=services.outputs,
        stdin_text=args.input,
        watching=WatchSettings(
            quiet_s=services.limits.quiet_s,
            on_quiet=lambda tail, quiet_s: ctx.on_update(text_result(tail, quiet_s=round(quiet_s))),
        ),
    )
    if isinstance(ended, CommandResult):
        return _finished_result(args.command, ended, timeout_s)
    moved = NewOutput(output=ended.output, state=ended.state)
    return shell_result(moved, "The user moved the command to the background. It continues.")


async def _start(args: BashArgs, folder: str, ctx: ToolContext) -> LoopToolResult:
    if ctx.services.shells is None:
        raise ToolFailed("Background commands are not available here. Run it without `background`.")
    shell = ctx.services.shells.start(
        args.command,
        cwd=folder,
        timeout_s=args.timeout or BACKGROUND_TIMEOUT_S,
        call_id=ctx.call_id,
        outputs=ctx.services.outputs,
        stdin_text=args.input,
    )
    await shell.end_within(_LOOK_S)
    return shell_result(shell.read_new_output())


_MIN_QUIET_S = 1.0


def _finished_result(command: str, finished: CommandResult, timeout_s: float) -> LoopToolResult:
    """Return the result of a command. A failed one is a result, not an error of the tool."""
    outcome, code = _outcome(finished)
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


def shell_result(new: NewOutput, note: str = "") -> LoopToolResult:
    """Return the new output of a background command, followed by its state."""
    state = new.state
    code = _exit_code(state)
    output = excerpt(new.output).removesuffix("\n")
    parts = [output or "(no new output)", *([note] if note else []), describe_shell(state)]
    if code:
        parts.append(f"Exit code: {code}")
    outcome: ToolOutcome = "failed_command" if code else "ok"
    return text_result("\n".join(parts), outcome=outcome, **shell_details(state))


def shell_details(state: ShellState) -> dict[str, Any]:
    """Return the state of a background command as details of a result."""
    return {
        "shell_id": state.id,
        "state": state.status,
        "command": state.command,
        "exit_code": _exit_code(state),
        "duration_ms": round(state.duration_s * 1000),
        "output_path": state.output_path,
    }


def describe_shell(state: ShellState) -> str:
    """Describe the state of a background command in one line."""
    seconds = f"{state.duration_s:.3g} s"
    if state.status == "running" and state.question:
        return (
            f"{state.id} has been running for {seconds} and waits for an answer that cannot come:"
            f" {state.question!r}. End it with `kill_shell`, and start it again with `input` or a"
            " flag that answers."
        )
    if state.status == "running":
        return f"{state.id} has been running for {seconds}."
    ending = "has ended" if state.status == "exited" else "was stopped"
    if state.status == "exited" and state.signal is not None:
        ending = f"was ended by {_signal_name(state.signal)}"
    elif state.status == "timed_out":
        ending = "was stopped at its time limit,"
    return f"{state.id} {ending} after {seconds}."


def _exit_code(ended: CommandResult | ShellState) -> int | None:
    return ended.exit_code if ended.signal is None else 128 + ended.signal


def _outcome(finished: CommandResult) -> tuple[ToolOutcome, int | None]:
    """Return the outcome and the exit code, which is None if dirge ended the command."""
    if finished.timed_out or finished.aborted:
        return "timeout" if finished.timed_out else "aborted", None
    code = None if finished.question else _exit_code(finished)
    outcome: ToolOutcome = "ok" if code == 0 else "error" if code is None else "failed_command"
    return outcome, code


def _notes(finished: CommandResult, timeout_s: float) -> list[str]:
    notes = []
    if finished.timed_out:
        quiet = ""
        if finished.quiet_s >= _MIN_QUIET_S:
            has_output = finished.output.total_bytes > 0
            when = f"in its last {finished.quiet_s:.0f} s" if has_output else "at all"
            quiet = f" It wrote nothing {when}."
        notes.append(
            f"The command timed out after {timeout_s:g} s and was stopped with all its"
            f" processes.{quiet} What it did until then stays done. Narrow it, give"
            " a longer `timeout`, or run it in the `background`."
        )
    elif finished.aborted:
        notes.append("The command was aborted. What it did until then stays done.")
    elif finished.question:
        notes.append(
            f"The command asked {finished.question!r} and was stopped: no one can answer it. What"
            " it did until then stays done. Run it with a flag that answers, such as `--yes`, or"
            " give the answer as `input`."
        )
    elif finished.signal is not None:
        notes.append(f"The command was ended by {_signal_name(finished.signal)}.")
    if finished.stopped:
        processes = plural(finished.stopped, "background process")
        were = "was" if finished.stopped == 1 else "were"
        notes.append(f"{processes} {were} stopped: none outlives its command.")
    if pids := finished.left:
        are, them = ("is", "it") if len(pids) == 1 else ("are", "them")
        notes.append(
            f"{plural(len(pids), 'process')} of this command {are} still running"
            f" (pid {', '.join(map(str, pids))}): dirge could not stop {them}, or another command"
            f" that still runs may have started {them}. It tries again when that command ends and"
            " when the session ends."
        )
    return notes


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
