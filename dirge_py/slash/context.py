"""`/context` and `/compact`: show what is sent to the model, and shorten it."""

from dirge_py.context.view import ContextReport
from dirge_py.conversation.conversation import Conversation
from dirge_py.lib.lazy import late_pattern
from dirge_py.slash.base import FrontEnd, command
from dirge_py.types.errors import UsageError
from dirge_py.types.events import ContextCompacted

_BAR_CELLS = 20
_MOST_DIGITS = 9
_MOST_OFFERED = 20
_MISSPELLED = late_pattern(r"-.*|undo|(show|restore) \S+|restore")
"""Not taken as a focus, because compacting costs a model call."""
_OMITTED_ROW = "  {0.number:>5}  {0.how:<9} {0.author:<12} {0.chars:>9,}  {0.beginning}"


@command(
    "context",
    "show what is sent to the model, and how much of the context window it takes",
    headless=True,
)
async def show_context(args: str, conversation: Conversation, front: FrontEnd) -> None:
    report = conversation.context_report()
    if report is None:
        raise UsageError("This conversation doesn't track its context.")
    front.show("\n".join(_lines(report)))


_UNKNOWN = "unknown cause"
_TRY_AGAIN = "/compact tries again; `[roles] summarize` sets the model for it."


def _compact_words(conversation: Conversation) -> list[str]:
    """The forms of `/compact`, with the newest messages that could be sent in full again."""
    numbers = [item.number for item in conversation.omitted_messages()][-_MOST_OFFERED:]
    return ["show", "--undo", *(f"restore {number}" for number in reversed(numbers))]


@command(
    "compact",
    "summarize old messages, keeping FOCUS above all; show what is left out, or undo",
    usage="[FOCUS | show | restore N | --undo]",
    while_running="no",
    headless=True,
    aliases=("compress",),
    complete=_compact_words,
)
async def compact(args: str, conversation: Conversation, front: FrontEnd) -> None:
    """Compact the history; with `show`, `restore N` or `--undo`, list or restore messages."""
    match args.split():
        case ["--undo"]:
            undone = conversation.undo_compaction()
            if undone is None:
                front.show("There is no compaction to undo.")
            else:
                front.show(f"The last compaction is undone. {_savings_text(undone)}", tone="good")
        case ["show"]:
            left_out = conversation.omitted_messages()
            head = f"Left out or shortened, {len(left_out)} messages "
            rows = [f"{head}(`/compact restore N` sends one again):"] * bool(left_out)
            rows += map(_OMITTED_ROW.format, left_out)
            text = "\n".join(rows)
            front.show(text or "Nothing is left out: every message is sent in full.")
        case ["restore", number] if number.isdecimal() and len(number) <= _MOST_DIGITS:
            shown = conversation.send_whole_again(int(number))
            if shown is None:
                hint = "`/compact show` lists the messages that are."
                raise UsageError(f"Message {int(number)} is not left out.", hint=hint)
            text = f"Message {int(number)} is sent in full again. {_savings_text(shown)}"
            front.show(text, tone="good")
        case words if _MISSPELLED.fullmatch(" ".join(words)):
            hint = "Use show, restore N or --undo, or say what to keep above all."
            raise UsageError(f"/compact doesn't take {args!r}.", hint=hint)
        case _:
            await _compact_now(args, conversation, front)


async def _compact_now(args: str, conversation: Conversation, front: FrontEnd) -> None:
    done: ContextCompacted | None = await conversation.compact(args)
    failed = f"dirge couldn't make a summary: {done.problem or _UNKNOWN}." if done else ""
    if done is None:
        front.show("Nothing to compact: the context wouldn't get smaller.")
    elif done.kind != "failed_summary":
        front.show(f"Compacted. {_savings_text(done)} The session keeps everything.", tone="good")
    elif done.tokens_after >= done.tokens_before:
        front.show(f"{failed} The context is unchanged. {_TRY_AGAIN}", tone="error")
    else:
        text = f"{failed} Old tool results were cut instead. {_savings_text(done)} {_TRY_AGAIN}"
        front.show(text, tone="warning")


def _savings_text(done: ContextCompacted) -> str:
    return f"{done.tokens_before:,} → {done.tokens_after:,} tokens (estimated)."


def _lines(report: ContextReport) -> list[str]:
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
    lines += ["", f"  Compaction {marks}"]
    if report.model_window != report.window:
        lines.append(f"  The model's window: {report.model_window:,} tokens")
    lines.append(
        f"  Messages: {report.messages}, of which {report.folded_messages} are summarized;"
        f" compactions so far: {report.compactions}"
    )
    return lines
