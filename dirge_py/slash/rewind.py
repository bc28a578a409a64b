"""`/rewind`, `/undo`, `/redo` and `/retry`: going back in a session, and taking that back.

A move is previewed, confirmed and reported; `/tree` moves in the same way.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dirge_py.lib.text import one_line, visible
from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command
from dirge_py.types.questions import Question, QuestionOption

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.session.rewind import RewindPreview, RewindResult, RewindScope, RewindTarget
    from dirge_py.session.snapshots.base import TreeChange
    from dirge_py.session.tree import RewindPoint


_HERE = "here"
_MOST_DIGITS = 9
_MOST_FILES = 20
_MOST_OFFERED = 30
_SIGNS = {"added": "+", "changed": "~", "removed": "-"}
_BOTH = "conversation and files"
_TALK = "only the conversation"
_FILES = "only the files"
_GO = "go back"
_CANCEL = "cancel"


async def rewind(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    timeline = conversation.timeline
    prompt = await _chosen_point(args, conversation, front)
    if prompt is None:
        return
    destination = timeline.before(prompt.id)
    preview = await timeline.preview(destination)
    what = await ask_what(preview, front)
    if what is None:
        return
    also = await ask_for_user_files(preview, front) if what != "conversation" else ()
    if also is not None:
        await move_to(conversation, front, destination, what, also)


async def undo(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    await _go_back(args, conversation, front, why="undo")


async def retry(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    await _go_back(args, conversation, front, why="retry")


async def redo(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    _takes_nothing(args, "redo")
    destination = conversation.timeline.before_last_move()
    preview = await conversation.timeline.preview(destination)
    also = await ask_for_user_files(preview, front) if destination.what != "conversation" else ()
    if also is not None:
        await move_to(conversation, front, destination, None, also)


async def _go_back(args: str, conversation: "Conversation", front: FrontEnd, *, why: str) -> None:
    _takes_nothing(args, why)
    destination = conversation.timeline.before(why=why)
    preview = await conversation.timeline.preview(destination)
    if await confirm(preview, front):
        await move_to(conversation, front, destination, None)


async def _chosen_point(
    args: str, conversation: "Conversation", front: FrontEnd
) -> "RewindPoint | None":
    """The prompt to go back before: by its number from the end, or picked."""
    prompts = conversation.timeline.prompts(None if args else 20)
    if not prompts:
        raise UsageError("There is nothing to go back to.", hint="Nothing was said yet.")
    if args:
        if not args.isdecimal() or len(args) > _MOST_DIGITS or not 1 <= int(args) <= len(prompts):
            raise UsageError(
                f"/rewind goes back by a number of prompts, 1 to {len(prompts)}, not {args!r}.",
                hint="/rewind alone lets you pick.",
            )
        return prompts[int(args) - 1]
    changed = await conversation.timeline.changed_since(prompts)
    choices = [Choice(id=_HERE, label="(current)", detail="stay here")]
    for prompt in prompts:
        count = changed.get(prompt.id)
        files = "" if count is None else f", {count} file{'' if count == 1 else 's'} changed since"
        detail = f"{relative_time(prompt.at)}{files}"
        choices.append(Choice(id=prompt.id, label=shortened(prompt.text), detail=detail))
    chosen = await front.pick("Go back to before", choices, current=_HERE)
    return next((prompt for prompt in prompts if prompt.id == chosen), None)


def _takes_nothing(args: str, name: str) -> None:
    if args:
        raise UsageError(f"/{name} takes no words.", hint="/rewind N goes back N prompts.")


def rewind_words(conversation: "Conversation") -> list[str]:
    """How far one can go back, by prompts."""
    prompts = conversation.timeline.prompts() if conversation.session_id else ()
    return [str(number) for number in range(1, len(prompts) + 1)]


async def ask_what(preview: "RewindPreview", front: FrontEnd) -> "RewindScope | None":
    """What is to go there; None: nothing. Only asked where there is something to choose."""
    has_files = bool(preview.changes or preview.yours)
    options = [QuestionOption(label=_TALK, description="the files stay as they are")]
    if has_files:
        options.insert(0, QuestionOption(label=_BOTH))
        options.append(QuestionOption(label=_FILES, description="the messages stay"))
    options.append(QuestionOption(label=_CANCEL))
    chosen = await _ask_one(front, preview_text(preview), options)
    known: dict[str | None, RewindScope] = {_BOTH: "both", _TALK: "conversation", _FILES: "files"}
    return known.get(chosen)


async def confirm(preview: "RewindPreview", front: FrontEnd) -> bool:
    """Whether the person wants that, if files would change; otherwise nobody is asked."""
    if not preview.changes:
        return True
    options = [QuestionOption(label=_GO), QuestionOption(label=_CANCEL)]
    return await _ask_one(front, preview_text(preview), options) == _GO


async def ask_for_user_files(preview: "RewindPreview", front: FrontEnd) -> Sequence[str] | None:
    """Which files of the person's own go back as well; None: they would rather not say."""
    if not preview.yours:
        return ()
    offered = preview.yours[:_MOST_OFFERED]
    more = len(preview.yours) - len(offered)
    text = "You changed these files since. Which of them are put back, too? The others are kept."
    if more:
        text += f" {more} more are kept in any case."
    answers = await front.form(
        [
            Question(
                header="Yours",
                question=text,
                options=tuple(
                    QuestionOption(label=change.path, description=_what_happens(change))
                    for change in offered
                ),
                is_multiple=True,
                is_open=False,
            )
        ]
    )
    return answers[0].chosen if answers else None


async def move_to(
    conversation: "Conversation",
    front: FrontEnd,
    destination: "RewindTarget",
    what: "RewindScope | None",
    also: Sequence[str] = (),
) -> None:
    """Go there, tell what was done, and put the prompt's text into the input."""
    moved = await conversation.timeline.go(destination, what, also=also)
    front.show(result_text(moved), tone="error" if moved.failed else "good")
    if moved.text:
        front.set_input(moved.text)


def preview_text(preview: "RewindPreview") -> str:
    """The preview as text: what becomes of the conversation, then of the files."""
    lines = [_left_behind(preview.left_behind)]
    if preview.unavailable:
        lines.append(f"The files stay as they are: {preview.unavailable}.")
    elif not preview.changes and not preview.yours:
        lines.append("No file would change.")
    if preview.changes:
        lines += [f"{_count(len(preview.changes), 'file')} would be put back:"]
        lines += _change_lines(preview.changes)
    if preview.yours:
        lines += [
            "Changed by you since, and kept unless you choose them:",
            *_change_lines(preview.yours),
        ]
    if preview.left_out:
        lines.append(_as_they_are(preview.left_out))
    return "\n".join(lines)


def _as_they_are(paths: Sequence[str]) -> str:
    return f"Too large for a snapshot or ignored then, so left as they are: {_joined_names(paths)}"


def result_text(moved: "RewindResult") -> str:
    """What a move did, and what it did not."""
    lines = [_headline(moved)]
    if moved.done:
        lines.append(f"{_count(len(moved.done), 'file')} put back: {_joined_names(moved.done)}")
    if moved.failed:
        lines.append(f"{_count(len(moved.failed), 'file')} could not be put back:")
        lines += [f"  {visible(path)}: {visible(why)}" for path, why in moved.failed[:_MOST_FILES]]
        if len(moved.failed) > _MOST_FILES:
            lines.append(f"  and {len(moved.failed) - _MOST_FILES} more")
    if moved.kept:
        lines.append(f"Changed by you since, and kept: {_joined_names(moved.kept)}")
    if moved.left_out:
        lines.append(_as_they_are(moved.left_out))
    if moved.what == "conversation" and moved.unavailable:
        lines.append(f"The files stay as they are: {moved.unavailable}.")
    return "\n".join([*lines, *moved.notices])


def relative_time(at: str, now: datetime | None = None) -> str:
    """How long ago that was (ISO 8601)."""
    try:
        seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"


async def _ask_one(front: FrontEnd, text: str, options: Sequence[QuestionOption]) -> str | None:
    question = Question(header="Rewind", question=text, options=tuple(options), is_open=False)
    answers = await front.form([question])
    return answers[0].chosen[0] if answers and answers[0].chosen else None


def _headline(moved: "RewindResult") -> str:
    if moved.what == "files":
        return "The files went back; the conversation stays. /redo takes that back."
    words = {
        "redo": "The last move was taken back.",
        "clone": "A new branch ends at that message. /redo takes that back.",
        "switch": "Here you are. /redo goes back to where you were.",
        "fork": "A new branch begins here. /redo takes that back.",
    }
    left = _left_behind(moved.left_behind) if moved.left_behind else "Nothing is left behind."
    return words.get(moved.why, f"{left} /redo takes that back.")


def _left_behind(count: int) -> str:
    verb = "is" if count == 1 else "are"
    return f"{_count(count, 'message')} {verb} left behind, on a branch of /tree."


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _change_lines(changes: Sequence["TreeChange"]) -> list[str]:
    lines = [
        f"  {_SIGNS[c.kind]} {visible(c.path)}{_line_counts(c)}" for c in changes[:_MOST_FILES]
    ]
    if len(changes) > _MOST_FILES:
        lines.append(f"  and {len(changes) - _MOST_FILES} more")
    return lines


def _what_happens(change: "TreeChange") -> str:
    words = {"added": "would come back", "changed": "would change", "removed": "would be removed"}
    return f"{words[change.kind]}{_line_counts(change)}"


def _line_counts(change: "TreeChange") -> str:
    return "" if change.lines is None else f"  +{change.lines[0]} -{change.lines[1]}"


def _joined_names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_FILES} more" if len(paths) > _MOST_FILES else ""
    return ", ".join(visible(path) for path in paths[:_MOST_FILES]) + more


def shortened(text: str) -> str:
    """A prompt on one line of a list."""
    return one_line(text, 80)


COMMANDS = (
    Command(
        name="rewind",
        summary="go back to before an earlier prompt: conversation, files or both",
        usage="[N]",
        run=rewind,
        aliases=("checkpoint",),
        while_running="no",
        complete=rewind_words,
    ),
    Command(
        name="undo",
        summary="go back to before the last prompt, with the files",
        run=undo,
        while_running="no",
    ),
    Command(
        name="redo",
        summary="take the last move within the session back",
        run=redo,
        while_running="no",
    ),
    Command(
        name="retry",
        summary="take the last prompt back, with the files, to send it anew",
        run=retry,
        while_running="no",
    ),
)
