"""`/context` and `/compact`: what the model is shown, and showing it less."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dirge_py.slash.base import FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.context.report import ContextReport
    from dirge_py.context.shape import OmittedMessage
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.types.events import ContextCompacted

_BAR_CELLS = 20
_MOST_DIGITS = 9
_MOST_OFFERED = 20


async def show_context(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    report = conversation.context_report()
    if report is None:
        raise UsageError("this conversation does not know how its context is made up.")
    front.show("\n".join(_lines(report)))


async def compact(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    """Fold, or with `show`, `restore N` or `--undo` look at what was folded and take it back."""
    word, _, rest = args.partition(" ")
    if word == "--undo" and not rest:
        _undo(conversation, front)
    elif word == "show" and not rest:
        front.show("\n".join(_dropped_lines(conversation.compaction_controls.dropped())))
    elif word == "restore" and _is_number(rest.strip()):
        _show_again(int(rest), conversation, front)
    elif _is_slip(args.split()):
        # A fold costs a model call, so it had better be meant.
        raise UsageError(
            f"/compact has no {args!r}.",
            hint="There are: show, restore N, --undo, and words for what to keep above all.",
        )
    else:
        await _compact_now(args, conversation, front)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _is_slip(words: Sequence[str]) -> bool:
    """Whether it looks like one of the other forms gone wrong, and not like a focus."""
    match words:
        case ["undo" | "restore"] | ["show" | "restore", _]:
            return True
        case [first, *_]:
            return first.startswith("-")
    return False


def _undo(conversation: "Conversation", front: FrontEnd) -> None:
    undone = conversation.compaction_controls.undo()
    if undone is None:
        front.show("There is no compaction to take back.")
        return
    front.show(f"The last compaction was taken back. {_savings_text(undone)}", tone="good")


def _show_again(number: int, conversation: "Conversation", front: FrontEnd) -> None:
    shown = conversation.compaction_controls.show_again(number)
    if shown is None:
        raise UsageError(
            f"message {number} is not left out.", hint="`/compact show` lists what is."
        )
    front.show(f"Message {number} is sent whole again. {_savings_text(shown)}", tone="good")


def _dropped_lines(left_out: "Sequence[OmittedMessage]") -> list[str]:
    if not left_out:
        return ["Nothing is left out: everything is sent as it was said."]
    lines = [
        f"Left out or shortened, {len(left_out)} messages (`/compact restore N` sends one again):"
    ]
    return lines + [
        f"  {item.number:>5}  {item.how:<9} {item.author:<12} {item.chars:>9,}  {item.beginning}"
        for item in left_out
    ]


async def _compact_now(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    done: ContextCompacted | None = await conversation.compact(args)
    if done is None:
        front.show("Nothing to compact: it would not get smaller.")
        return
    if done.kind == "failed_summary":
        words = "No summary could be made."
        if done.tokens_after >= done.tokens_before:
            front.show(f"{words} The context is unchanged.", tone="error")
            return
        front.show(
            f"{words} Old tool results are cut instead. {_savings_text(done)}", tone="warning"
        )
        return
    front.show(f"Compacted. {_savings_text(done)} The session keeps everything.", tone="good")


def _savings_text(done: "ContextCompacted") -> str:
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
        if part.name == "system prompt":
            lines += [f"    {name:<20} {tokens:>10,}" for name, tokens in report.sections]
    marks = ", ".join(f"{name} {mark:.0%}" for name, mark in report.marks)
    lines += ["", f"  Marks: {marks}"]
    if report.model_window != report.window:
        lines.append(f"  The model's window: {report.model_window:,} tokens")
    lines.append(
        f"  Messages: {report.messages}, of which {report.folded_messages} are folded;"
        f" compactions so far: {report.compactions}"
    )
    return lines


def forms(conversation: "Conversation") -> list[str]:
    """Its forms, with the newest of what could be sent whole again."""
    numbers = [item.number for item in conversation.compaction_controls.dropped()][-_MOST_OFFERED:]
    return ["show", "--undo", *(f"restore {number}" for number in reversed(numbers))]


COMMANDS = (
    Command(
        name="context",
        summary="what is sent to the model, and how much of the window it takes",
        run=show_context,
        headless=True,
    ),
    Command(
        name="compact",
        summary="fold old history into a summary, minding FOCUS; look at what is left out, undo",
        usage="[FOCUS | show | restore N | --undo]",
        run=compact,
        while_running="no",
        headless=True,
        aliases=("compress",),
        complete=forms,
    ),
)
