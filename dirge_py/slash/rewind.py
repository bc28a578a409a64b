"""`/rewind`, `/undo`, `/redo` and `/retry`: going back in a session, and taking that back."""

from typing import TYPE_CHECKING

from dirge_py.slash.base import Choice, FrontEnd
from dirge_py.slash.moving import ask_for_yours, ask_what, confirm, move, shortened, when
from dirge_py.types.errors import UsageError
from dirge_py.types.extensions import Command

if TYPE_CHECKING:
    from dirge_py.conversation.conversation import Conversation
    from dirge_py.session.tree import RewindPoint

_HERE = "here"
_MOST_DIGITS = 9


async def rewind(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    timeline = conversation.timeline
    prompt = await _chosen(args, conversation, front)
    if prompt is None:
        return
    destination = timeline.before(prompt.id)
    preview = await timeline.preview(destination)
    what = await ask_what(preview, front)
    if what is None:
        return
    also = await ask_for_yours(preview, front) if what != "conversation" else ()
    if also is not None:
        await move(conversation, front, destination, what, also)


async def undo(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    await _back(args, conversation, front, why="undo")


async def retry(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    await _back(args, conversation, front, why="retry")


async def redo(args: str, conversation: "Conversation", front: FrontEnd) -> None:
    _takes_nothing(args, "redo")
    destination = conversation.timeline.before_last_move()
    preview = await conversation.timeline.preview(destination)
    also = await ask_for_yours(preview, front) if destination.what != "conversation" else ()
    if also is not None:
        await move(conversation, front, destination, None, also)


async def _back(args: str, conversation: "Conversation", front: FrontEnd, *, why: str) -> None:
    _takes_nothing(args, why)
    destination = conversation.timeline.before(why=why)
    preview = await conversation.timeline.preview(destination)
    if await confirm(preview, front):
        await move(conversation, front, destination, None)


async def _chosen(args: str, conversation: "Conversation", front: FrontEnd) -> "RewindPoint | None":
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
        detail = f"{when(prompt.at)}{files}"
        choices.append(Choice(id=prompt.id, label=shortened(prompt.text), detail=detail))
    chosen = await front.pick("Go back to before", choices, current=_HERE)
    return next((prompt for prompt in prompts if prompt.id == chosen), None)


def _takes_nothing(args: str, name: str) -> None:
    if args:
        raise UsageError(f"/{name} takes no words.", hint="/rewind N goes back N prompts.")


def back(conversation: "Conversation") -> list[str]:
    """How far one can go back, by prompts."""
    prompts = conversation.timeline.prompts() if conversation.session_id else ()
    return [str(number) for number in range(1, len(prompts) + 1)]


COMMANDS = (
    Command(
        name="rewind",
        summary="go back to before an earlier prompt: conversation, files or both",
        usage="[N]",
        run=rewind,
        aliases=("checkpoint",),
        while_running="no",
        complete=back,
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
