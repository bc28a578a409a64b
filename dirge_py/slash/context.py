"""`/context` and `/compact`: what the model is shown, and showing it less."""

from typing import TYPE_CHECKING

from dirge_py.contributions import Command
from dirge_py.errors import UsageError
from dirge_py.slash.base import FrontEnd

if TYPE_CHECKING:
    from dirge_py.context.report import ContextReport
    from dirge_py.conversation import Conversation
    from dirge_py.events import ContextCompacted

_BAR_CELLS = 20


async def show_context(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    report = conversation.context_report()
    if report is None:
        raise UsageError("this conversation does not know how its context is made up.")
    front.show("\n".join(_lines(report)))


async def compact(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    done: ContextCompacted | None = await conversation.compact(args)
    if done is None:
        front.show("Nothing to compact: it would not get smaller.")
        return
    if done.kind == "failed_summary":
        words = "No summary could be made."
        if done.tokens_after >= done.tokens_before:
            front.show(f"{words} The context is unchanged.", tone="error")
            return
        front.show(f"{words} Old tool results are cut instead. {_saved(done)}", tone="warning")
        return
    front.show(f"Compacted. {_saved(done)} The session keeps everything.", tone="good")


def _saved(done: "ContextCompacted") -> str:
    return f"{done.tokens_before:,} → {done.tokens_after:,} tokens (estimated)."


def _lines(report: "ContextReport") -> list[str]:
    share = report.tokens / report.window
    filled = min(_BAR_CELLS, round(share * _BAR_CELLS))
    lines = [
        f"Context: about {report.tokens:,} of {report.window:,} tokens ({share:.0%})",
        f"  [{'#' * filled}{'.' * (_BAR_CELLS - filled)}]",
        "",
    ]
    for part in report.parts:
        count = f"({part.count})" if part.count else ""
        lines.append(
            f"  {part.name:<14} {count:>7} {part.tokens:>10,}  {part.tokens / report.window:>5.1%}"
        )
    marks = ", ".join(f"{name} {mark:.0%}" for name, mark in report.marks)
    lines += ["", f"  Marks: {marks}"]
    if report.model_window != report.window:
        lines.append(f"  The model's window: {report.model_window:,} tokens")
    lines.append(
        f"  Messages: {report.messages}, of which {report.folded_messages} are folded;"
        f" compactions so far: {report.compactions}"
    )
    return lines


COMMANDS = (
    Command(
        name="context",
        summary="what is sent to the model, and how much of the window it takes",
        run=show_context,
        headless=True,
    ),
    Command(
        name="compact",
        summary="fold old history into a summary now",
        usage="[FOCUS]",
        run=compact,
        while_running="no",
        headless=True,
        aliases=("compress",),
    ),
)
