"""Results of the tools that run commands."""

import signal
from collections.abc import Sequence
from typing import Any

from dirge_py.processes.output import excerpt
from dirge_py.processes.running_command import CommandResult
from dirge_py.processes.shells import NewOutput, ShellState
from dirge_py.types.tools import LoopToolResult, ToolOutcome, text_result

_SILENT = "(no output)"
_LEAST_TOLD_S = 1.0


def finished_result(command: str, finished: CommandResult, timeout_s: float) -> LoopToolResult:
    """The answer to a call. A command that failed is a result, not an error of the tool:

    `outcome="failed_command"` says it to whoever counts, the last line to the model.
    """
    code = _exit_code(finished)
    outcome = _outcome(finished, code)
    output = excerpt(finished.output).removesuffix("\n")
    parts = [output or _SILENT, *_notes(finished, timeout_s)]
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
    """New output of a background command and, behind it, how it is."""
    state = new.state
    code = _code_of(state)
    output = excerpt(new.output).removesuffix("\n")
    parts = [output or "(no new output)", *([note] if note else []), describe_shell(state)]
    if code:
        parts.append(f"Exit code: {code}")
    outcome: ToolOutcome = "failed_command" if code else "ok"
    return text_result("\n".join(parts), outcome=outcome, **shell_details(state))


def shell_details(state: ShellState) -> dict[str, Any]:
    """A background command for machines."""
    return {
        "shell_id": state.id,
        "state": state.status,
        "command": state.command,
        "exit_code": _code_of(state),
        "duration_ms": round(state.duration_s * 1000),
        "output_path": state.output_path,
    }


def describe_shell(state: ShellState) -> str:
    """How a background command is, in one line."""
    after = f"after {state.duration_s:.3g} s"
    if state.status == "running":
        if state.question:
            return (
                f"{state.id} has been running for {state.duration_s:.3g} s and waits for an answer"
                f" that cannot come: {state.question!r}. End it with `kill_shell`, and start it"
                " again with `input` or a flag that answers."
            )
        return f"{state.id} has been running for {state.duration_s:.3g} s."
    if state.status == "exited" and state.signal is not None:
        return f"{state.id} was ended by {_signal_name(state.signal)} {after}."
    if state.status == "timed_out":
        return f"{state.id} was stopped at its time limit, {after}."
    return f"{state.id} {'has ended' if state.status == 'exited' else 'was stopped'} {after}."


def _code_of(state: ShellState) -> int | None:
    return state.exit_code if state.signal is None else 128 + state.signal


def _exit_code(finished: CommandResult) -> int | None:
    """As a shell would report it; None if we ended the command ourselves."""
    if finished.timed_out or finished.aborted or finished.question:
        return None
    return finished.exit_code if finished.signal is None else 128 + finished.signal


def _outcome(finished: CommandResult, code: int | None) -> ToolOutcome:
    if finished.timed_out:
        return "timeout"
    if finished.aborted:
        return "aborted"
    if code is None:
        return "error"
    return "ok" if code == 0 else "failed_command"


def _notes(finished: CommandResult, timeout_s: float) -> list[str]:
    notes = []
    if finished.timed_out:
        notes.append(
            f"The command timed out after {timeout_s:g} s and was stopped with all its"
            f" processes.{_quiet_note(finished)} What it did until then stays done. Narrow it, give"
            " a longer `timeout`, or run it in the `background`."
        )
    elif finished.aborted:
        notes.append("The command was aborted. What it did until then stays done.")
    elif finished.question:
        notes.append(
            f"The command asked {finished.question!r} and was stopped: nobody can answer it. What"
            " it did until then stays done. Run it with a flag that answers, such as `--yes`, or"
            " give the answer as `input`."
        )
    elif finished.signal is not None:
        notes.append(f"The command was ended by {_signal_name(finished.signal)}.")
    if finished.stopped:
        processes = "process was" if finished.stopped == 1 else "processes were"
        notes.append(
            f"{finished.stopped} background {processes} stopped: none outlives its command."
        )
    if finished.left:
        notes.append(_left_note(finished.left))
    return notes


def _left_note(pids: Sequence[int]) -> str:
    subject, them = ("process", "it") if len(pids) == 1 else ("processes", "them")
    verb = "is" if len(pids) == 1 else "are"
    return (
        f"{len(pids)} {subject} of this command {verb} still running"
        f" (pid {', '.join(map(str, pids))}): dirge could not stop {them}, or another command that"
        f" still runs may have started {them}. It tries again when that command ends and when the"
        " session ends."
    )


def _quiet_note(finished: CommandResult) -> str:
    if finished.quiet_s < _LEAST_TOLD_S:
        return ""
    if not finished.output.total_bytes:
        return " It wrote nothing at all."
    return f" It wrote nothing in its last {finished.quiet_s:.0f} s."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
